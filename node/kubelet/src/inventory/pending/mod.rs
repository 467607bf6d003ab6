//! Pods of home that find no room and could run elsewhere, with the virtual nodes of the same moment:
//! watched while something may be bought for them. What is bought is the broker's to say.

mod choice;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use mercato_offload::home::leaving::{Around, Node, OwnerSort, PodSeen, Room};
use mercato_offload::key::{PodId, Uid};
use mercato_offload::placement::export::{Leave, Strategy};
use mercato_offload::placement::spec::NODE_PREFIX;
use mercato_protocol::id::ContractId;
use mercato_protocol::terms::Platform;
use serde_json::Value;
use tokio::sync::watch;
use tracing::Instrument as _;

use crate::apiserver::cluster::Cluster;
use crate::apiserver::events::{self, About, EventType};
use crate::apiserver::kind::{NODE, POD};
use crate::apiserver::watch::{Change, Selection, changes};
use crate::format::clock;
use crate::limits;
use crate::offload_namespace::{Known, OptedIn};

pub use choice::{NodeAsk, NodeAskOf};
use waits::{Lack, Waits};

/// How pods without room are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstWatch {
    /// A pod counts once the scheduler has found no room for it for so long.
    pub after: Duration,
}

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
    /// It is ready and takes pods, as the cluster's controllers have seen as well.
    pub open: bool,
    /// So many pods are bound to it, those of DaemonSets aside.
    pub pods: u64,
}

/// The pods without room, first when all is known and then whenever that differs; nothing where nothing
/// may be bought, or nobody wants it. Ends never; an API server out of reach yields nothing. Whatever
/// keeps a pod from it that waits for too long is said on the pod.
pub fn pending(
    cluster: &Cluster,
    word: watch::Receiver<Option<BurstWatch>>,
    opted_in: watch::Receiver<Known>,
) -> BoxStream<'static, PendingPods> {
    let watching = Watching {
        cluster: cluster.clone(),
        word,
        opted_in,
        seen: None,
        state: State::default(),
        last: None,
        told: BTreeSet::new(),
    };
    stream::unfold(watching, |mut watching| async move {
        let next = watching.next().await?;
        Some((next, watching))
    })
    .boxed()
}

/// A pod that is told something.
#[derive(Debug, Clone, Copy)]
pub struct PodName<'a> {
    /// The namespace that it is in.
    pub namespace: &'a str,
    /// The name of it there.
    pub name: &'a str,
    /// What no other pod has or ever had.
    pub uid: &'a str,
}

/// Says something on a pod, once.
pub fn tell_pod(
    cluster: &Cluster,
    pod: PodName<'_>,
    kind: EventType,
    reason: &str,
    text: &str,
) -> BoxFuture<'static, ()> {
    let about = About::core(POD.kind, pod.namespace, pod.name, Some(pod.uid.to_owned()));
    let told = events::write_once(cluster, about, kind, reason, text);
    async move {
        if let Err(failure) = told.await {
            tracing::debug!(%failure, "an event is lost");
        }
    }
    .in_current_span()
    .boxed()
}

enum Seen {
    Node(Change<(String, Option<Node>)>),
    Pod(Change<(String, Option<Box<Pod>>)>),
}

/// A pod that is on a virtual node, or on none.
struct Pod {
    seen: PodSeen,
    waits: Option<Waits>,
}

struct Watching {
    cluster: Cluster,
    word: watch::Receiver<Option<BurstWatch>>,
    opted_in: watch::Receiver<Known>,
    /// None while nothing is watched.
    seen: Option<BoxStream<'static, Vec<Seen>>>,
    state: State,
    last: Option<PendingPods>,
    /// Pods that were told why nothing is bought for them.
    told: BTreeSet<Uid>,
}

#[derive(Default)]
struct State {
    nodes: Option<BTreeMap<String, Node>>,
    pods: Option<BTreeMap<Uid, Pod>>,
}

impl Watching {
    async fn next(&mut self) -> Option<PendingPods> {
        loop {
            let word = *self.word.borrow_and_update();
            let known = self.opted_in.borrow_and_update().clone();
            let wanted = word.zip(known.filter(|known| known.bursts()));
            let Some((word, known)) = wanted else {
                (self.seen, self.state) = (None, State::default());
                if self.last.take().is_some_and(|last| last != PendingPods::default()) {
                    return Some(PendingPods::default());
                }
                tokio::select! {
                    changed = self.word.changed() => changed.ok()?,
                    changed = self.opted_in.changed() => changed.ok()?,
                }
                continue;
            };
            if let Some(all) = self.state.pending(&known) {
                self.tell(word, &all.lacking);
                if self.last.as_ref() != Some(&all.pending) {
                    self.last = Some(all.pending.clone());
                    return Some(all.pending);
                }
            }
            let cluster = &self.cluster;
            let seen = self.seen.get_or_insert_with(|| watch_all(cluster));
            tokio::select! {
                changed = self.word.changed() => changed.ok()?,
                changed = self.opted_in.changed() => changed.ok()?,
                more = seen.next() => more?.into_iter().for_each(|one| self.state.take(one)),
                // What is to be told may have become due.
                () = tokio::time::sleep(limits::BURST_LOOK) => {}
            }
        }
    }

    /// Says on pods that have waited for long enough why nothing is bought for them.
    fn tell(&mut self, word: BurstWatch, lacking: &[(PodId, u64, Lack)]) {
        let there: BTreeSet<&Uid> = lacking.iter().map(|(id, ..)| &id.uid).collect();
        self.told.retain(|uid| there.contains(uid));
        let after_ms = u64::try_from(word.after.as_millis()).unwrap_or(u64::MAX);
        for (id, since_ms, lack) in lacking {
            let is_due = since_ms.saturating_add(after_ms) <= clock::now_ms();
            if is_due && self.told.len() < limits::BURST_TOLD && self.told.insert(id.uid.clone()) {
                let text = format!("nothing is bought for the pod: {lack}");
                let pod = PodName { namespace: &id.namespace, name: &id.name, uid: &id.uid.0 };
                let warns = EventType::Warning;
                tokio::spawn(tell_pod(&self.cluster, pod, warns, "NotBought", &text));
            }
        }
    }
}

fn watch_all(cluster: &Cluster) -> BoxStream<'static, Vec<Seen>> {
    let nodes = changes(cluster, NODE, Selection::default(), |node| {
        let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        (name, Node::read(&node))
    });
    let over = "status.phase!=Succeeded,status.phase!=Failed";
    let pods = changes(cluster, POD, Selection::default().fields(over.to_owned()), |pod| {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        (uid, Pod::read(&pod).map(Box::new))
    });
    stream::select(nodes.map(Seen::Node), pods.map(Seen::Pod)).ready_chunks(1_024).boxed()
}

impl Pod {
    /// None for one that runs on a node of home: nothing is to be known of it.
    fn read(pod: &Value) -> Option<Self> {
        let seen = PodSeen::read(pod)?;
        let matters = seen.node.as_ref().is_none_or(|node| node.starts_with(NODE_PREFIX));
        matters.then(|| Self { waits: Waits::read(pod, &seen), seen })
    }
}

/// What is to be told of pods without room, and of the others why nothing is bought for them.
struct All {
    pending: PendingPods,
    lacking: Vec<(PodId, u64, Lack)>,
}

impl State {
    fn take(&mut self, seen: Seen) {
        match seen {
            Seen::Node(Change::Synced(all)) => {
                let read = all.into_iter().filter_map(|(name, node)| Some((name, node?)));
                self.nodes = Some(read.collect());
            }
            Seen::Node(Change::Changed((name, Some(node)))) => {
                self.nodes.get_or_insert_default().insert(name, node);
            }
            Seen::Node(Change::Changed((name, None)) | Change::Deleted((name, _))) => {
                self.nodes.get_or_insert_default().remove(&name);
            }
            Seen::Pod(Change::Synced(all)) => {
                let read = all.into_iter().filter_map(|(uid, pod)| Some((Uid(uid), *pod?)));
                self.pods = Some(read.collect());
            }
            Seen::Pod(Change::Changed((uid, Some(pod)))) => {
                self.pods.get_or_insert_default().insert(Uid(uid), *pod);
            }
            Seen::Pod(Change::Changed((uid, None)) | Change::Deleted((uid, _))) => {
                self.pods.get_or_insert_default().remove(&Uid(uid));
            }
        }
    }

    /// None before all nodes and pods are known.
    fn pending(&mut self, known: &Arc<OptedIn>) -> Option<All> {
        let (nodes, pods) = (self.nodes.as_ref()?, self.pods.as_ref()?);
        let seen = pods.iter().map(|(uid, pod)| (uid.clone(), pod.seen.clone())).collect();
        let around = Around { nodes: nodes.clone(), pods: seen };
        let mut room = Room::of_virtual(&around);
        let platforms = platforms(nodes);
        let mut all = All { pending: PendingPods::default(), lacking: Vec::new() };
        all.pending.nodes = virtual_nodes(&around);
        let mut waiting: Vec<(&Pod, &Waits)> =
            pods.values().filter_map(|pod| Some((pod, pod.waits.as_ref()?))).collect();
        waiting.sort_by_key(|(pod, waits)| (waits.since_ms, &pod.seen.id.uid.0));
        for (pod, waits) in waiting {
            let id = &pod.seen.id;
            let Leave::Now(how) = known.leave(&id.namespace) else { continue };
            if !how.burst || how.strategy == Strategy::Local {
                continue;
            }
            match waits.asks(&how.secrets, &platforms) {
                Err(lack) => all.lacking.push((id.clone(), waits.since_ms, lack)),
                Ok((platform, to)) if all.pending.pods.len() < limits::BURST_PODS => {
                    let node = room.place_on(&pod.seen);
                    let room_on = node.and_then(Node::contract).and_then(|it| it.parse().ok());
                    all.pending.pods.push(PendingPod {
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
        Some(all)
    }
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
        let open = node.is_open() && !node.is_settling();
        all.insert(contract, VirtualNode { open, pods });
    }
    all
}

#[cfg(test)]
mod tests;
