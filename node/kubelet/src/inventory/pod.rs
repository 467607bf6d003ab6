//! What a pod takes of its node, as the scheduler counts it.

use std::collections::BTreeMap;

use mercato_offload::placement::{is_device, requests};
use serde_json::Value;

/// One pod that is bound to a node and not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    /// The name of the node where it runs.
    pub node: String,
    /// In which namespace it is.
    pub namespace: String,
    /// Processor time that it asks for, in thousandths of a core.
    pub cpu_millis: u64,
    /// Memory that it asks for, in bytes.
    pub memory_bytes: u64,
    /// What it asks for of resources that somebody has added, such as `nvidia.com/gpu`.
    pub devices: BTreeMap<String, u64>,
}

impl PodView {
    /// None for a pod that takes nothing: not bound yet, or over.
    pub fn read(pod: &Value) -> Option<Self> {
        let node = pod["spec"]["nodeName"].as_str()?.to_owned();
        if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
            return None;
        }
        let asks = requests(&pod["spec"]);
        let ask = |name: &str| asks.get(name).copied().unwrap_or(0);
        let (cpu_millis, memory_bytes) = (ask("cpu"), ask("memory"));
        Some(Self {
            node,
            namespace: pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
            cpu_millis,
            memory_bytes,
            devices: asks.into_iter().filter(|(name, _)| is_device(name)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_over_takes_nothing() {
        let mut pod = json!({ "spec": { "nodeName": "n", "containers": [
            { "resources": { "requests": { "cpu": "1" } } },
        ] } });
        assert_eq!(PodView::read(&pod).unwrap().cpu_millis, 1000);
        pod["status"]["phase"] = "Failed".into();
        assert_eq!(PodView::read(&pod), None);
        assert_eq!(PodView::read(&json!({ "spec": { "containers": [] } })), None);
    }
}
