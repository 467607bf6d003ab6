//! The sum by pool: pure, from what is kept of nodes and pods.

use std::collections::{BTreeMap, BTreeSet};

use mercato_offload::placement::Binding;
use mercato_protocol::gpu::GpuPool;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::Platform;
use mercato_protocol::text::PoolId;
use sha2::{Digest as _, Sha256};

use super::gpus::{Cut, Unit};
use super::node::NodeView;
use super::pod::PodView;
use super::storage::StorageState;
use super::unsold::{UnsoldDevices, unsold};

/// What the cluster has and uses, by pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// By their names, each of which is there once.
    pub pools: Vec<Pool>,
    /// Devices that are in none of them, by resource and reason.
    pub unsold: Vec<UnsoldDevices>,
    /// By pool, how guests find its nodes, those that are closed now included.
    pub bindings: BTreeMap<PoolId, Binding>,
    /// In which zones nodes are, as they say.
    pub zones: BTreeSet<String>,
    /// The names of those that their owner leaves out of tunnels.
    pub left_out: BTreeSet<String>,
    /// What there is of the class of storage that is shared.
    pub storage: StorageState,
}

/// Nodes of one platform and one kind of GPU, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// What contracts call it, from what it is: other nodes change nothing of it.
    pub id: PoolId,
    /// The processor architecture and operating system of its nodes.
    pub platform: Platform,
    /// How many nodes are open.
    pub nodes: u64,
    /// What pods may ask for in all on the open nodes.
    pub allocatable: Resources,
    /// What the cluster's own pods ask for there. Guests are not in it: the
    /// ledger knows what was promised to them, whether used or not.
    pub requested: Resources,
    /// The largest single pod that fits on one node beside all that is there now,
    /// guests included.
    pub largest_pod: Resources,
    /// The GPUs, their count over all nodes.
    pub gpus: Vec<GpuPool>,
}

/// Sums nodes (by name) and pods (by uid); pods in one of the namespaces `guests` are guests.
/// A node that is closed counts neither with what it has nor with what runs there.
pub fn sum(
    nodes: &BTreeMap<String, NodeView>,
    pods: &BTreeMap<String, PodView>,
    guests: &BTreeSet<String>,
    bindings: &BTreeMap<PoolId, Binding>,
) -> Inventory {
    let mut used: BTreeMap<&str, (Resources, Resources)> = BTreeMap::new();
    for pod in pods.values() {
        let Some(node) = nodes.get(&pod.node).filter(|node| node.open) else { continue };
        let asks = asks(pod, node);
        let (own, all) = used.entry(&pod.node).or_default();
        *all = saturating_add(all, &asks);
        if !guests.contains(&pod.namespace) {
            *own = saturating_add(own, &asks);
        }
    }
    let mut pools: BTreeMap<PoolId, Pool> = BTreeMap::new();
    for (name, node) in nodes {
        let Some(id) = pool_of(node).filter(|_| node.open) else { continue };
        let (own, all) = used.remove(name.as_str()).unwrap_or_default();
        let pool = pools.entry(id).or_insert_with_key(|id| Pool {
            id: id.clone(),
            platform: node.platform.clone(),
            nodes: 0,
            allocatable: Resources::default(),
            requested: Resources::default(),
            largest_pod: Resources::default(),
            gpus: Vec::new(),
        });
        pool.nodes += 1;
        pool.allocatable = saturating_add(&pool.allocatable, &node.allocatable);
        pool.requested = saturating_add(&pool.requested, &own);
        let free = node.allocatable.saturating_sub(&all);
        if free.pods > 0 && larger(&free, &pool.largest_pod) {
            pool.largest_pod = Resources { pods: 1, ..free };
        }
        for unit in &node.units {
            add_gpu(&mut pool.gpus, with_share(unit, node));
        }
    }
    let unsold = unsold(nodes);
    let zones = nodes.values().filter_map(|node| node.said.zone.clone()).collect();
    let left_out = nodes.iter().filter(|(_, node)| node.left_out);
    let left_out = left_out.map(|(name, _)| name.clone()).collect();
    let storage = StorageState::Unknown;
    let (pools, bindings) = (pools.into_values().collect(), bindings.clone());
    Inventory { pools, unsold, bindings, zones, left_out, storage }
}

/// The pool of a node, open or not; none for one whose devices are not sold and that sells nothing
/// without.
pub(super) fn pool_of(node: &NodeView) -> Option<PoolId> {
    let is_kept = node.is_for_gpus && node.units.is_empty();
    (!is_kept).then(|| id(&node.platform, &node.units))
}

/// `amd64`, `amd64-h100-80gb-sxm`, `arm64-a100-40gb-sxm.1g.5gb`, `amd64-h100-80gb-sxm-mixed` where parts
/// have resources of their own: nodes of one name have units that pods ask for alike. What has no
/// such name, or too long a one, ends on a part of its hash.
fn id(platform: &Platform, units: &[Unit]) -> PoolId {
    let Platform { arch, os } = platform;
    let system = if os.as_str() == "linux" { String::new() } else { format!("-{os}") };
    let devices: BTreeSet<_> = units.iter().map(|unit| &unit.device).collect();
    let are_cut = units.iter().all(|unit| matches!(unit.cut, Cut::Whole | Cut::Part));
    let devices: Vec<_> = devices.into_iter().collect();
    let what = match (units, &devices[..]) {
        ([], _) => Some(String::new()),
        ([unit], _) if is_usual(&unit.resource) => Some(format!("-{}", unit.gpu.model)),
        (_, [device]) if are_cut => Some(format!("-{device}-mixed")),
        _ => None,
    };
    let name = what.clone().and_then(|what| format!("{arch}{system}{what}").parse().ok());
    name.unwrap_or_else(|| {
        let kinds: BTreeSet<_> =
            units.iter().map(|unit| format!("{}={}", unit.resource, unit.gpu.model)).collect();
        let all: Vec<_> = kinds.into_iter().collect();
        let what = what.unwrap_or_else(|| all.join(" "));
        let hash = Sha256::digest(format!("{arch}{system} {what}"));
        let four = hash.iter().take(4).map(|byte| format!("{byte:02x}"));
        let short: String = arch.as_str().chars().take(16).collect();
        let name = format!("{}-{}", short.trim_end_matches(['-', '.']), four.collect::<String>());
        name.parse().expect("a word, a dash and eight digits are a slug")
    })
}

/// Whether pods ask for it by the usual name of its vendor's devices.
fn is_usual(resource: &str) -> bool {
    matches!(resource, "nvidia.com/gpu" | "amd.com/gpu" | "gpu.intel.com/i915")
}

/// With what comes with each unit of the node's processors and memory: the same part of both as the
/// unit has of the memory of all GPUs there. Nothing where processors are sold by themselves.
fn with_share(unit: &Unit, node: &NodeView) -> GpuPool {
    let weight = |unit: &Unit| u128::from(unit.gpu.memory_mib.max(1));
    let all: u128 = node.units.iter().map(|unit| weight(unit) * u128::from(unit.gpu.count)).sum();
    let part = |of: u64| {
        let part = (u128::from(of) * weight(unit)).checked_div(all).unwrap_or(0);
        u64::try_from(part).unwrap_or(of)
    };
    if !node.is_for_gpus {
        return unit.gpu.clone();
    }
    GpuPool {
        cpu_millis_per_unit: part(node.allocatable.cpu_millis),
        memory_bytes_per_unit: part(node.allocatable.memory_bytes),
        ..unit.gpu.clone()
    }
}

fn asks(pod: &PodView, node: &NodeView) -> Resources {
    let asked = |unit: &Unit| {
        let count = pod.devices.get(&unit.resource).copied().filter(|count| *count > 0)?;
        Some((unit.gpu.model.clone(), count))
    };
    Resources {
        cpu_millis: pod.cpu_millis,
        memory_bytes: pod.memory_bytes,
        pods: 1,
        storage_bytes: 0,
        gpus: node.units.iter().filter_map(asked).collect(),
    }
}

/// GPUs first, then CPU: what is scarce decides which node's room is shown.
fn larger(free: &Resources, than: &Resources) -> bool {
    let rank = |r: &Resources| (r.gpus.values().sum::<u64>(), r.cpu_millis, r.memory_bytes);
    rank(free) > rank(than)
}

/// What is said of all is what the least of them has.
fn add_gpu(gpus: &mut Vec<GpuPool>, more: GpuPool) {
    match gpus.iter_mut().find(|gpu| gpu.model == more.model) {
        Some(gpu) => {
            gpu.count = gpu.count.saturating_add(more.count);
            gpu.most_per_node = gpu.most_per_node.max(more.most_per_node);
            gpu.memory_mib = gpu.memory_mib.min(more.memory_mib);
            gpu.isolation = gpu.isolation.min(more.isolation);
            gpu.cpu_millis_per_unit = gpu.cpu_millis_per_unit.min(more.cpu_millis_per_unit);
            gpu.memory_bytes_per_unit = gpu.memory_bytes_per_unit.min(more.memory_bytes_per_unit);
            if gpu.interconnect != more.interconnect {
                gpu.interconnect = None;
            }
        }
        None => gpus.push(more),
    }
}

fn saturating_add(a: &Resources, b: &Resources) -> Resources {
    let mut gpus = a.gpus.clone();
    for (model, count) in &b.gpus {
        let sum: &mut u64 = gpus.entry(model.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
    Resources {
        cpu_millis: a.cpu_millis.saturating_add(b.cpu_millis),
        memory_bytes: a.memory_bytes.saturating_add(b.memory_bytes),
        pods: a.pods.saturating_add(b.pods),
        storage_bytes: a.storage_bytes.saturating_add(b.storage_bytes),
        gpus,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::inventory::OwnersWord;
    use crate::inventory::node::tests::{node, read};

    fn pod(node: &str, cpu_millis: u64, guest: bool) -> PodView {
        let namespace = if guest { "shop-rome" } else { "shop" }.to_owned();
        PodView {
            node: node.into(),
            namespace,
            cpu_millis,
            memory_bytes: 1 << 30,
            devices: BTreeMap::new(),
        }
    }

    fn guests() -> BTreeSet<String> {
        ["shop-rome".to_owned()].into()
    }

    fn two_nodes() -> BTreeMap<String, NodeView> {
        let view = read(&node()).unwrap();
        [("a", view.clone()), ("b", view)].map(|(name, view)| (name.to_owned(), view)).into()
    }

    #[test]
    fn guests_are_not_requested_twice() {
        let pods = [("1", pod("a", 500, false)), ("2", pod("a", 5000, true))];
        let pods = pods.map(|(uid, pod)| (uid.to_owned(), pod)).into();
        let inventory = sum(&two_nodes(), &pods, &guests(), &BTreeMap::new());
        let [pool] = &inventory.pools[..] else { panic!("one shape, one pool") };
        assert_eq!((pool.nodes, pool.allocatable.cpu_millis), (2, 31_000));
        assert_eq!(pool.requested.cpu_millis, 500);
        // Node b is empty: all of it fits one pod.
        assert_eq!(pool.largest_pod.cpu_millis, 15_500);
    }

    #[test]
    fn a_closed_node_counts_in_nothing() {
        let mut nodes = two_nodes();
        nodes.get_mut("a").unwrap().open = false;
        let pods = BTreeMap::from([("1".to_owned(), pod("a", 500, false))]);
        let pool = &sum(&nodes, &pods, &guests(), &BTreeMap::new()).pools[0];
        assert_eq!((pool.nodes, pool.requested.cpu_millis), (1, 0));
    }

    /// A node with so many of a device as discovery labels it.
    fn with_gpus(product: &str, count: u64) -> NodeView {
        read(&raw_with_gpus(product, count)).unwrap()
    }

    fn raw_with_gpus(product: &str, count: u64) -> Value {
        let mut node = node();
        for (key, value) in [("product", product), ("count", &count.to_string()), ("replicas", "1")]
        {
            node["metadata"]["labels"][format!("nvidia.com/gpu.{key}")] = value.into();
        }
        node["status"]["allocatable"]["nvidia.com/gpu"] = count.to_string().into();
        node
    }

    #[test]
    fn pools_are_called_after_what_they_are_and_gpus_bring_their_share() {
        let nodes = [
            ("a", with_gpus("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 7)),
            ("b", with_gpus("NVIDIA-A100-SXM4-40GB", 2)),
            ("c", with_gpus("NVIDIA-A100-SXM4-40GB", 4)),
            ("d", with_gpus("NVIDIA-A100-SXM4-80GB", 1)),
            ("e", read(&node()).unwrap()),
        ];
        let nodes: BTreeMap<_, _> = nodes.map(|(name, view)| (name.to_owned(), view)).into();
        let inventory = sum(&nodes, &BTreeMap::new(), &guests(), &BTreeMap::new());
        let ids: Vec<_> = inventory.pools.iter().map(|pool| pool.id.as_str()).collect();
        let each =
            ["amd64", "amd64-a100-40gb-sxm", "amd64-a100-40gb-sxm.1g.5gb", "amd64-a100-80gb-sxm"];
        assert_eq!(ids, each);
        let two = &inventory.pools[1];
        assert_eq!((two.nodes, two.gpus[0].count, two.gpus[0].most_per_node), (2, 6, 4));
        // A quarter of 15.5 processors is less than a half.
        assert_eq!(two.gpus[0].cpu_millis_per_unit, 3_875);
        assert_eq!(two.gpus[0].memory_bytes_per_unit, 16 << 30);
        let without = nodes.into_iter().filter(|(name, _)| name != "a").collect();
        let again = sum(&without, &BTreeMap::new(), &guests(), &BTreeMap::new());
        assert_eq!(again.pools[1].id, inventory.pools[1].id);
    }

    #[test]
    fn processors_of_a_node_whose_gpus_are_not_sold_are_not_sold_either() {
        let nodes = [("a", with_gpus("NVIDIA-GB300", 8)), ("b", with_gpus("NVIDIA-GB300", 4))];
        let nodes = nodes.map(|(name, view)| (name.to_owned(), view)).into();
        let Inventory { pools, unsold, .. } =
            sum(&nodes, &BTreeMap::new(), &guests(), &BTreeMap::new());
        assert_eq!(pools, []);
        let [gpus, processors] = &unsold[..] else { panic!("two reasons: {unsold:?}") };
        assert_eq!((gpus.nodes, gpus.of.count), (2, 12));
        // Every node has GPUs: nobody can buy processors, which the owner is told.
        assert_eq!((processors.nodes, processors.of.count), (2, 31));
        assert_eq!(processors.of.line.as_deref(), Some("share.gpuNodes: any"));
        let mut nodes: BTreeMap<String, NodeView> = nodes;
        nodes.insert("c".to_owned(), read(&node()).unwrap());
        let Inventory { pools, unsold, .. } =
            sum(&nodes, &BTreeMap::new(), &guests(), &BTreeMap::new());
        assert_eq!((pools.len(), pools[0].nodes, unsold.len()), (1, 1, 1));
    }

    #[test]
    fn the_owner_may_sell_processors_of_any_node() {
        let any = OwnersWord { any_node: true, ..OwnersWord::default() };
        let view = |product: &str| NodeView::read(&raw_with_gpus(product, 4), &any).unwrap();
        let nodes = [("a", view("NVIDIA-GB300")), ("b", view("NVIDIA-L4"))];
        let nodes = nodes.map(|(name, view)| (name.to_owned(), view)).into();
        let Inventory { pools, unsold, .. } =
            sum(&nodes, &BTreeMap::new(), &guests(), &BTreeMap::new());
        let ids: Vec<_> = pools.iter().map(|pool| pool.id.as_str()).collect();
        assert_eq!(ids, ["amd64", "amd64-l4"]);
        assert_eq!(pools[1].gpus[0].cpu_millis_per_unit, 0, "no share, no bound");
        assert_eq!(unsold.len(), 1);
    }

    #[test]
    fn a_name_that_is_too_long_is_shortened_alike_everywhere() {
        let view = with_gpus(
            "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition-MIG-1g.24gb.me.all",
            4,
        );
        let id = id(&view.platform, &view.units);
        assert!(id.as_str().starts_with("amd64-") && id.as_str().len() == 14, "{id}");
    }

    proptest! {
        #[test]
        fn the_largest_pod_fits_some_node(
            pods in proptest::collection::vec((0..2usize, 0..20_000u64, any::<bool>()), 0..20)
        ) {
            let nodes = two_nodes();
            let pods: BTreeMap<_, _> = pods
                .into_iter()
                .enumerate()
                .map(|(i, (n, cpu, guest))| (i.to_string(), pod(["a", "b"][n], cpu, guest)))
                .collect();
            let pool = sum(&nodes, &pods, &guests(), &BTreeMap::new()).pools.remove(0);
            let best = ["a", "b"].into_iter().map(|name| {
                let used: u64 =
                    pods.values().filter(|p| p.node == name).map(|p| p.cpu_millis).sum();
                15_500u64.saturating_sub(used)
            });
            prop_assert_eq!(pool.largest_pod.cpu_millis, best.max().unwrap());
        }
    }
}
