//! Claims and volumes: what was chosen for a node of the model's is made there, what was made for a claim is
//! bound to it by its uid, and neither goes while it is used. Volumes of any other class are somebody else's
//! to make and to remove.

use mercato_offload::forge::claims_of;
use mercato_offload::placement::claims::SELECTED_NODE;
use mercato_offload::placement::spec::VOLUME_PROTECTION;
use mercato_protocol::quantity;
use mercato_protocol::time::Now;
use serde_json::{Value, json};

use super::{Cluster, Key, LOCAL_CLASS};

pub(super) const CLAIM: &str = "PersistentVolumeClaim";
pub(super) const VOLUME: &str = "PersistentVolume";
const CAPACITY: &str = "CSIStorageCapacity";
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";

/// What an API server adds to a new claim or volume.
pub(super) fn add_protection(object: &mut Value) {
    let (finalizer, phase) = match object["kind"].as_str() {
        Some(CLAIM) => (CLAIM_PROTECTION, "Pending"),
        Some(VOLUME) => (VOLUME_PROTECTION, "Available"),
        _ => return,
    };
    let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(finalizer.into());
    object["metadata"]["finalizers"] = finalizers.into();
    object["status"] = json!({ "phase": phase });
}

/// What a claim keeps that somebody applies who says nothing of it.
pub(super) fn keep_of_claim(old: &Value, new: &mut Value) {
    new["metadata"]["finalizers"] = old["metadata"]["finalizers"].clone();
    let selected = &old["metadata"]["annotations"][SELECTED_NODE];
    if !selected.is_null() {
        new["metadata"]["annotations"][SELECTED_NODE] = selected.clone();
    }
}

impl Cluster {
    /// Does what the controllers of claims and volumes do.
    pub(super) fn keep_volumes(&mut self, now: Now) {
        for (key, claim) in copies(self, CLAIM) {
            keep_claim(self, now, key, claim);
        }
        for (key, volume) in copies(self, VOLUME) {
            keep_volume(self, now, key, volume);
        }
    }
}

fn copies(cluster: &Cluster, kind: &str) -> Vec<(Key, Value)> {
    cluster.objects(kind).map(|(key, object)| (key.clone(), object.clone())).collect()
}

fn keep_claim(cluster: &mut Cluster, now: Now, key: Key, mut claim: Value) {
    if !claim["metadata"]["deletionTimestamp"].is_null() {
        if !is_mounted(cluster, &key) {
            free(cluster, now, key, claim, CLAIM_PROTECTION);
        }
        return;
    }
    let volume = match text(&claim["spec"]["volumeName"]) {
        Some(volume) => {
            let is_lost = cluster.get(&Key::new(VOLUME, "", volume)).is_none();
            if is_lost && claim["status"]["phase"] != "Lost" {
                claim["status"]["phase"] = json!("Lost");
                cluster.store(now, key, claim);
            }
            return;
        }
        None => made_for(cluster, &claim).or_else(|| make_for(cluster, now, &claim)),
    };
    let Some((place, mut volume)) = volume else { return };
    claim["spec"]["volumeName"] = json!(place.name);
    claim["status"]["phase"] = json!("Bound");
    volume["status"]["phase"] = json!("Bound");
    cluster.store(now, place, volume);
    cluster.store(now, key, claim);
}

/// The volume that stands there for this claim.
fn made_for(cluster: &Cluster, claim: &Value) -> Option<(Key, Value)> {
    let uid = &claim["metadata"]["uid"];
    let mut all = cluster.objects(VOLUME);
    let found = all.find(|(_, volume)| {
        let stays = volume["metadata"]["deletionTimestamp"].is_null();
        stays && volume["spec"]["claimRef"]["uid"] == *uid
    });
    found.map(|(key, volume)| (key.clone(), volume.clone()))
}

/// A volume on the node of the model's that was chosen for this claim.
fn make_for(cluster: &mut Cluster, now: Now, claim: &Value) -> Option<(Key, Value)> {
    let metadata = &claim["metadata"];
    let node = text(&metadata["annotations"][SELECTED_NODE])?;
    if claim["spec"]["storageClassName"] != LOCAL_CLASS || !cluster.kubelets.contains(node) {
        return None;
    }
    let key = Key::new(VOLUME, "", &format!("pvc-{}", text(&metadata["uid"])?));
    let mut volume = json!({
        "kind": VOLUME, "metadata": { "name": key.name },
        "spec": {
            "storageClassName": LOCAL_CLASS, "persistentVolumeReclaimPolicy": "Delete",
            "capacity": claim["spec"]["resources"]["requests"],
            "claimRef": { "namespace": metadata["namespace"], "name": metadata["name"],
                "uid": metadata["uid"] },
        },
    });
    add_protection(&mut volume);
    cluster.made += 1;
    volume["metadata"]["uid"] = json!(format!("{}-{:06}", cluster.name, cluster.made));
    Some((key.clone(), cluster.store(now, key, volume)))
}

fn keep_volume(cluster: &mut Cluster, now: Now, key: Key, mut volume: Value) {
    let of = &volume["spec"]["claimRef"];
    let at = [&of["namespace"], &of["name"]].map(|it| text(it).unwrap_or_default());
    let claim = cluster.get(&Key::new(CLAIM, at[0], at[1]));
    let claim = claim.filter(|claim| claim["metadata"]["uid"] == of["uid"]);
    let is_bound = claim.is_some_and(|claim| claim["spec"]["volumeName"] == *key.name);
    let is_released = claim.is_none() && !of.is_null();
    if is_released && volume["status"]["phase"] != "Released" {
        volume["status"]["phase"] = json!("Released");
        volume = cluster.store(now, key.clone(), volume);
    }
    let is_local = volume["spec"]["storageClassName"] == LOCAL_CLASS;
    let deletes = volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete";
    if is_released && is_local && deletes {
        volume["metadata"]["deletionTimestamp"] = json!("released");
        volume["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    }
    if !volume["metadata"]["deletionTimestamp"].is_null() && !is_bound {
        free(cluster, now, key, volume, VOLUME_PROTECTION);
    }
}

fn free(cluster: &mut Cluster, now: Now, key: Key, mut object: Value, finalizer: &str) {
    let finalizers = object["metadata"]["finalizers"].as_array_mut();
    let Some(finalizers) = finalizers.filter(|all| all.iter().any(|it| it == finalizer)) else {
        return;
    };
    finalizers.retain(|it| it != finalizer);
    cluster.store(now, key, object);
}

/// Whether a pod on a node has the claim, which has not ended.
fn is_mounted(cluster: &Cluster, claim: &Key) -> bool {
    let mut pods = cluster.objects("Pod").filter(|(key, _)| key.namespace == claim.namespace);
    pods.any(|(_, pod)| {
        let has_ended = pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed";
        let is_bound = !pod["spec"]["nodeName"].is_null();
        is_bound && !has_ended && claims_of(pod).iter().any(|(_, name)| *name == claim.name)
    })
}

/// Why a node does not take the pod, by what it mounts.
pub(super) fn obstacle(cluster: &Cluster, pod: &Value, node: &Value) -> Option<String> {
    claims(cluster, pod).into_iter().find_map(|(key, claim)| {
        let Some(claim) = claim else {
            return Some(format!("persistentvolumeclaim {:?} not found", key.name));
        };
        let volume = text(&claim["spec"]["volumeName"]);
        let reason = if !claim["metadata"]["deletionTimestamp"].is_null() {
            "persistentvolumeclaim is being deleted"
        } else if let Some(volume) = volume {
            match cluster.get(&Key::new(VOLUME, "", volume)) {
                None => "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
                Some(volume) if !is_near(volume, node) => {
                    "node(s) didn't match PersistentVolume's node affinity"
                }
                Some(_) => return None,
            }
        } else {
            match text(&claim["metadata"]["annotations"][SELECTED_NODE]) {
                Some(chosen) if node["metadata"]["name"] == chosen => return None,
                Some(_) => "node(s) didn't find available persistent volumes to bind",
                None if has_room(cluster, claim, node) => return None,
                None => "node(s) did not have enough free storage",
            }
        };
        Some(reason.to_owned())
    })
}

/// Chooses this node for what the pod mounts and is bound to nothing yet; whether the pod can go there
/// now.
pub(super) fn choose(cluster: &mut Cluster, now: Now, pod: &Value, node: &str) -> bool {
    let claims = claims(cluster, pod);
    let unbound = claims.into_iter().filter_map(|(key, claim)| Some((key, claim?.clone())));
    let unbound: Vec<_> =
        unbound.filter(|(_, claim)| claim["spec"]["volumeName"].is_null()).collect();
    let is_ready = unbound.is_empty();
    for (key, mut claim) in unbound {
        let chosen = &mut claim["metadata"]["annotations"][SELECTED_NODE];
        if chosen.is_null() {
            *chosen = json!(node);
            cluster.store(now, key, claim);
        }
    }
    is_ready
}

fn claims<'c>(cluster: &'c Cluster, pod: &Value) -> Vec<(Key, Option<&'c Value>)> {
    let namespace = text(&pod["metadata"]["namespace"]).unwrap_or_default();
    let keys = claims_of(pod).into_iter().map(|(_, name)| Key::new(CLAIM, namespace, &name));
    keys.map(|key| (key.clone(), cluster.get(&key))).collect()
}

fn has_room(cluster: &Cluster, claim: &Value, node: &Value) -> bool {
    let class = &claim["spec"]["storageClassName"];
    if class == LOCAL_CLASS {
        return text(&node["metadata"]["name"]).is_some_and(|name| cluster.kubelets.contains(name));
    }
    let bytes = |amount: &Value| amount.as_str().and_then(quantity::units);
    let wanted = bytes(&claim["spec"]["resources"]["requests"]["storage"]);
    let mut all = cluster.objects(CAPACITY);
    all.any(|(_, capacity)| {
        let labels = capacity["nodeTopology"]["matchLabels"].as_object().into_iter().flatten();
        let mut labels = labels.map(|(name, value)| node["metadata"]["labels"][name] == *value);
        capacity["storageClassName"] == *class
            && labels.all(|is_so| is_so)
            && wanted.is_some_and(|wanted| bytes(&capacity["capacity"]) >= Some(wanted))
    })
}

/// Whether the node has a label of each name that the volume asks for.
fn is_near(volume: &Value, node: &Value) -> bool {
    let terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"].as_array();
    terms.is_none_or(|terms| {
        terms.iter().any(|term| {
            let mut all = term["matchExpressions"].as_array().into_iter().flatten();
            all.all(|one| {
                let name = text(&one["key"]).unwrap_or_default();
                one["operator"] == "Exists" && !node["metadata"]["labels"][name].is_null()
            })
        })
    })
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}
