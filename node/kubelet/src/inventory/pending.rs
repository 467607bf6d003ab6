//! Pods of home that find no room and could run elsewhere, with the virtual nodes of the same moment:
//! watched while something may be bought for them. What is bought is the broker's to say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use mercato_offload::home::leaving::Node;
use mercato_offload::home::pending::{self, Found, Lacking, PendingPods, RoamingPod};
use mercato_offload::key::Uid;
use tokio::sync::watch;
use tracing::Instrument as _;

use crate::apiserver::cluster::Cluster;
use crate::apiserver::events::{self, About, EventType};
use crate::apiserver::kind::{NODE, POD};
use crate::apiserver::watch::{Change, Selection, changes};
use crate::format::clock;
use crate::limits;
use crate::offload_namespace::{Known, OptedIn};

/// How pods without room are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstWatch {
    /// A pod counts once the scheduler has found no room for it for so long.
    pub after: Duration,
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
    Pod(Change<(String, Option<Box<RoamingPod>>)>),
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
    pods: Option<BTreeMap<Uid, RoamingPod>>,
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
    fn tell(&mut self, word: BurstWatch, lacking: &[Lacking]) {
        let there: BTreeSet<&Uid> = lacking.iter().map(|one| &one.pod.uid).collect();
        self.told.retain(|uid| there.contains(uid));
        let after_ms = u64::try_from(word.after.as_millis()).unwrap_or(u64::MAX);
        for Lacking { pod: id, since_ms, why } in lacking {
            let is_due = since_ms.saturating_add(after_ms) <= clock::now_ms();
            if is_due && self.told.len() < limits::BURST_TOLD && self.told.insert(id.uid.clone()) {
                let text = format!("nothing is bought for the pod: {why}");
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
        (uid, RoamingPod::read(&pod).map(Box::new))
    });
    stream::select(nodes.map(Seen::Node), pods.map(Seen::Pod)).ready_chunks(1_024).boxed()
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
    fn pending(&self, known: &OptedIn) -> Option<Found> {
        let (nodes, pods) = (self.nodes.as_ref()?, self.pods.as_ref()?);
        Some(pending::find(nodes, pods, |namespace| known.leave(namespace)))
    }
}

#[cfg(test)]
mod tests {
    use mercato_offload::placement::export::Scope;

    use super::*;

    #[test]
    fn nothing_is_told_before_all_nodes_and_pods_are_known() {
        let known = OptedIn::ready(Scope::Labelled, BTreeMap::new());
        let mut state = State::default();
        state.take(Seen::Node(Change::Synced(Vec::new())));
        assert!(state.pending(&known).is_none());
        state.take(Seen::Pod(Change::Synced(Vec::new())));
        assert_eq!(state.pending(&known).unwrap().pending, PendingPods::default());
    }
}
