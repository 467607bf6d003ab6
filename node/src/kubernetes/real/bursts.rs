//! Pods without room for which something may be bought: watched, told to the market, and told what was
//! decided for them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use mercato_broker::{
    BurstKey, BurstNews, BurstPolicy, BurstWord, NodeChoice, NodeFact, NodeTerm, NodeUse,
    PodDemand, Shape, WaitingPod,
};
use mercato_kubelet::crd::EventType;
use mercato_kubelet::inventory::{
    self, BurstWatch, NodeAsk, NodeAskOf, PendingPod, PendingPods, PodName, VirtualNode,
};
use mercato_protocol::resources::Resources;
use tokio::sync::watch;

use super::shared::Shared;

/// How pods are watched for which this may be bought.
pub(super) fn watched(bursts: &BurstPolicy) -> BurstWatch {
    BurstWatch { after: Duration::from_secs(bursts.after_s) }
}

/// The pods, now and whenever they are others.
pub(super) fn pending(
    shared: &Shared,
    word: watch::Receiver<Option<BurstWatch>>,
) -> BoxStream<'static, PodDemand> {
    let pods = inventory::pending(&shared.cluster, word, shared.opt_ins.known());
    pods.map(demand).boxed()
}

/// Says on some pods what was decided for them.
pub(super) fn tell_pods(shared: &Shared, news: &BurstNews) {
    let kind = match news.word {
        BurstWord::Bought => EventType::Normal,
        BurstWord::NoOffer
        | BurstWord::OverBudget
        | BurstWord::BoughtInVain
        | BurstWord::NotExtended
        | BurstWord::GivenBack
        | BurstWord::GivenUp => EventType::Warning,
    };
    for [name, uid] in &news.pods {
        let pod = PodName { namespace: &news.key.namespace, name, uid };
        let reason = news.word.as_str();
        tokio::spawn(inventory::tell_pod(&shared.cluster, pod, kind, reason, &news.text));
    }
}

/// Pods without room as the market knows them: those together that are alike.
fn demand(pending: PendingPods) -> PodDemand {
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
