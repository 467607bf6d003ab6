//! Labels by which nodes say what devices they have and where they are: of all that real ones have, those
//! that a virtual node shows as well, so that pods which choose nodes by them find it.
//!
//! A provider says those that are alike on the nodes of a pool, of one list; home believes no others,
//! whoever says them. None is on it by which the programs of a vendor's operator come to a node
//! (`nvidia.com/gpu.present`, `nvidia.com/gpu.deploy.*`, `feature.node.kubernetes.io/*`), nor one that
//! counts what the nodes have: how much there is, is what was bought.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::kubelet_stream::{NodeFacts, is_key, is_label_value};
use mercato_protocol::limits::NODE_LABELS;
use serde_json::Value;

/// The label of the region where a node is.
pub const REGION: &str = "topology.kubernetes.io/region";
/// The label of the zone, which is within a region.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// Labels that are shown beside region and zone, and those of parts of devices; sources: NVIDIA's
/// gpu-feature-discovery (its README, "Generated Labels"), AMD's node labeller (its README), and the
/// rules of Intel's device plugins.
const LISTED: [&str; 33] = [
    "amd.com/compute-memory-partition",
    "amd.com/gpu.compute-memory-partition",
    "amd.com/gpu.cu-count",
    "amd.com/gpu.device-id",
    "amd.com/gpu.driver-version",
    "amd.com/gpu.family",
    "amd.com/gpu.product-name",
    "amd.com/gpu.simd-count",
    "amd.com/gpu.vram",
    "gpu.intel.com/family",
    "gpu.intel.com/product",
    INSTANCE_TYPE,
    "nvidia.com/cuda.driver-version.full",
    "nvidia.com/cuda.driver-version.major",
    "nvidia.com/cuda.driver-version.minor",
    "nvidia.com/cuda.driver-version.revision",
    "nvidia.com/cuda.driver.major",
    "nvidia.com/cuda.driver.minor",
    "nvidia.com/cuda.driver.rev",
    "nvidia.com/cuda.runtime-version.full",
    "nvidia.com/cuda.runtime-version.major",
    "nvidia.com/cuda.runtime-version.minor",
    "nvidia.com/cuda.runtime.major",
    "nvidia.com/cuda.runtime.minor",
    "nvidia.com/gpu.compute.major",
    "nvidia.com/gpu.compute.minor",
    "nvidia.com/gpu.family",
    "nvidia.com/gpu.machine",
    "nvidia.com/gpu.memory",
    "nvidia.com/gpu.mode",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.sharing-strategy",
];
/// The kind of machine, which nodes without devices have as well.
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// How devices are cut, on nodes that have parts under resources of their own too.
const STRATEGY: &str = "nvidia.com/mig.strategy";
/// What labels of a part begin with, and its resource.
const PART: &str = "nvidia.com/mig-";
/// What is told of a part, behind its resource and a dot.
const OF_PART: [&str; 2] = ["memory", "product"];
/// Whole devices of the vendor that counts them by labels.
const WHOLE: &str = "nvidia.com/gpu";
/// What a resource ends on that several share, of which no label counts anything.
const SHARED: &str = ".shared";

/// Labels of one node, or of all nodes of a pool where they are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLabels {
    /// The region, if all are in one that is known.
    pub region: Option<String>,
    /// The same for the zone.
    pub zone: Option<String>,
    /// Other labels of it, by key.
    pub others: BTreeMap<String, String>,
}

/// What a virtual node shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The labels as they are shown.
    pub labels: NodeLabels,
    /// A zone that the provider says, and that is not shown: nodes of home are in one of that name.
    pub hidden_zone: Option<String>,
}

impl NodeLabels {
    /// Of one node, what of its labels may be shown.
    pub fn of_node(labels: &Value) -> Self {
        let text =
            |value: &Value| value.as_str().filter(|it| is_label_value(it)).map(str::to_owned);
        let place = |key: &str| text(&labels[key]).filter(|it| !it.is_empty());
        let all = labels.as_object().into_iter().flatten();
        let listed = all.filter(|(key, _)| is_listed(key));
        let others = listed.filter_map(|(key, value)| Some((key.clone(), text(value)?)));
        Self { region: place(REGION), zone: place(ZONE), others: others.collect() }
    }

    /// What is alike on all of these nodes.
    pub fn alike<'a>(nodes: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut nodes = nodes.into_iter();
        let Some(mut alike) = nodes.next().cloned() else { return Self::default() };
        for node in nodes {
            alike.region = alike.region.filter(|it| node.region.as_ref() == Some(it));
            alike.zone = alike.zone.filter(|it| node.zone.as_ref() == Some(it));
            alike.others.retain(|key, value| node.others.get(key) == Some(value));
        }
        alike
    }

    /// Says it to home, as much as a message may hold.
    pub fn said(self) -> NodeFacts {
        let labels = self.others.into_iter().take(NODE_LABELS).collect();
        NodeFacts { labels, region: self.region, zone: self.zone, ..NodeFacts::default() }
    }

    /// What home shows of what a provider says, on a node that has this to give: what is on home's own
    /// list, of devices that were bought, with their number. `zones` are those of home's nodes, whose
    /// volumes and traffic would follow one of that name; while they are not known no zone is shown.
    pub fn shown(
        said: &NodeFacts,
        capacity: &BTreeMap<String, String>,
        zones: Option<&BTreeSet<String>>,
    ) -> Shown {
        let all = said.labels.iter().filter(|(key, _)| is_listed(key) && is_of(key, capacity));
        let valid = all.filter(|(_, value)| is_label_value(value)).take(NODE_LABELS);
        let mut others: BTreeMap<_, _> =
            valid.map(|(key, value)| (key.clone(), value.clone())).collect();
        let counted = capacity.iter().filter(|(resource, _)| is_counted(resource));
        others
            .extend(counted.map(|(resource, count)| (format!("{resource}.count"), count.clone())));
        let place = |said: &Option<String>| {
            let said = said.clone()?;
            Some(said).filter(|it| !it.is_empty() && is_label_value(it))
        };
        let zone = place(&said.zone);
        let is_free = |zone: &String| zones.is_some_and(|zones| !zones.contains(zone));
        let hidden_zone = zone.clone().filter(|it| zones.is_some_and(|all| all.contains(it)));
        let zone = zone.filter(is_free);
        Shown { labels: Self { region: place(&said.region), zone, others }, hidden_zone }
    }

    /// What a virtual node shows already, of these labels of its own: what it said last holds until the
    /// provider says something.
    pub fn of_virtual_node(labels: &Value) -> Self {
        let counts = labels.as_object().into_iter().flatten().filter_map(|(key, value)| {
            let resource = key.strip_suffix(".count")?;
            Some((key.clone(), value.as_str()?.to_owned())).filter(|_| is_counted(resource))
        });
        let mut all = Self::of_node(labels);
        all.others.extend(counts);
        all
    }
}

/// Whether a label says how many of a resource there are: `nvidia.com/gpu.count`.
fn is_counted(resource: &str) -> bool {
    resource == WHOLE || resource.starts_with(PART) && !resource.ends_with(SHARED)
}

/// Whether it is on the list.
fn is_listed(key: &str) -> bool {
    LISTED.contains(&key) || key == STRATEGY || of_part(key).is_some()
}

/// The resource of a part of which a label on the list tells.
fn of_part(key: &str) -> Option<&str> {
    let (resource, of) = key.rsplit_once('.')?;
    let part = resource.strip_prefix(PART)?;
    let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let is_part = part.starts_with(|first: char| first.is_ascii_digit()) && part.bytes().all(word);
    (OF_PART.contains(&of) && is_part && is_key(key)).then_some(resource)
}

/// Whether a label on the list tells of what a node has: of its machine, or of devices that it gives.
fn is_of(key: &str, capacity: &BTreeMap<String, String>) -> bool {
    let vendor = key.split_once('/').map_or(key, |(vendor, _)| vendor);
    match of_part(key) {
        Some(resource) => capacity.contains_key(resource),
        None if key == INSTANCE_TYPE => true,
        None => capacity.keys().any(|resource| {
            resource.strip_prefix(vendor).is_some_and(|rest| rest.starts_with('/'))
        }),
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::codec::Message as _;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn capacity(resources: &[(&str, &str)]) -> BTreeMap<String, String> {
        let all = resources.iter().chain(&[("cpu", "8")]);
        all.map(|(name, count)| ((*name).to_owned(), (*count).to_owned())).collect()
    }

    fn l4() -> Value {
        json!({
            "nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.memory": "23034",
            "nvidia.com/gpu.count": "8", "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/mig.capable": "false",
            "feature.node.kubernetes.io/pci-10de.present": "true",
            "node.kubernetes.io/instance-type": "g6.48xlarge",
            "topology.kubernetes.io/region": "eu-south-1", "topology.kubernetes.io/zone": "turin-1",
            "kubernetes.io/hostname": "n1", "team": "red",
        })
    }

    #[test]
    fn nodes_of_a_pool_say_what_is_alike_on_all_and_on_the_list() {
        let one = NodeLabels::of_node(&l4());
        let mut other = l4();
        other["topology.kubernetes.io/zone"] = "turin-2".into();
        other["node.kubernetes.io/instance-type"] = "g6.12xlarge".into();
        let alike = NodeLabels::alike([&one, &NodeLabels::of_node(&other)]);
        assert_eq!((alike.region.as_deref(), &alike.zone), (Some("eu-south-1"), &None));
        let keys: Vec<_> = alike.others.keys().map(String::as_str).collect();
        assert_eq!(keys, ["nvidia.com/gpu.memory", "nvidia.com/gpu.product"]);
        assert_eq!(NodeLabels::alike([&one, &one]), one);
        assert_eq!(NodeLabels::alike([]), NodeLabels::default());
        assert!(alike.said().to_bytes().is_ok());
    }

    #[test]
    fn home_counts_what_was_bought_and_shows_nothing_of_other_devices() {
        let said = NodeLabels::of_node(&l4()).said();
        let shown = |resources: &[(&str, &str)]| {
            NodeLabels::shown(&said, &capacity(resources), Some(&BTreeSet::new())).labels
        };
        let two = shown(&[("nvidia.com/gpu", "2")]);
        assert_eq!(two.others["nvidia.com/gpu.product"], "NVIDIA-L4");
        assert_eq!(two.others["nvidia.com/gpu.count"], "2");
        assert_eq!(two.zone.as_deref(), Some("turin-1"));
        for others in [shown(&[]), shown(&[("amd.com/gpu", "1")])] {
            let keys: Vec<_> = others.others.keys().map(String::as_str).collect();
            assert_eq!(keys, [INSTANCE_TYPE]);
        }
    }

    #[test]
    fn parts_are_told_of_by_those_that_were_bought() {
        let labels = json!({
            "nvidia.com/mig-1g.10gb.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
            "nvidia.com/mig-1g.10gb.count": "7", "nvidia.com/mig-1g.10gb.memory": "9984",
            "nvidia.com/mig-3g.40gb.memory": "40320", "nvidia.com/mig-manager.product": "x",
            "nvidia.com/mig.strategy": "mixed", "nvidia.com/mig.config": "all-1g.10gb",
        });
        let said = NodeLabels::of_node(&labels).said();
        let part = "nvidia.com/mig-1g.10gb";
        let shown = NodeLabels::shown(&said, &capacity(&[(part, "3")]), None).labels;
        let keys: Vec<_> = shown.others.keys().map(String::as_str).collect();
        let each = [
            "nvidia.com/mig-1g.10gb.count",
            "nvidia.com/mig-1g.10gb.memory",
            "nvidia.com/mig-1g.10gb.product",
            STRATEGY,
        ];
        assert_eq!(keys, each);
        assert_eq!(shown.others["nvidia.com/mig-1g.10gb.count"], "3");
    }

    #[test]
    fn a_zone_of_homes_own_nodes_is_not_shown() {
        let said = NodeFacts { zone: Some("a".to_owned()), ..NodeFacts::default() };
        let shown = |zones: Option<&[&str]>| {
            let zones = zones.map(|all| all.iter().map(|it| (*it).to_owned()).collect());
            let shown = NodeLabels::shown(&said, &capacity(&[]), zones.as_ref());
            (shown.labels.zone, shown.hidden_zone)
        };
        let a = || Some("a".to_owned());
        assert_eq!(shown(None), (None, None), "not known yet");
        assert_eq!(shown(Some(&["b"])), (a(), None));
        assert_eq!(shown(Some(&["a", "b"])), (None, a()));
    }

    #[test]
    fn after_a_start_a_node_is_what_it_was() {
        let zones = BTreeSet::new();
        let said = NodeLabels::of_node(&l4()).said();
        let gpus = capacity(&[("nvidia.com/gpu", "2")]);
        let shown = NodeLabels::shown(&said, &gpus, Some(&zones)).labels;
        let mut labels = json!(shown.others);
        labels[REGION] = json!(shown.region);
        labels[ZONE] = json!(shown.zone);
        labels["mercato.dev/contract"] = "05".into();
        assert_eq!(NodeLabels::of_virtual_node(&labels), shown);
    }

    proptest! {
        /// Whatever a provider says, and however much of it.
        #[test]
        fn nothing_is_shown_that_is_not_on_the_list(
            said in proptest::collection::btree_map(
                prop_oneof![
                    "nvidia[.]com/gpu[.](present|deploy[.][a-z]{1,9}|count|product|[a-z]{1,6})",
                    "feature[.]node[.]kubernetes[.]io/[a-z0-9.-]{1,20}",
                    "nvidia[.]com/mig-[a-z0-9./-]{0,12}[.](memory|product|count|present)",
                    "(kubernetes[.]io|mercato[.]dev|node-role[.]kubernetes[.]io)/[a-z]{1,9}",
                ],
                "[a-z. ]{0,70}",
                0..200,
            ),
        ) {
            let said = NodeFacts { labels: said, ..NodeFacts::default() };
            let all = capacity(&[("nvidia.com/gpu", "1"), ("nvidia.com/mig-1g.5gb", "2")]);
            let NodeLabels { others, .. } = NodeLabels::shown(&said, &all, None).labels;
            prop_assert!(others.len() <= NODE_LABELS + 2);
            for (key, value) in others {
                prop_assert!(is_label_value(&value), "{key}: {value}");
                prop_assert!(is_listed(&key) || key.ends_with(".count"), "{key}");
                let barred = key.contains("present") || key.contains("deploy")
                    || key.starts_with("feature.") || key.starts_with("kubernetes.io")
                    || key.starts_with("mercato.dev");
                prop_assert!(!barred, "{key}");
            }
        }
    }
}
