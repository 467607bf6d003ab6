//! Where the pods of the cluster are: on which node, at which address. What is made of it, as the
//! addresses by which other clusters call them, is the tunnel's to say.

use std::net::IpAddr;

use futures::stream::BoxStream;
use serde_json::Value;

use super::TAKES;
use super::settled::{Seen, told};
use crate::cluster::Cluster;
use crate::kind::POD;
use crate::watch::{Selection, changes};

/// Where a pod is that is bound to a node, not over, and on the pod network.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodPlace {
    /// In which namespace it is.
    pub namespace: String,
    /// The name of the node where it runs.
    pub node: String,
    /// Its address on the pod network, once it has one.
    pub address: Option<IpAddr>,
}

impl PodPlace {
    /// None for a pod that has no place of its own: not bound yet, over, or on the host network.
    pub fn read(pod: &Value) -> Option<Self> {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        if spec["hostNetwork"] == true
            || matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"))
        {
            return None;
        }
        Some(Self {
            namespace: pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
            node: spec["nodeName"].as_str().filter(|node| !node.is_empty())?.to_owned(),
            address: status["podIP"].as_str().and_then(|address| address.parse().ok()),
        })
    }
}

/// All places of pods, first when all pods are known, then whenever one differs. Ends never; an
/// API server out of reach yields nothing.
pub fn places(cluster: &Cluster) -> BoxStream<'static, Vec<PodPlace>> {
    let pods = Selection::default().fields(TAKES.to_owned());
    told(changes(cluster, POD, pods, |pod| {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        Seen { uid, told: PodPlace::read(&pod) }
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({ "metadata": { "name": "web", "namespace": "shop", "uid": "u1" },
            "spec": { "nodeName": "n1", "hostNetwork": false },
            "status": { "phase": "Running", "podIP": "10.42.0.7" } })
    }

    fn place(node: &str, address: &str) -> PodPlace {
        let address = address.parse().ok();
        PodPlace { namespace: "shop".into(), node: node.into(), address }
    }

    #[test]
    fn only_who_has_an_address_of_its_own_is_told() {
        assert_eq!(PodPlace::read(&pod()), Some(place("n1", "10.42.0.7")));
        let with = |pointer: &str, value: Value| {
            let mut pod = pod();
            *pod.pointer_mut(pointer).unwrap() = value;
            PodPlace::read(&pod)
        };
        assert_eq!(with("/status/podIP", Value::Null), Some(place("n1", "")));
        assert_eq!(with("/status/podIP", json!("fd00::7")), Some(place("n1", "fd00::7")));
        assert_eq!(with("/status/podIP", json!("forged")), Some(place("n1", "")));
        assert_eq!(with("/status/phase", json!("Pending")), Some(place("n1", "10.42.0.7")));
        for (pointer, value) in [
            ("/status/phase", json!("Succeeded")),
            ("/status/phase", json!("Failed")),
            ("/spec/hostNetwork", json!(true)),
            ("/spec/nodeName", json!("")),
            ("/spec/nodeName", Value::Null),
        ] {
            assert_eq!(with(pointer, value.clone()), None, "{pointer}: {value}");
        }
    }
}
