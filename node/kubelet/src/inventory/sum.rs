//! The sum by pool: pure, from what is kept of nodes and pods.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::gpu::GpuPool;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::Platform;
use mercato_protocol::text::GpuModel;

use super::node::NodeView;
use super::pod::PodView;

/// What the cluster has and uses, by pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// By platform, then GPU model.
    pub pools: Vec<Pool>,
}

/// Nodes of one platform and one kind of GPU, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
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
    let mut pools: BTreeMap<(Platform, Option<GpuModel>), Pool> = BTreeMap::new();
    for (name, node) in nodes.iter().filter(|(_, node)| node.open) {
        let (own, all) = used.remove(name.as_str()).unwrap_or_default();
        let model = node.gpu.as_ref().map(|gpu| gpu.model.clone());
        let pool = pools.entry((node.platform.clone(), model)).or_insert_with(|| Pool {
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
        add_gpu(&mut pool.gpus, node.gpu.as_ref());
    }
    Inventory { pools: pools.into_values().collect() }
}

fn asks(pod: &PodView, node: &NodeView) -> Resources {
    let model = node.gpu.as_ref().map(|gpu| gpu.model.clone()).filter(|_| pod.gpus > 0);
    Resources {
        cpu_millis: pod.cpu_millis,
        memory_bytes: pod.memory_bytes,
        pods: 1,
        gpus: model.map(|model| (model, pod.gpus)).into_iter().collect(),
    }
}

/// GPUs first, then CPU: what is scarce decides which node's room is shown.
fn larger(free: &Resources, than: &Resources) -> bool {
    let rank = |r: &Resources| (r.gpus.values().sum::<u64>(), r.cpu_millis, r.memory_bytes);
    rank(free) > rank(than)
}

fn add_gpu(gpus: &mut Vec<GpuPool>, more: Option<&GpuPool>) {
    let Some(more) = more else { return };
    match gpus.iter_mut().find(|gpu| gpu.model == more.model) {
        Some(gpu) => {
            gpu.count = gpu.count.saturating_add(more.count);
            gpu.most_per_node = gpu.most_per_node.max(more.most_per_node);
            gpu.memory_mib = gpu.memory_mib.min(more.memory_mib);
        }
        None => gpus.push(more.clone()),
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
        gpus,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::inventory::node::tests::node;

    fn pod(node: &str, cpu_millis: u64, guest: bool) -> PodView {
        let namespace = if guest { "shop-rome" } else { "shop" }.to_owned();
        PodView { node: node.into(), namespace, cpu_millis, memory_bytes: 1 << 30, gpus: 0 }
    }

    fn guests() -> BTreeSet<String> {
        ["shop-rome".to_owned()].into()
    }

    fn two_nodes() -> BTreeMap<String, NodeView> {
        let view = NodeView::read(&node()).unwrap();
        [("a", view.clone()), ("b", view)].map(|(name, view)| (name.to_owned(), view)).into()
    }

    #[test]
    fn guests_are_not_requested_twice() {
        let pods = [("1", pod("a", 500, false)), ("2", pod("a", 5000, true))];
        let pods = pods.map(|(uid, pod)| (uid.to_owned(), pod)).into();
        let inventory = sum(&two_nodes(), &pods, &guests());
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
        let pool = &sum(&nodes, &pods, &guests()).pools[0];
        assert_eq!((pool.nodes, pool.requested.cpu_millis), (1, 0));
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
            let pool = sum(&nodes, &pods, &guests()).pools.remove(0);
            let best = ["a", "b"].into_iter().map(|name| {
                let used: u64 =
                    pods.values().filter(|p| p.node == name).map(|p| p.cpu_millis).sum();
                15_500u64.saturating_sub(used)
            });
            prop_assert_eq!(pool.largest_pod.cpu_millis, best.max().unwrap());
        }
    }
}
