//! What owners have in their clusters: namespaces, pods, settings. When they make and change
//! them is in their scripts.

use mercato_cluster_model::{Cluster, Key};
use mercato_offload::forge::labels;
use mercato_offload::placement::export::{OptIn, Secrets, Targets};
use mercato_protocol::id::ContractId;
use serde_json::{Value, json};

use super::services::{DATA, data};
use crate::limits;

/// What a service mesh calls its certificate, in every namespace.
pub(crate) const MESH: &str = "mesh-ca";

/// The namespaces that every owner has: the one of the script, one that did not opt in, one whose pods may go
/// to a node that is never there, and one whose Services guests of the first may call.
pub(crate) fn namespaces() -> [Value; 4] {
    let shop = OptIn { secrets: Secrets::Deny([KEPT.to_owned()].into()), ..OptIn::default() };
    let lab = OptIn { targets: Targets::new(["mercato-nowhere".to_owned()]), ..OptIn::default() };
    let marked = [
        ("shop", shop.marks()),
        ("bank", json!({})),
        ("lab", lab.marks()),
        (DATA, data(false).marks()),
    ];
    marked.map(|(name, mut metadata)| {
        metadata["name"] = name.into();
        json!({ "kind": "Namespace", "metadata": metadata })
    })
}

/// The virtual node of any lease, if there is one.
pub(super) fn virtual_node(kube: &Cluster) -> Option<String> {
    let mut nodes = kube.objects("Node");
    let node = nodes.find(|(_, node)| !node["metadata"]["labels"][labels::CONTRACT].is_null());
    node.map(|(key, _)| key.name.clone())
}

/// Whether the virtual node of a lease shows that it leaves.
pub(super) fn is_leaving(kube: &Cluster, contract: ContractId) -> bool {
    let contract = contract.to_string();
    let mut nodes = kube.objects("Node").map(|(_, node)| node);
    let node = nodes.find(|node| node["metadata"]["labels"][labels::CONTRACT] == *contract);
    let taints = node.and_then(|node| node["spec"]["taints"].as_array());
    taints.into_iter().flatten().any(|taint| taint["key"] == labels::LEAVING)
}

/// Pods on a virtual node of which none may ever run there: of a namespace that did not opt in, of
/// one whose pods may go elsewhere only, with a secret that stays at home, larger than what was
/// bought, and of more values than home sends.
pub(super) fn staying(node: &str) -> [Value; 5] {
    let pod = |namespace: &str, name: &str, container: Value| {
        let mut pod = json!({
            "kind": "Pod",
            "metadata": { "namespace": namespace, "name": format!("{STAYS}{name}") },
            "spec": { "nodeName": node, "containers": [container] },
        });
        pod["spec"]["containers"][0]["name"] = name.into();
        pod["spec"]["containers"][0]["image"] = "web:1".into();
        pod
    };
    let secret = json!({ "envFrom": [{ "secretRef": { "name": KEPT, "optional": true } }] });
    let large = json!({ "resources": { "requests": { "cpu": "4500m" } } });
    let many = json!({ "args": vec!["-v"; limits::SENT_VALUES] });
    [
        pod("bank", "unasked", json!({})),
        pod("lab", "elsewhere", json!({})),
        pod("shop", "secret", secret),
        pod("shop", "large", large),
        pod("shop", "unsendable", many),
    ]
}

/// What the names of such pods begin with.
pub(crate) const STAYS: &str = "stays-";
/// A config map that is larger than providers take.
const HEAVY: &str = "heavy";
/// The secret of the script's namespace that stays at home.
const KEPT: &str = "vault";

/// Owners of a pod that a controller has made.
pub(super) fn controlled() -> Value {
    json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs",
        "controller": true }])
}

pub(super) fn pod_key(name: u64) -> Key {
    Key::new("Pod", "shop", &format!("web-{name}"))
}

pub(crate) fn settings_key() -> Key {
    Key::new("ConfigMap", "shop", "settings")
}

pub(super) fn settings(version: u64) -> Value {
    json!({ "kind": "ConfigMap", "metadata": { "namespace": "shop", "name": "settings" },
        "data": { "version": version.to_string() } })
}

/// Settings that every pod would read, and that no provider takes: of too many values.
pub(super) fn heavy() -> Value {
    let data: serde_json::Map<_, _> =
        (0..limits::TAKEN_VALUES / 2).map(|nth| (nth.to_string(), json!(""))).collect();
    json!({ "kind": "ConfigMap", "metadata": { "namespace": "shop", "name": HEAVY }, "data": data })
}

/// A pod that may only run on a virtual node. Nobody counts how every second one ends that does not
/// end by itself: somebody else would make another in its place.
pub(super) fn pod(name: u64, ends: bool) -> Value {
    let (image, policy) = if ends { ("job:1", "Never") } else { ("web:1", "Always") };
    let owners = if name.is_multiple_of(2) { controlled() } else { Value::Null };
    json!({
        "kind": "Pod",
        "metadata": { "namespace": "shop", "name": format!("web-{name}"), "ownerReferences": owners },
        "spec": {
            "restartPolicy": policy,
            "nodeSelector": { "type": "virtual-kubelet" },
            "containers": [{
                "name": "web", "image": image,
                "envFrom": [
                    { "configMapRef": { "name": "settings", "optional": true } },
                    { "configMapRef": { "name": MESH, "optional": true } },
                    { "configMapRef": { "name": HEAVY, "optional": true } },
                ],
                "resources": { "requests": { "cpu": "500m", "memory": "256Mi" } },
            }],
        },
    })
}
