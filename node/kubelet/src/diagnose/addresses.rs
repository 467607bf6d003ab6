//! Virtual nodes at the address of a real one: it is that of the daemon's machine, where their kubelet
//! APIs are. Whoever tells nodes apart by their addresses takes one for the other.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use serde_json::Value;

use super::OURS;
use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::kind::NODE;

/// A virtual node whose `InternalIP` is another node's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares {
    /// The name of the virtual node.
    pub node: String,
    /// The name of the other one, which is real.
    pub real: String,
    /// The address that both have, as the API server writes it.
    pub address: String,
    /// The range that the cluster has given to the pods of the virtual node, if any.
    pub range: Option<String>,
}

/// All such virtual nodes, as the API server lists them.
pub fn shared_addresses(cluster: &Cluster) -> Answer<Vec<Shares>> {
    let found = cluster.list(NODE, None, "");
    async move { Ok(shared(&found.await?)) }.boxed()
}

fn shared(nodes: &[Value]) -> Vec<Shares> {
    let is_ours =
        |node: &&Value| node["spec"]["providerID"].as_str().is_some_and(|id| id.starts_with(OURS));
    let (ours, others): (Vec<_>, Vec<_>) = nodes.iter().partition(is_ours);
    let real: BTreeMap<&str, &str> = others
        .iter()
        .flat_map(|node| addresses(node).map(move |address| (address, name(node))))
        .collect();
    let shares = |node: &&Value| {
        let (address, real) = addresses(node).find_map(|it| real.get_key_value(it))?;
        let range = node["spec"]["podCIDR"].as_str().map(str::to_owned);
        let (node, real, address) =
            (name(node).to_owned(), (*real).to_owned(), (*address).to_owned());
        Some(Shares { node, real, address, range })
    };
    ours.iter().filter_map(shares).collect()
}

fn name(node: &Value) -> &str {
    node["metadata"]["name"].as_str().unwrap_or_default()
}

fn addresses(node: &Value) -> impl Iterator<Item = &str> {
    let all = node["status"]["addresses"].as_array().into_iter().flatten();
    all.filter(|it| it["type"] == "InternalIP").filter_map(|it| it["address"].as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_virtual_node_at_a_real_ones_address_is_found() {
        let node = |name: &str, id: &str, address: &str, range: Option<&str>| {
            json!({ "metadata": { "name": name }, "spec": { "providerID": id, "podCIDR": range },
                "status": { "addresses": [{ "type": "Hostname", "address": name },
                    { "type": "InternalIP", "address": address }] } })
        };
        let nodes = [
            node("worker", "kind://worker", "192.0.2.1", Some("10.244.0.0/24")),
            node("other", "", "192.0.2.2", None),
            node("mercato-turin", "mercato://turin/c1", "192.0.2.1", Some("10.244.7.0/24")),
            node("mercato-oslo", "mercato://oslo/c2", "192.0.2.9", None),
            json!({}),
        ];
        let found = shared(&nodes);
        let [one] = &found[..] else { panic!("{found:?}") };
        assert_eq!((one.node.as_str(), one.real.as_str()), ("mercato-turin", "worker"));
        assert_eq!(
            (one.address.as_str(), one.range.as_deref()),
            ("192.0.2.1", Some("10.244.7.0/24"))
        );
    }
}
