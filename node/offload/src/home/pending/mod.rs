//! Pods of home that find no room and could run elsewhere, with the virtual nodes of the same moment: told
//! from what the cluster holds. What is bought for them is the market's to say.

mod choice;
mod waits;

use std::collections::BTreeMap;

use mercato_protocol::id::ContractId;
use mercato_protocol::terms::Platform;
use serde_json::Value;

pub use choice::{NodeAsk, NodeAskOf};
pub use waits::Lack;
use waits::Waits;

use super::leaving::{Around, Node, OwnerSort, PodSeen, Room};
use crate::key::{PodId, Uid};
use crate::limits;
use crate::placement::export::{Leave, Strategy};
use crate::placement::spec::NODE_PREFIX;

/// The pods that find no room and could run elsewhere, and the virtual nodes, of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingPods {
    /// The pods, in the order of their uids.
    pub pods: Vec<PendingPod>,
    /// The virtual nodes that are there.
    pub nodes: BTreeMap<ContractId, VirtualNode>,
}

/// A pod that finds no room and could run elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingPod {
    /// The namespace that it is in.
    pub namespace: String,
    /// The name of it there.
    pub name: String,
    /// What no other pod has or ever had.
    pub uid: String,
    /// Since when the scheduler says so, milliseconds since 1970.
    pub since_ms: u64,
    /// Processor time that it asks for, in thousandths of a core.
    pub cpu_millis: u64,
    /// Memory that it asks for, in bytes.
    pub memory_bytes: u64,
    /// The vendor of the GPUs that it asks for, and how many; none: it asks for none.
    pub gpus: Option<(&'static str, u64)>,
    /// On which kind of node it runs.
    pub platform: Platform,
    /// Which virtual nodes it may go to: alternatives, of which one has to hold whole.
    pub to: Vec<Vec<NodeAsk>>,
    /// The virtual node on which it has room all the same, by its contract.
    pub room_on: Option<ContractId>,
}

/// How a virtual node is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VirtualNode {
    /// It is ready, and no taint keeps off it pods that any virtual node suits.
    pub open: bool,
    /// So many pods are bound to it, those of DaemonSets aside.
    pub pods: u64,
}

/// A pod that is on a virtual node, or on none.
#[derive(Debug)]
pub struct RoamingPod {
    seen: PodSeen,
    waits: Option<Waits>,
}

impl RoamingPod {
    /// None for one that runs on a node of home: nothing is to be known of it.
    pub fn read(pod: &Value) -> Option<Self> {
        let seen = PodSeen::read(pod)?;
        let matters = seen.node.as_ref().is_none_or(|node| node.starts_with(NODE_PREFIX));
        matters.then(|| Self { waits: Waits::read(pod, &seen), seen })
    }
}

/// What is to be told of pods without room, and of the others why nothing is bought for them.
#[derive(Debug)]
pub struct Found {
    /// Those that something may be bought for.
    pub pending: PendingPods,
    /// Those that nothing is bought for, of namespaces that want it.
    pub lacking: Vec<Lacking>,
}

/// A pod without room that nothing is bought for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// The name and the uid of it.
    pub pod: PodId,
    /// Since when the scheduler says so, milliseconds since 1970.
    pub since_ms: u64,
    /// What keeps it from being bought for.
    pub why: Lack,
}

/// Looks for them: among the pods of a cluster that are on virtual nodes or on none, by whether those of
/// a namespace may leave.
pub fn find(
    nodes: &BTreeMap<String, Node>,
    pods: &BTreeMap<Uid, RoamingPod>,
    leave: impl Fn(&str) -> Leave,
) -> Found {
    let seen = pods.iter().map(|(uid, pod)| (uid.clone(), pod.seen.clone())).collect();
    let around = Around { nodes: nodes.clone(), pods: seen };
    let mut room = Room::of_virtual(&around);
    let platforms = platforms(nodes);
    let nodes = virtual_nodes(&around);
    let pending = PendingPods { nodes, ..PendingPods::default() };
    let mut found = Found { pending, lacking: Vec::new() };
    let mut waiting: Vec<(&RoamingPod, &Waits)> =
        pods.values().filter_map(|pod| Some((pod, pod.waits.as_ref()?))).collect();
    waiting.sort_by_key(|(pod, waits)| (waits.since_ms, &pod.seen.id.uid.0));
    for (pod, waits) in waiting {
        let id = &pod.seen.id;
        let Leave::Now(how) = leave(&id.namespace) else { continue };
        if !how.burst || how.strategy == Strategy::Local {
            continue;
        }
        match waits.asks(&how.secrets, &platforms) {
            Err(why) => {
                let (pod, since_ms) = (id.clone(), waits.since_ms);
                found.lacking.push(Lacking { pod, since_ms, why });
            }
            Ok((platform, to)) if found.pending.pods.len() < limits::BURST_PODS => {
                let node = room.place_on(&pod.seen);
                let room_on = node.and_then(Node::contract).and_then(|it| it.parse().ok());
                found.pending.pods.push(PendingPod {
                    namespace: id.namespace.clone(),
                    name: id.name.clone(),
                    uid: id.uid.0.clone(),
                    since_ms: waits.since_ms,
                    cpu_millis: waits.cpu_millis,
                    memory_bytes: waits.memory_bytes,
                    gpus: waits.gpus,
                    platform,
                    to,
                    room_on,
                });
            }
            Ok(_) => {}
        }
    }
    found
}

/// The kinds of home's own nodes, the most frequent first; those that images are usually made for after
/// them.
fn platforms(nodes: &BTreeMap<String, Node>) -> Vec<Platform> {
    let mut counts: BTreeMap<Platform, usize> = BTreeMap::new();
    for node in nodes.values().filter(|node| node.contract().is_none()) {
        let label = |key| node.label(key).and_then(|text| text.parse().ok());
        let arch = label("kubernetes.io/arch").zip(label("kubernetes.io/os"));
        if let Some((arch, os)) = arch {
            *counts.entry(Platform { arch, os }).or_default() += 1;
        }
    }
    let usual = ["amd64", "arm64"]
        .into_iter()
        .filter_map(|arch| Some(Platform { arch: arch.parse().ok()?, os: "linux".parse().ok()? }));
    let mut own: Vec<(Platform, usize)> = counts.into_iter().collect();
    own.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut all: Vec<Platform> = own.into_iter().map(|(platform, _)| platform).collect();
    for platform in usual {
        if !all.contains(&platform) {
            all.push(platform);
        }
    }
    all
}

fn virtual_nodes(around: &Around) -> BTreeMap<ContractId, VirtualNode> {
    let mut all = BTreeMap::new();
    for (name, node) in &around.nodes {
        let Some(contract) = node.contract().and_then(|it| it.parse().ok()) else { continue };
        let is_of_daemon =
            |pod: &PodSeen| pod.owner.as_ref().is_some_and(|it| it.sort == OwnerSort::DaemonSet);
        let on = |pod: &&PodSeen| pod.node.as_ref() == Some(name) && !is_of_daemon(pod);
        let pods = around.pods.values().filter(on).count() as u64;
        let open = node.is_open() && !node.is_kept_free();
        all.insert(contract, VirtualNode { open, pods });
    }
    all
}

#[cfg(test)]
mod tests;
