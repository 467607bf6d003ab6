//! Claims on storage: what crosses of one, and what is made of it at the provider.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::Digest;
use mercato_protocol::quantity;
use mercato_protocol::terms::PodSecurity;
use serde_json::{Map, Value, json};

use super::labels::{CLAIM as CLAIM_LABEL, CLAIM_NAME};
use super::rule::refusal;
use super::schema_claim::CLAIM;
use super::{GuestContext, Refusal, metadata};
use crate::key::Item;
use crate::message::Route;

/// The names of the claims that a pod of home mounts, those of its ephemeral volumes among them, each with the
/// place of its volume in the spec.
pub fn claims_of(pod: &Value) -> Vec<(usize, String)> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.enumerate().filter_map(|(n, volume)| Some((n, claim_of(pod, volume)?))).collect()
}

/// What the claim of a volume is called, if it has one: that of an ephemeral one as Kubernetes calls it.
fn claim_of(pod: &Value, volume: &Value) -> Option<String> {
    if volume["ephemeral"].is_object() {
        let name = |of: &Value| of["name"].as_str().map(str::to_owned);
        return Some(format!("{}-{}", name(&pod["metadata"])?, name(volume)?));
    }
    volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned)
}

/// Has a pod name its claims as they are called at the provider.
pub(super) fn call(pod: &mut Value, claims: &BTreeMap<String, String>) {
    let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    for (n, volume) in volumes.iter().enumerate() {
        let Some(called) = claim_of(pod, volume).and_then(|name| claims.get(&name)) else {
            continue;
        };
        let mut mount = json!({ "claimName": called });
        if volume["persistentVolumeClaim"]["readOnly"] == true {
            mount["readOnly"] = json!(true);
        }
        let name = &volume["name"];
        pod["spec"]["volumes"][n] = json!({ "name": name, "persistentVolumeClaim": mount });
    }
}

/// The labels of a guest that mounts claims, one for each: [`super::labels::CLAIM`].
pub(super) fn mounted(spec: &Value) -> BTreeSet<String> {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let names = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    names
        .filter_map(|name| name.strip_prefix(CLAIM_NAME))
        .map(|uid| format!("{CLAIM_LABEL}/{uid}"))
        .collect()
}

/// A claim of home's as it is sent: what it asks for. What it is called, and of which class it is, is home's
/// affair.
pub fn export_claim(claim: &Value) -> Value {
    let mut spec = claim["spec"].clone();
    if let Some(fields) = spec.as_object_mut() {
        for of_home in ["storageClassName", "volumeName"] {
            fields.remove(of_home);
        }
    }
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec })
}

/// Why whoever it goes to refuses this claim of home, whatever was bought; none: that depends on the contract.
pub fn refused_claim(claim: &Value) -> Option<Refusal> {
    CLAIM.filter(&export_claim(claim), PodSecurity::Privileged).err()
}

/// The guest claim of a home claim, of the provider's class.
///
/// # Errors
///
/// The field that is not known or not possible, or the whole where the contract has no storage.
pub(super) fn forge_claim(
    item: &Item,
    home: &Value,
    digest: Digest,
    route: &Route,
    ctx: &GuestContext,
) -> Result<Value, Refusal> {
    if !ctx.has_storage() {
        return Err(refusal("kind", "is for storage, of which the contract has none"));
    }
    let missing = "is for storage, whose class is missing at the provider: its owner sees it in mercato share";
    let class = ctx.storage_class.as_ref().ok_or_else(|| refusal("kind", missing))?;
    let mut claim = CLAIM.filter(home, ctx.pod_security)?;
    let amount = claim["spec"]["resources"]["requests"]["storage"].take();
    if amount.as_str().and_then(quantity::units).is_none_or(|bytes| bytes == 0) {
        let path = "spec.resources.requests.storage";
        return Err(refusal(path, "is no amount of storage: write it as 10Gi"));
    }
    claim["spec"]["resources"] = json!({ "requests": { "storage": amount } });
    claim["spec"]["storageClassName"] = json!(class);
    let marks = metadata::metadata(item, &Value::Null, digest, route, Map::new(), ctx)?;
    claim["apiVersion"] = json!("v1");
    claim["kind"] = json!(CLAIM.of);
    claim["metadata"] = Value::Object(marks);
    Ok(claim)
}
