//! Pods that store: each with a claim of its own, which outlives it.

use mercato_cluster_model::sides::admit;
use mercato_cluster_model::{ApiError, Cluster, Key};
use mercato_offload::forge::labels::PROVIDER;
use mercato_offload::placement::claims::STORAGE_CLASS;
use mercato_offload::placement::export::Scope;
use mercato_protocol::time::Now;
use serde_json::{Value, json};

use super::objects::pod;

const NAMESPACE: &str = "shop";
/// So many GiB each claim asks for, by number: of what is bought (20, and 30 later) not all find room at
/// once, and the third none at first.
const SIZES: [u64; 3] = [6, 11, 22];

/// The pod of that number.
pub(super) fn stored_key(name: u64) -> Key {
    Key::new("Pod", NAMESPACE, &format!("db-{name}"))
}

fn claim_key(name: u64) -> Key {
    Key::new("PersistentVolumeClaim", NAMESPACE, &format!("data-{name}"))
}

/// Makes the pod, and its claim if there is none; one that is lost is given up, and made at the next time.
///
/// # Errors
/// Those of [`Cluster::create`] and [`Cluster::delete`].
pub(super) fn store(kube: &mut Cluster, now: Now, name: u64) -> Result<(), ApiError> {
    match kube.get(&claim_key(name)) {
        Some(claim) if claim["status"]["phase"] == "Lost" => return discard(kube, now, name),
        Some(claim) if !claim["metadata"]["deletionTimestamp"].is_null() => return Ok(()),
        Some(_) => {}
        None => drop(kube.create(now, claim(name))?),
    }
    let Key { name: called, .. } = stored_key(name);
    let mut stored = pod(name, false);
    stored["metadata"]["name"] = json!(called);
    stored["spec"]["volumes"] = json!([{ "name": "data",
        "persistentVolumeClaim": { "claimName": claim_key(name).name } }]);
    stored["spec"]["containers"][0]["volumeMounts"] =
        json!([{ "name": "data", "mountPath": "/data" }]);
    // It says itself that it leaves.
    let leaves = json!([{ "matchExpressions": [{ "key": PROVIDER, "operator": "Exists" }] }]);
    stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({ "nodeSelectorTerms": leaves });
    let stored = admit(kube, Scope::Labelled, stored);
    kube.create(now, stored).map(drop)
}

/// Deletes the claim and its pod.
///
/// # Errors
/// Those of [`Cluster::delete`].
pub(super) fn discard(kube: &mut Cluster, now: Now, name: u64) -> Result<(), ApiError> {
    for key in [stored_key(name), claim_key(name)] {
        if kube.get(&key).is_some() {
            kube.delete(now, &key, None, None)?;
        }
    }
    Ok(())
}

fn claim(name: u64) -> Value {
    let Key { namespace, name: called, .. } = claim_key(name);
    let gi = SIZES[name as usize % SIZES.len()];
    json!({
        "kind": "PersistentVolumeClaim", "metadata": { "namespace": namespace, "name": called },
        "spec": { "storageClassName": STORAGE_CLASS, "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem", "resources": { "requests": { "storage": format!("{gi}Gi") } } },
    })
}
