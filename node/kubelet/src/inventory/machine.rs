//! Which real nodes the cluster has, and where they are on their own network.

use std::net::IpAddr;

use futures::stream::BoxStream;
use serde_json::Value;

use super::node::{is_left_out, is_virtual};
use super::settled::{Seen, told};
use crate::apiserver::cluster::Cluster;
use crate::apiserver::kind::NODE;
use crate::apiserver::watch::{Selection, changes};

/// A real node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeMachine {
    /// The name of the node.
    pub name: String,
    /// Its addresses on the network of the nodes (`InternalIP`), as it tells them.
    pub addresses: Vec<IpAddr>,
    /// Those at which it is on other networks (`ExternalIP`), likewise.
    pub public: Vec<IpAddr>,
    /// Whether it runs pods now (the condition `Ready`).
    pub ready: bool,
    /// Its owner leaves it out (the label `mercato.dev/gateway=off`).
    pub left_out: bool,
}

impl NodeMachine {
    /// None for a virtual node, which is on no machine of the cluster.
    pub fn read(node: &Value) -> Option<Self> {
        if is_virtual(node) {
            return None;
        }
        let all = || node["status"]["addresses"].as_array().into_iter().flatten();
        let of = |kind: &str| {
            let of_kind = all().filter(|address| address["type"] == kind);
            of_kind.filter_map(|address| address["address"].as_str()?.parse().ok()).collect()
        };
        let (addresses, public) = (of("InternalIP"), of("ExternalIP"));
        let name = node["metadata"]["name"].as_str()?.to_owned();
        let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.any(|it| it["type"] == "Ready" && it["status"] == "True");
        let left_out = is_left_out(node);
        Some(Self { name, addresses, public, ready, left_out })
    }
}

/// All real nodes, first when all are known, then whenever one differs. Ends never; an API server
/// out of reach yields nothing.
pub fn machines(cluster: &Cluster) -> BoxStream<'static, Vec<NodeMachine>> {
    told(changes(cluster, NODE, Selection::default(), |node| {
        let uid = node["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        Seen { uid, told: NodeMachine::read(&node) }
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_real_node_is_told_with_its_internal_addresses() {
        let mut node = json!({
            "metadata": { "name": "n1", "uid": "u1", "labels": {} },
            "status": { "conditions": [
                { "type": "DiskPressure", "status": "True" },
                { "type": "Ready", "status": "True" },
            ], "addresses": [
                { "type": "InternalIP", "address": "192.0.2.8" },
                { "type": "InternalIP", "address": "2001:db8::8" },
                { "type": "InternalIP", "address": "forged" },
                { "type": "ExternalIP", "address": "203.0.113.8" },
                { "type": "Hostname", "address": "n1" },
            ] },
        });
        let addresses = vec!["192.0.2.8".parse().unwrap(), "2001:db8::8".parse().unwrap()];
        let public = vec!["203.0.113.8".parse().unwrap()];
        let (name, ready, left_out) = ("n1".into(), true, false);
        let machine = NodeMachine { name, addresses, public, ready, left_out };
        assert_eq!(NodeMachine::read(&node), Some(machine));
        node["status"]["conditions"][1]["status"] = "Unknown".into();
        assert!(!NodeMachine::read(&node).unwrap().ready);
        for (value, left_out) in [("off", true), ("on", false)] {
            node["metadata"]["labels"]["mercato.dev/gateway"] = value.into();
            assert_eq!(NodeMachine::read(&node).unwrap().left_out, left_out, "{value}");
        }
        node["metadata"]["labels"]["type"] = "virtual-kubelet".into();
        assert_eq!(NodeMachine::read(&node), None);
    }
}
