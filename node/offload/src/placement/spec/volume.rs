//! What home's cluster has of a lease's storage: a volume for each claim, and how much is left.

use mercato_protocol::id::ContractId;
use serde_json::{Value, json};

use crate::forge::claim_name;
use crate::forge::labels::CONTRACT;
use crate::placement::claims::{DRIVER, STORAGE_CLASS};

/// What keeps a volume until the provider has removed what is stored.
pub const VOLUME_FINALIZER: &str = "mercato.dev/volume";
/// What Kubernetes keeps a volume by while a claim is bound to it.
pub const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// The label of a virtual node by which the volumes of a contract find it.
pub fn volumes_label(contract: &ContractId) -> String {
    format!("{DRIVER}/{contract}")
}

/// The volume of a home claim under this contract, bound to that claim by its uid. None: it is no claim of an
/// API server's.
pub fn volume(claim: &Value, contract: &ContractId) -> Option<Value> {
    let (metadata, spec) = (&claim["metadata"], &claim["spec"]);
    let uid = metadata["uid"].as_str()?;
    Some(json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": claim_name(uid),
            "labels": { CONTRACT: contract.to_string() },
            "annotations": { "pv.kubernetes.io/provisioned-by": DRIVER },
            "finalizers": [VOLUME_FINALIZER],
        },
        "spec": {
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": STORAGE_CLASS,
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"], "name": metadata["name"], "uid": uid,
            },
            "csi": { "driver": DRIVER, "volumeHandle": format!("{contract}/{uid}") },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                { "key": volumes_label(contract), "operator": "Exists" }] }] } },
        },
    }))
}

/// What the object is called that says how much of a contract's storage is left.
pub fn capacity_name(contract: &ContractId) -> String {
    format!("mercato-{contract}")
}

/// How many bytes of it are left, as the scheduler looks for them.
pub fn storage_capacity(contract: &ContractId, left: u64) -> Value {
    json!({
        "nodeTopology": { "matchLabels": { CONTRACT: contract.to_string() } },
        "storageClassName": STORAGE_CLASS,
        "capacity": left.to_string(),
        "maximumVolumeSize": left.to_string(),
    })
}
