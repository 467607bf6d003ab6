//! Pods without room, as the cluster tells of them, in the market's words.

use std::collections::BTreeMap;

use mercato_broker::{
    BurstKey, NodeChoice, NodeFact, NodeTerm, NodeUse, PodDemand, Shape, WaitingPod,
};
use mercato_offload::home::pending::{NodeAsk, NodeAskOf, PendingPod, PendingPods, VirtualNode};
use mercato_protocol::resources::Resources;

/// Pods without room as the market knows them: those together that are alike.
pub fn demand(pending: PendingPods) -> PodDemand {
    let mut shapes: BTreeMap<(BurstKey, Resources, u64, NodeChoice), Vec<WaitingPod>> =
        BTreeMap::new();
    for pod in pending.pods {
        let PendingPod { namespace, name, uid, since_ms, platform, room_on, .. } = pod;
        let vendor = pod.gpus.and_then(|(vendor, _)| vendor.parse().ok());
        let key = BurstKey { namespace, platform, gpus_of: vendor };
        let per_pod = Resources {
            cpu_millis: pod.cpu_millis,
            memory_bytes: pod.memory_bytes,
            pods: 1,
            ..Resources::default()
        };
        let to = pod.to.into_iter().map(|all| all.into_iter().map(node_term).collect()).collect();
        let gpus = pod.gpus.map_or(0, |(_, count)| count);
        let of = (key, per_pod, gpus, NodeChoice(to));
        shapes.entry(of).or_default().push(WaitingPod { since_ms, uid, name, room_on });
    }
    let shape = |((key, per_pod, gpus, to), pods)| Shape { key, per_pod, gpus, to, pods };
    let used = |node: VirtualNode| NodeUse { open: node.open, pods: node.pods };
    PodDemand {
        shapes: shapes.into_iter().map(shape).collect(),
        nodes: pending.nodes.into_iter().map(|(contract, node)| (contract, used(node))).collect(),
    }
}

fn node_term(ask: NodeAsk) -> NodeTerm {
    let NodeAsk { of, among, not } = ask;
    let of = match of {
        NodeAskOf::Provider => NodeFact::Provider,
        NodeAskOf::Name => NodeFact::Name,
    };
    NodeTerm { of, among, not }
}
