//! How guests find the nodes of a pool, and no others: by what those nodes' labels say of devices,
//! and by the names of nodes where labels do not tell. No label is written for that: nodes are home's.

use std::collections::{BTreeMap, BTreeSet};

use mercato_offload::placement::{Binding, NodeLabels, NodeOperator, NodeRequirement};
use mercato_protocol::text::PoolId;

use super::gpus::telling::{HOST, MACHINE, TELLING};
use super::node::NodeView;
use super::sum::pool_of;
use crate::limits::{NODE_VALUES, NODES_BY_NAME};

/// By pool, how its guests find its nodes. A pool is left out whose nodes are too many to be named,
/// and like others. `runtime_class` is that of guests that ask for devices.
pub fn bindings(
    nodes: &BTreeMap<String, NodeView>,
    runtime_class: Option<&str>,
) -> BTreeMap<PoolId, Binding> {
    let mut pools: BTreeMap<PoolId, Vec<&NodeView>> = BTreeMap::new();
    let known: Vec<_> = nodes.values().map(|node| (pool_of(node), node)).collect();
    for (id, node) in &known {
        if let Some(id) = id {
            pools.entry(id.clone()).or_default().push(node);
        }
    }
    // A pod may come to a node that has none today.
    let of_nvidia = |node: &NodeView| {
        let sold = node.units.iter().map(|unit| &unit.resource);
        let unsold = node.unsold.iter().map(|unsold| &unsold.resource);
        sold.chain(unsold).any(|resource| resource.starts_with("nvidia.com/"))
    };
    let hides_devices = nodes.values().any(of_nvidia);
    let binding = |(id, of): (PoolId, Vec<&NodeView>)| {
        let platform = &of.first()?.platform;
        let others = known
            .iter()
            .filter(|(other, node)| other.as_ref() != Some(&id) && node.platform == *platform);
        let others: Vec<_> = others.map(|(_, node)| *node).collect();
        let units = of.iter().flat_map(|node| &node.units);
        // What is new runs on those that are open.
        let any_open = of.iter().any(|node| node.open);
        let binding = Binding {
            nodes: requirements(&of, &others)?,
            resources: units.map(|unit| (unit.gpu.model.clone(), unit.resource.clone())).collect(),
            taints: of.iter().flat_map(|node| node.taints.clone()).collect(),
            runtime_class: runtime_class.map(str::to_owned),
            hides_devices,
            said: NodeLabels::alike(
                of.iter().filter(|node| node.open || !any_open).map(|it| &it.said),
            ),
        };
        Some((id, binding))
    };
    pools.into_iter().filter_map(binding).collect()
}

/// What all these nodes meet, and none of the others; none if nothing tells them apart.
fn requirements(of: &[&NodeView], others: &[&NodeView]) -> Option<Vec<NodeRequirement>> {
    let has_devices = of.iter().any(|node| !node.units.is_empty());
    let mut all: Vec<_> =
        TELLING.iter().filter_map(|key| about(key, of, others, !has_devices)).collect();
    // Devices of which no label tells anything are those of a kind of machine.
    if has_devices && all.iter().all(|it| it.operator != NodeOperator::In) {
        all.extend(values(MACHINE, of).map(|values| is_in(MACHINE, values)));
    }
    let meets = |node: &NodeView| all.iter().all(|it| it.is_met(&node.labels));
    let alike: Vec<_> = others.iter().copied().filter(|node| meets(node)).collect();
    if alike.is_empty() {
        return Some(all);
    }
    let is_one = || names(of).map(|names| is_in(HOST, names));
    let is_no_other = || {
        let operator = NodeOperator::NotIn;
        let values = names(&alike)?.into_iter().collect();
        Some(NodeRequirement { key: HOST.to_owned(), operator, values })
    };
    // Nodes without devices come and go; those with devices are few.
    let by_name =
        if has_devices { is_one().or_else(is_no_other) } else { is_no_other().or_else(is_one) };
    all.push(by_name?);
    Some(all)
}

/// What a label says of all these nodes; none if it differs, or tells nothing.
fn about(
    key: &str,
    of: &[&NodeView],
    others: &[&NodeView],
    always: bool,
) -> Option<NodeRequirement> {
    let has = |node: &&NodeView| node.labels.contains_key(key);
    if !of.iter().any(has) {
        let tells = always || others.iter().any(has);
        let (key, operator) = (key.to_owned(), NodeOperator::DoesNotExist);
        return tells.then_some(NodeRequirement { key, operator, values: Vec::new() });
    }
    values(key, of).map(|values| is_in(key, values))
}

/// The values of a label that each of these nodes has.
fn values(key: &str, of: &[&NodeView]) -> Option<BTreeSet<String>> {
    let values: Option<BTreeSet<_>> = of.iter().map(|node| node.labels.get(key).cloned()).collect();
    values.filter(|values| values.len() <= NODE_VALUES)
}

/// The names of these nodes, if pods may name so many.
fn names(of: &[&NodeView]) -> Option<BTreeSet<String>> {
    if of.len() > NODES_BY_NAME {
        return None;
    }
    of.iter().map(|node| node.labels.get(HOST).cloned()).collect()
}

fn is_in(key: &str, values: BTreeSet<String>) -> NodeRequirement {
    let values = values.into_iter().collect();
    NodeRequirement { key: key.to_owned(), operator: NodeOperator::In, values }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::inventory::OwnersWord;
    use crate::inventory::node::tests::node;

    fn view(name: &str, labels: Value, resource: &str, count: u64) -> (String, NodeView) {
        let mut node = node();
        node["metadata"]["labels"][HOST] = name.into();
        for (key, value) in labels.as_object().unwrap() {
            node["metadata"]["labels"][key] = value.clone();
        }
        if count > 0 {
            node["status"]["allocatable"][resource] = count.to_string().into();
        }
        let models = [("Standard_NC4".to_owned(), "t4".parse().unwrap())].into();
        let word = OwnersWord { models, ..OwnersWord::default() };
        (name.to_owned(), NodeView::read(&node, &word).unwrap())
    }

    fn nvidia(name: &str, product: &str, strategy: &str, resource: &str) -> (String, NodeView) {
        let labels = json!({ "nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "2",
            "nvidia.com/gpu.replicas": if resource == "nvidia.com/gpu" { "1" } else { "0" },
            "nvidia.com/mig.strategy": strategy });
        view(name, labels, resource, 2)
    }

    fn plain(name: &str) -> (String, NodeView) {
        view(name, json!({}), "", 0)
    }

    /// The nodes that guests of each pool may run on.
    fn found(nodes: &BTreeMap<String, NodeView>) -> BTreeMap<String, Vec<&str>> {
        let of = |binding: &Binding| {
            let meets = |node: &(&String, &NodeView)| {
                binding.nodes.iter().all(|it| it.is_met(&node.1.labels))
            };
            nodes.iter().filter(meets).map(|(name, _)| name.as_str()).collect()
        };
        bindings(nodes, None).iter().map(|(id, binding)| (id.to_string(), of(binding))).collect()
    }

    #[test]
    fn guests_find_the_nodes_of_their_pool_and_no_others() {
        let nodes: BTreeMap<_, _> = [
            plain("cpu-1"),
            plain("cpu-2"),
            nvidia("l4", "NVIDIA-L4", "none", "nvidia.com/gpu"),
            nvidia("h100", "NVIDIA-H100-80GB-HBM3", "none", "nvidia.com/gpu"),
            nvidia("cut", "NVIDIA-H100-80GB-HBM3", "mixed", "nvidia.com/mig-1g.10gb"),
            nvidia("part", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "single", "nvidia.com/gpu"),
            // Nobody knows it: it is in no pool.
            nvidia("odd", "NVIDIA-GB300", "none", "nvidia.com/gpu"),
        ]
        .into();
        let each = [
            ("amd64", vec!["cpu-1", "cpu-2"]),
            ("amd64-h100-80gb-sxm", vec!["h100"]),
            ("amd64-h100-80gb-sxm-mixed", vec!["cut"]),
            ("amd64-h100-80gb-sxm.1g.10gb", vec!["part"]),
            ("amd64-l4", vec!["l4"]),
        ];
        assert_eq!(found(&nodes), each.map(|(id, of)| (id.to_owned(), of)).into());
        let cut = &bindings(&nodes, None)[&"amd64-h100-80gb-sxm-mixed".parse().unwrap()];
        let names: Vec<_> = cut.resources.values().map(String::as_str).collect();
        assert_eq!(names, ["nvidia.com/mig-1g.10gb"]);
    }

    #[test]
    fn nodes_say_what_is_alike_on_those_that_are_open() {
        let of = |name: &str, zone: &str| {
            view(name, json!({ "topology.kubernetes.io/zone": zone }), "", 0)
        };
        let mut nodes: BTreeMap<_, _> = [of("a1", "a"), of("a2", "a"), of("b", "b")].into();
        let zone = |nodes: &BTreeMap<String, NodeView>| {
            let all = bindings(nodes, None);
            all[&"amd64".parse().unwrap()].said.zone.clone()
        };
        assert_eq!(zone(&nodes), None);
        nodes.get_mut("b").unwrap().open = false;
        assert_eq!(zone(&nodes).as_deref(), Some("a"), "nothing new comes to b");
        nodes.values_mut().for_each(|node| node.open = false);
        assert_eq!(zone(&nodes), None);
    }

    #[test]
    fn nodes_that_labels_do_not_tell_apart_are_named() {
        let machine = |name: &str, kind: &str, gpus| {
            view(name, json!({ MACHINE: kind }), "nvidia.com/gpu", gpus)
        };
        let azure = |name: &str| {
            let labels = json!({ MACHINE: "Standard_NC4",
                "kubernetes.azure.com/accelerator": "nvidia" });
            view(name, labels, "nvidia.com/gpu", 1)
        };
        // A node with GPUs and without one word of them is in no pool.
        let nodes = [machine("cpu", "m5", 0), machine("bare", "g4", 1), azure("t4")].into();
        let each = [("amd64", vec!["cpu"]), ("amd64-t4", vec!["t4"])];
        assert_eq!(found(&nodes), each.map(|(id, of)| (id.to_owned(), of)).into());
        let mut closed = nodes;
        closed.get_mut("cpu").unwrap().open = false;
        assert_eq!(found(&closed)["amd64"], ["cpu"], "a node that is cordoned is still its own");
    }
}
