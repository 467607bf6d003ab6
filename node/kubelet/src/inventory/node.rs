//! What counts of a node: platform, what it can give, what of its GPUs is sold, and whether a guest
//! could run there at all.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt;
use mercato_offload::placement::{NodeLabels, Taint, taints_of_device};
use mercato_protocol::quantity;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::Platform;
use mercato_protocol::text::Slug;
use serde_json::Value;

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::kind::NODE;
use crate::names::{GATEWAY, GATEWAY_OFF, PROVIDER};

use super::gpus::telling::telling;
use super::gpus::{self, Found, OwnersWord, Unit, Unsold};

/// One node of the own cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// The node's processor architecture and operating system.
    pub platform: Platform,
    /// What pods may ask for in all, GPUs by model.
    pub allocatable: Resources,
    /// What of its GPUs is sold; counts stand in `allocatable`, too.
    pub units: Vec<Unit>,
    /// What of its GPUs is not sold.
    pub unsold: Vec<Unsold>,
    /// Its processors and memory are sold with its GPUs alone, each of which has its share: whoever
    /// bought processors would leave the GPUs without any. So it is of all nodes with GPUs, unless
    /// the owner says otherwise.
    pub is_for_gpus: bool,
    /// A guest may be scheduled here: no taint keeps it off, but for those of devices that are sold
    /// and those that the owner names.
    pub open: bool,
    /// The labels by which guests may find it.
    pub labels: BTreeMap<String, String>,
    /// What it says of itself that home may be told.
    pub said: NodeLabels,
    /// Taints that the owner lets guests tolerate.
    pub taints: BTreeSet<Taint>,
    /// Its owner leaves it out of tunnels.
    pub left_out: bool,
}

/// Whether it is no machine of the cluster: a virtual node of ours, or of another kubelet.
pub(super) fn is_virtual(node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    labels["type"] == "virtual-kubelet" || !labels[PROVIDER].is_null()
}

/// Whether its owner leaves it out, or its kubelet, which may label it so: no guest runs there.
pub(super) fn is_left_out(node: &Value) -> bool {
    node["metadata"]["labels"][GATEWAY] == GATEWAY_OFF
}

impl NodeView {
    /// None for what is no node of this cluster's own: ours, or another's
    /// virtual kubelet.
    pub fn read(node: &Value, word: &OwnersWord) -> Option<Self> {
        if is_virtual(node) {
            return None;
        }
        let labels = &node["metadata"]["labels"];
        let info = &node["status"]["nodeInfo"];
        let slug = |label: &str, field: &str| {
            let text = labels[label].as_str().or_else(|| info[field].as_str())?;
            text.parse::<Slug>().ok()
        };
        let platform = Platform {
            arch: slug("kubernetes.io/arch", "architecture")?,
            os: slug("kubernetes.io/os", "operatingSystem")?,
        };
        let amounts = &node["status"]["allocatable"];
        let amount = |name: &str, read: fn(&str) -> Option<u64>| {
            amounts[name].as_str().and_then(read).unwrap_or(0)
        };
        let Found { units, unsold, has_gpus } = gpus::read(node, word);
        let gpus = units.iter().map(|unit| (unit.gpu.model.clone(), unit.gpu.count)).collect();
        let allocatable = Resources {
            cpu_millis: amount("cpu", quantity::millis),
            memory_bytes: amount("memory", quantity::units),
            pods: amount("pods", quantity::units),
            storage_bytes: 0,
            gpus,
        };
        let taints = taints(node, word);
        let keys: BTreeSet<_> =
            units.iter().flat_map(|unit| taints_of_device(&unit.resource)).collect();
        let open = open(node, |taint| {
            let is_of_device = taint["key"].as_str().is_some_and(|key| keys.contains(key));
            let read = read_taint(taint);
            taint["effect"] == "NoSchedule" && (is_of_device || taints.contains(&read))
        });
        let is_for_gpus = has_gpus && !word.any_node;
        let (said, labels) = (NodeLabels::of_node(labels), telling(labels));
        let left_out = is_left_out(node);
        Some(Self {
            platform,
            allocatable,
            units,
            unsold,
            is_for_gpus,
            open,
            labels,
            said,
            taints,
            left_out,
        })
    }
}

/// Whether every node on which guests of that platform may run has a container runtime that
/// gives pods users of their own, as its kubelet says.
pub fn user_namespaces(cluster: &Cluster, platform: &Platform) -> Answer<bool> {
    let (nodes, platform) = (cluster.list(NODE, None, ""), platform.clone());
    async move { Ok(all_have_user_namespaces(&nodes.await?, &platform)) }.boxed()
}

fn all_have_user_namespaces(nodes: &[Value], platform: &Platform) -> bool {
    let word = OwnersWord::default();
    let takes_guests = |node: &&Value| {
        NodeView::read(node, &word).is_some_and(|view| view.open && view.platform == *platform)
    };
    let has = |node: &Value| {
        let handlers = node["status"]["runtimeHandlers"].as_array().into_iter().flatten();
        // The handler without a name is that of pods without a runtime class.
        let mut usual =
            handlers.filter(|handler| matches!(handler["name"].as_str(), None | Some("")));
        usual.any(|handler| handler["features"]["userNamespaces"] == true)
    };
    let mut guests = nodes.iter().filter(takes_guests).peekable();
    guests.peek().is_some() && guests.all(has)
}

/// The taints that keep pods off without driving them away, of those that the owner names.
fn taints(node: &Value, word: &OwnersWord) -> BTreeSet<Taint> {
    let all = node["spec"]["taints"].as_array().into_iter().flatten();
    let read = all.filter(|taint| taint["effect"] == "NoSchedule").map(read_taint);
    read.filter(|taint| word.tolerate.contains(taint)).collect()
}

fn read_taint(taint: &Value) -> Taint {
    let text = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
    Taint { key: text("key"), value: text("value") }
}

fn open(node: &Value, is_tolerated: impl Fn(&Value) -> bool) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.is_some_and(|conditions| {
        conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
    });
    let keeps_off = |taint: &Value| {
        let effect = taint["effect"].as_str();
        matches!(effect, Some("NoSchedule" | "NoExecute")) && !is_tolerated(taint)
    };
    let kept_off = node["spec"]["taints"].as_array().is_some_and(|it| it.iter().any(keeps_off));
    ready && !kept_off && node["spec"]["unschedulable"] != true && !is_left_out(node)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(in crate::inventory) fn node() -> Value {
        json!({
            "metadata": { "name": "n", "labels": {
                "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux" } },
            "spec": {},
            "status": {
                "allocatable": { "cpu": "15500m", "memory": "64Gi", "pods": "110" },
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        })
    }

    pub(in crate::inventory) fn read(node: &Value) -> Option<NodeView> {
        NodeView::read(node, &OwnersWord::default())
    }

    fn with_gpus(labels: Value, count: &str) -> Value {
        let mut node = node();
        for (key, value) in labels.as_object().unwrap() {
            node["metadata"]["labels"][format!("nvidia.com/{key}")] = value.clone();
        }
        node["status"]["allocatable"]["nvidia.com/gpu"] = count.into();
        node
    }

    #[test]
    fn a_plain_node() {
        let view = read(&node()).unwrap();
        assert_eq!(view.allocatable.cpu_millis, 15_500);
        assert_eq!(view.allocatable.memory_bytes, 64 << 30);
        assert!(view.open && view.units.is_empty() && !view.is_for_gpus);
    }

    #[test]
    fn virtual_nodes_are_never_counted() {
        let mut ours = node();
        ours["metadata"]["labels"][PROVIDER] = "abc".into();
        assert_eq!(read(&ours), None);
        let mut other = node();
        other["metadata"]["labels"]["type"] = "virtual-kubelet".into();
        assert_eq!(read(&other), None);
    }

    /// What discovery says of eight whole devices.
    fn h100() -> Value {
        json!({ "gpu.product": "NVIDIA-H100-80GB-HBM3", "gpu.memory": "81559", "gpu.count": "8",
            "gpu.replicas": "1", "gpu.compute.major": "9", "gpu.compute.minor": "0" })
    }

    #[test]
    fn gpus_by_their_labels() {
        let view = read(&with_gpus(h100(), "8")).unwrap();
        let [Unit { gpu, .. }] = &view.units[..] else { panic!("one kind: {view:?}") };
        assert_eq!((gpu.model.as_str(), gpu.count), ("h100-80gb-sxm", 8));
        assert_eq!(gpu.compute_capability.as_deref(), Some("9.0"));
        assert_eq!(view.allocatable.gpus[&gpu.model], 8);
    }

    #[test]
    fn a_taint_that_the_owner_names_keeps_nobody_off() {
        let taint = |value: &str| Taint { key: "sku".to_owned(), value: value.to_owned() };
        let word = OwnersWord { tolerate: [taint("gpu")].into(), ..OwnersWord::default() };
        let mut node = node();
        for (value, effect, open) in
            [("gpu", "NoSchedule", true), ("gpu", "NoExecute", false), ("cpu", "NoSchedule", false)]
        {
            let taints = json!([{ "key": "sku", "value": value, "effect": effect }]);
            node["spec"] = json!({ "taints": taints });
            let view = NodeView::read(&node, &word).unwrap();
            assert_eq!((view.open, view.taints.len()), (open, usize::from(open)), "{taints}");
        }
    }

    #[test]
    fn a_taint_of_the_gpus_that_are_sold_keeps_nobody_off() {
        let taint =
            |key: &str, effect: &str| json!({ "taints": [{ "key": key, "effect": effect }] });
        let mut node = with_gpus(h100(), "8");
        node["spec"] = taint("nvidia.com/gpu", "NoSchedule");
        assert!(read(&node).unwrap().open);
        node["spec"] = taint("nvidia.com/gpu", "NoExecute");
        assert!(!read(&node).unwrap().open);
        node["spec"] = taint("sku", "NoSchedule");
        assert!(!read(&node).unwrap().open);
        node["spec"] = taint("nvidia.com/gpu", "NoSchedule");
        node["metadata"]["labels"]["nvidia.com/gpu.count"] = "1".into();
        assert!(!read(&node).unwrap().open, "what is not sold is not open");
    }

    #[test]
    fn a_closed_node() {
        for (path, value) in [
            ("/spec", json!({ "unschedulable": true })),
            ("/spec", json!({ "taints": [{ "key": "a", "effect": "NoSchedule" }] })),
            ("/status/conditions", json!([{ "type": "Ready", "status": "Unknown" }])),
            (
                "/metadata/labels",
                json!({ "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
                "mercato.dev/gateway": "off" }),
            ),
        ] {
            let mut node = node();
            *node.pointer_mut(path).unwrap() = value;
            assert!(!read(&node).unwrap().open);
        }
    }

    #[test]
    fn user_namespaces_are_there_where_every_node_for_guests_says_so() {
        let with = |handlers: Value| {
            let mut node = node();
            node["status"]["runtimeHandlers"] = handlers;
            node
        };
        let can = json!([{ "name": "", "features": { "userNamespaces": true } },
            { "name": "runsc", "features": { "userNamespaces": false } }]);
        let cannot = json!([{ "features": { "userNamespaces": false } },
            { "name": "crun", "features": { "userNamespaces": true } }]);
        let platform = read(&node()).unwrap().platform;
        let all = |nodes: &[Value]| all_have_user_namespaces(nodes, &platform);
        assert!(all(&[with(can.clone()), with(can.clone())]));
        assert!(!all(&[]) && !all(&[with(Value::Null)]));
        assert!(!all(&[with(can.clone()), with(cannot.clone())]));
        let mut kept_off = with(cannot);
        kept_off["spec"]["unschedulable"] = json!(true);
        assert!(all(&[with(can), kept_off]), "no guest runs there");
    }
}
