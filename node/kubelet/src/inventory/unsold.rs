//! Devices of nodes that are not sold, summed by resource and reason.

use std::collections::BTreeMap;

use super::gpus;
use super::node::NodeView;

/// Devices of some nodes that are not sold, for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsoldDevices {
    /// How many nodes there are.
    pub nodes: u64,
    /// What they have, with the sum of their counts.
    pub of: gpus::Unsold,
}

/// Those of all nodes, and processors where nobody can buy any.
pub(super) fn unsold(nodes: &BTreeMap<String, NodeView>) -> Vec<UnsoldDevices> {
    let mut all: BTreeMap<gpus::Unsold, UnsoldDevices> = BTreeMap::new();
    for of in nodes.values().flat_map(|node| &node.unsold) {
        let same = gpus::Unsold { count: 0, ..of.clone() };
        let sum = all.entry(same.clone()).or_insert(UnsoldDevices { nodes: 0, of: same });
        sum.nodes += 1;
        sum.of.count = sum.of.count.saturating_add(of.count);
    }
    all.into_values().chain(no_processors(nodes)).collect()
}

/// Where every node has GPUs nobody can buy processors alone, which their owner is told.
fn no_processors(nodes: &BTreeMap<String, NodeView>) -> Option<UnsoldDevices> {
    let open = || nodes.values().filter(|node| node.open || !node.unsold.is_empty());
    let count = open().fold(0, |sum: u64, node| sum.saturating_add(node.allocatable.cpu_millis));
    let of = gpus::Unsold {
        resource: "cpu".to_owned(),
        count: count / 1_000,
        reason: "every node has GPUs, and their processors are sold with them alone".to_owned(),
        line: Some("share.gpuNodes: any".to_owned()),
    };
    let all_are = open().next().is_some() && open().all(|node| node.is_for_gpus);
    all_are.then(|| UnsoldDevices { nodes: open().count() as u64, of })
}
