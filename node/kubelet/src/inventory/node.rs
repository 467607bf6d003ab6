//! What counts of a node: platform, what it can give, its GPUs as NVIDIA's GPU
//! feature discovery labels them, and whether a guest could run there at all.

use std::collections::BTreeMap;

use futures::FutureExt;
use mercato_protocol::gpu::{GpuIsolation, GpuMode, GpuPool, GpuSource};
use mercato_protocol::quantity;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::Platform;
use mercato_protocol::text::{GpuModel, Slug};
use serde_json::Value;

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::kind::NODE;
use crate::names::PROVIDER;

/// One node of the own cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// The node's processor architecture and operating system.
    pub platform: Platform,
    /// What pods may ask for in all, GPUs by model.
    pub allocatable: Resources,
    /// Of its GPUs, if it has any that may be sold whole or as hardware parts.
    /// Counts stand in `allocatable`.
    pub gpu: Option<GpuPool>,
    /// A pod without tolerations may be scheduled here.
    pub open: bool,
}

/// Whether it is no machine of the cluster: a virtual node of ours, or of another kubelet.
pub(super) fn is_virtual(node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    labels["type"] == "virtual-kubelet" || !labels[PROVIDER].is_null()
}

impl NodeView {
    /// None for what is no node of this cluster's own: ours, or another's
    /// virtual kubelet.
    pub fn read(node: &Value) -> Option<Self> {
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
        let gpu = gpu(labels, amounts);
        let mut gpus = BTreeMap::new();
        if let Some(gpu) = gpu.as_ref().filter(|gpu| gpu.count > 0) {
            gpus.insert(gpu.model.clone(), gpu.count);
        }
        let allocatable = Resources {
            cpu_millis: amount("cpu", quantity::millis),
            memory_bytes: amount("memory", quantity::units),
            pods: amount("pods", quantity::units),
            gpus,
        };
        Some(Self { platform, allocatable, gpu, open: open(node) })
    }
}

/// The extended resource of whole NVIDIA GPUs.
pub(super) const NVIDIA: &str = "nvidia.com/gpu";

fn gpu(labels: &Value, amounts: &Value) -> Option<GpuPool> {
    let text = |name: &str| labels[format!("nvidia.com/{name}")].as_str();
    let number = |name: &str| text(name).and_then(|t| t.parse::<u64>().ok());
    let product = text("gpu.product")?;
    // A replica is a turn on a GPU, not a GPU: a node that shares by time, or by
    // MPS, sells none; what the device plugin lists there is multiplied.
    let shared = number("gpu.replicas").is_some_and(|replicas| replicas > 1)
        || text("gpu.sharing-strategy").is_some_and(|strategy| strategy != "none")
        || product.ends_with("-SHARED");
    let count = amounts[NVIDIA].as_str().and_then(quantity::units).unwrap_or(0);
    if shared || count == 0 {
        return None;
    }
    let version = |major: &str, minor: &str| Some(format!("{}.{}", number(major)?, number(minor)?));
    Some(GpuPool {
        model: model(product)?,
        vendor: "nvidia".parse().ok()?,
        pci_id: None,
        memory_mib: number("gpu.memory").unwrap_or(0),
        count,
        most_per_node: count,
        driver: text("cuda.driver-version.full").map(str::to_owned),
        cuda: version("cuda.runtime.major", "cuda.runtime.minor")
            .or_else(|| text("cuda.runtime-version.full").map(str::to_owned)),
        compute_capability: version("gpu.compute.major", "gpu.compute.minor"),
        interconnect: None,
        source: GpuSource::Labels,
        mode: GpuMode::Exclusive,
        isolation: GpuIsolation::Hardware,
        shared_counter: None,
        cpu_millis_per_unit: 0,
        memory_bytes_per_unit: 0,
    })
}

/// `NVIDIA-H100-80GB-HBM3` is `h100`: the first word that has a digit, after
/// the vendor's and the family's.
fn model(product: &str) -> Option<GpuModel> {
    let words = product.to_ascii_lowercase();
    let mut words = words.split(['-', ' ', '_']).filter(|word| !word.is_empty());
    words.find(|word| word.bytes().any(|b| b.is_ascii_digit()))?.parse().ok()
}

/// Whether every node on which guests of that platform may run has a container runtime that
/// gives pods users of their own, as its kubelet says.
pub fn user_namespaces(cluster: &Cluster, platform: &Platform) -> Answer<bool> {
    let (nodes, platform) = (cluster.list(NODE, None, ""), platform.clone());
    async move { Ok(all_have_user_namespaces(&nodes.await?, &platform)) }.boxed()
}

fn all_have_user_namespaces(nodes: &[Value], platform: &Platform) -> bool {
    let takes_guests = |node: &&Value| {
        NodeView::read(node).is_some_and(|view| view.open && view.platform == *platform)
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

fn open(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.is_some_and(|conditions| {
        conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
    });
    let taints = node["spec"]["taints"].as_array();
    let kept_off = taints.is_some_and(|taints| {
        taints.iter().any(|taint| taint["effect"] == "NoSchedule" || taint["effect"] == "NoExecute")
    });
    ready && !kept_off && node["spec"]["unschedulable"] != true
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

    fn with_gpus(labels: Value, count: &str) -> Value {
        let mut node = node();
        for (key, value) in labels.as_object().unwrap() {
            node["metadata"]["labels"][format!("nvidia.com/{key}")] = value.clone();
        }
        node["status"]["allocatable"][NVIDIA] = count.into();
        node
    }

    #[test]
    fn a_plain_node() {
        let view = NodeView::read(&node()).unwrap();
        assert_eq!(view.allocatable.cpu_millis, 15_500);
        assert_eq!(view.allocatable.memory_bytes, 64 << 30);
        assert!(view.open && view.gpu.is_none());
    }

    #[test]
    fn virtual_nodes_are_never_counted() {
        let mut ours = node();
        ours["metadata"]["labels"][PROVIDER] = "abc".into();
        assert_eq!(NodeView::read(&ours), None);
        let mut other = node();
        other["metadata"]["labels"]["type"] = "virtual-kubelet".into();
        assert_eq!(NodeView::read(&other), None);
    }

    #[test]
    fn gpus_by_their_labels() {
        let labels = json!({ "gpu.product": "NVIDIA-H100-80GB-HBM3", "gpu.memory": "81559",
            "gpu.replicas": "1", "gpu.compute.major": "9", "gpu.compute.minor": "0" });
        let view = NodeView::read(&with_gpus(labels, "8")).unwrap();
        let gpu = view.gpu.unwrap();
        assert_eq!((gpu.model.as_str(), gpu.count, gpu.memory_mib), ("h100", 8, 81_559));
        assert_eq!(gpu.compute_capability.as_deref(), Some("9.0"));
        assert_eq!(view.allocatable.gpus[&gpu.model], 8);
    }

    #[test]
    fn replicas_are_no_gpus() {
        for labels in [
            json!({ "gpu.product": "NVIDIA-L4", "gpu.replicas": "4" }),
            json!({ "gpu.product": "NVIDIA-L4-SHARED" }),
            json!({ "gpu.product": "NVIDIA-L4", "gpu.sharing-strategy": "time-slicing" }),
            json!({ "gpu.product": "NVIDIA-L4", "gpu.sharing-strategy": "mps" }),
        ] {
            let view = NodeView::read(&with_gpus(labels.clone(), "4")).unwrap();
            assert!(view.gpu.is_none() && view.allocatable.gpus.is_empty(), "{labels}");
        }
    }

    #[test]
    fn models_have_one_spelling() {
        for (product, slug) in [
            ("NVIDIA-A100-SXM4-40GB", "a100"),
            ("Tesla-T4", "t4"),
            ("NVIDIA-L40S", "l40s"),
            ("NVIDIA H200", "h200"),
        ] {
            assert_eq!(model(product).unwrap().as_str(), slug);
        }
    }

    #[test]
    fn a_closed_node() {
        for (path, value) in [
            ("/spec", json!({ "unschedulable": true })),
            ("/spec", json!({ "taints": [{ "key": "a", "effect": "NoSchedule" }] })),
            ("/status/conditions", json!([{ "type": "Ready", "status": "Unknown" }])),
        ] {
            let mut node = node();
            *node.pointer_mut(path).unwrap() = value;
            assert!(!NodeView::read(&node).unwrap().open);
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
        let platform = NodeView::read(&node()).unwrap().platform;
        let all = |nodes: &[Value]| all_have_user_namespaces(nodes, &platform);
        assert!(all(&[with(can.clone()), with(can.clone())]));
        assert!(!all(&[]) && !all(&[with(Value::Null)]));
        assert!(!all(&[with(can.clone()), with(cannot.clone())]));
        let mut kept_off = with(cannot);
        kept_off["spec"]["unschedulable"] = json!(true);
        assert!(all(&[with(can), kept_off]), "no guest runs there");
    }
}
