//! The pods of virtual nodes that leave: what becomes of each is decided by
//! [`mercato_offload::home::leaving`]; here the cluster is watched for that, while any node leaves, and
//! what was decided is done.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use futures::FutureExt;
use futures::StreamExt;
use futures::future::BoxFuture;
use mercato_offload::home::leaving::{
    Act, Around, Evicted, Left, Movers, Node, Note, Place, PodSeen,
};
use mercato_offload::key::PodId;
use mercato_offload::placement::export::{Leave, WhenLeaving};
use mercato_offload::placement::spec::Leaving;
use mercato_protocol::time::Now;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::shared::Shared;
use super::write;
use crate::apiserver::cluster::Cluster;
use crate::apiserver::events::{self, About, EventType};
use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::{NODE, POD};
use crate::apiserver::watch::{Change, Selection, changes};
use crate::format::clock;
use crate::limits;
use crate::pace::every;

/// The virtual nodes of a cluster that leave; while there is one, all nodes and pods are watched.
#[derive(Default)]
pub struct Leavers {
    following: Mutex<Weak<Following>>,
}

/// What all nodes that leave have in common: an owner may have pods on several.
struct Following {
    known: Mutex<Known>,
    start: tokio::time::Instant,
    _watch: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Known {
    around: Around,
    has_nodes: bool,
    has_pods: bool,
    movers: Movers,
}

impl Leavers {
    fn follow(&self, cluster: &Cluster) -> Arc<Following> {
        let mut known = lock(&self.following);
        known.upgrade().unwrap_or_else(|| {
            let following = Following::start(cluster);
            *known = Arc::downgrade(&following);
            following
        })
    }
}

impl Following {
    fn start(cluster: &Cluster) -> Arc<Self> {
        let over = "status.phase!=Succeeded,status.phase!=Failed";
        let read =
            |object: Value, one| (object["metadata"]["uid"].as_str().map(str::to_owned), one);
        let nodes = changes(cluster, NODE, Selection::default(), |node| {
            let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            (name, Node::read(&node))
        });
        let pods =
            changes(cluster, POD, Selection::default().fields(over.to_owned()), move |pod| {
                let seen = PodSeen::read(&pod);
                read(pod, seen)
            });
        Arc::new_cyclic(|this: &Weak<Self>| {
            let this = this.clone();
            let (mut nodes, mut pods) = (nodes, pods);
            let watch = tokio::spawn(async move {
                loop {
                    tokio::select! {
                        Some(change) = nodes.next() => {
                            let Some(this) = this.upgrade() else { return };
                            lock(&this.known).take_node(change);
                        }
                        Some(change) = pods.next() => {
                            let Some(this) = this.upgrade() else { return };
                            lock(&this.known).take_pod(change);
                        }
                        else => return,
                    }
                }
            });
            let _watch = AbortOnDropHandle::new(watch);
            Self { known: Mutex::default(), start: tokio::time::Instant::now(), _watch }
        })
    }

    fn now(&self) -> Now {
        let mono_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { mono_ms, wall_ms: clock::now_ms() }
    }

    /// What is to be done about the pods of a node; none before all nodes and pods are known.
    fn step(&self, place: Place<'_>) -> Option<(Vec<Act>, Left)> {
        let mut known = lock(&self.known);
        let Known { around, has_nodes, has_pods, movers } = &mut *known;
        let step = (*has_nodes && *has_pods).then(|| movers.step(self.now(), place, around))?;
        Some((step.acts, step.left))
    }

    /// What came of an eviction.
    fn evicted(&self, pod: &PodId, done: Evicted) {
        let mut known = lock(&self.known);
        let Known { around, movers, .. } = &mut *known;
        let owner = around.pods.get(&pod.uid).and_then(|pod| pod.owner.as_ref());
        movers.evicted(self.now(), pod, owner, done);
    }
}

impl Known {
    fn take_node(&mut self, change: Change<(String, Option<Node>)>) {
        match change {
            Change::Synced(all) => {
                let read = all.into_iter().filter_map(|(name, node)| Some((name, node?)));
                self.around.nodes = read.collect();
                self.has_nodes = true;
            }
            Change::Changed((name, Some(node))) => drop(self.around.nodes.insert(name, node)),
            Change::Changed((name, None)) | Change::Deleted((name, _)) => {
                self.around.nodes.remove(&name);
            }
        }
    }

    fn take_pod(&mut self, change: Change<(Option<String>, Option<PodSeen>)>) {
        match change {
            Change::Synced(all) => {
                let read = all.into_iter().filter_map(|(_, pod)| pod);
                self.around.pods = read.map(|pod| (pod.id.uid.clone(), pod)).collect();
                self.has_pods = true;
            }
            Change::Changed((_, Some(pod))) => {
                self.around.pods.insert(pod.id.uid.clone(), pod);
            }
            Change::Changed((uid, None)) | Change::Deleted((uid, _)) => {
                self.around.pods.retain(|known, _| Some(&known.0) != uid.as_ref());
            }
        }
    }
}

/// Sees to the pods of a node whenever it leaves, until it does not, or the side ends.
pub(super) fn tend(
    shared: Arc<Shared>,
    leavers: Arc<Leavers>,
    longest_grace_s: u64,
    mut leaving: watch::Receiver<Option<Leaving>>,
    left: watch::Sender<Left>,
) -> BoxFuture<'static, ()> {
    let stop = shared.stop.clone();
    let tending = async move {
        loop {
            if leaving.wait_for(Option::is_some).await.is_err() {
                return;
            }
            let following = leavers.follow(&shared.cluster);
            let mut looks = every(limits::LEAVING_LOOK);
            loop {
                looks.tick().await;
                let Some(leaving) = leaving.borrow_and_update().clone() else { break };
                let moves = moves(&shared);
                let node = &shared.config.node;
                let place = Place { node, leaving: &leaving, longest_grace_s, moves: &moves };
                look(&shared, &following, place, &left);
            }
            left.send_replace(Left::new());
        }
    };
    async move {
        tokio::select! { () = stop.cancelled() => {}, () = tending => {} }
    }
    .boxed()
}

/// Whether the pods of a namespace may be evicted, as it says by now.
fn moves(shared: &Shared) -> impl Fn(&str) -> bool + use<> {
    let opted_in = shared.opted_in.borrow().clone();
    move |namespace| {
        let leave = opted_in.as_ref().map(|known| known.leave(namespace));
        matches!(leave, Some(Leave::Now(how)) if how.when_leaving == WhenLeaving::Move)
    }
}

/// Begins what is to be done now.
fn look(
    shared: &Arc<Shared>,
    following: &Arc<Following>,
    place: Place<'_>,
    left: &watch::Sender<Left>,
) {
    let Some((acts, now_left)) = following.step(place) else { return };
    left.send_if_modified(|before| {
        let differs = *before != now_left;
        *before = now_left;
        differs
    });
    for act in acts {
        match act {
            Act::Tell(pod, note) => {
                tokio::spawn(tell(shared.clone(), pod, note).in_current_span());
            }
            Act::Evict(pod) => {
                tokio::spawn(evict(shared.clone(), following.clone(), pod).in_current_span());
            }
            Act::End { pod, of_job } => {
                if let Some(asking) = write::end(shared, &pod) {
                    let disrupted = disrupted(shared.clone(), pod, of_job);
                    tokio::spawn(disrupted.then(|()| asking).in_current_span());
                }
            }
        }
    }
}

/// An event on the pod, once.
async fn tell(shared: Arc<Shared>, pod: PodId, note: Note) {
    if !shared.events.has_one(Instant::now()) {
        tracing::debug!(pod = %pod.key(), reason = note.reason, "one event too many");
        return;
    }
    let about = About::core(POD.kind, &pod.namespace, &pod.name, Some(pod.uid.0.clone()));
    let kind = if note.warns { EventType::Warning } else { EventType::Normal };
    let told = events::write_once(&shared.cluster, about, kind, note.reason, &note.text).await;
    if let Err(failure) = told {
        tracing::debug!(%failure, pod = %pod.key(), "an event is lost");
    }
}

async fn evict(shared: Arc<Shared>, following: Arc<Following>, pod: PodId) {
    let turn = shared.turns.acquire().await;
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": { "name": pod.name, "namespace": pod.namespace },
        "deleteOptions": { "preconditions": { "uid": pod.uid } } });
    let ns = Some(pod.namespace.as_str());
    let answer = shared.cluster.create_once_at(POD, ns, &pod.name, "eviction", eviction).await;
    drop(turn);
    let done = match answer {
        Ok(_) => Evicted::Taken,
        // It is gone, or another has its name.
        Err(failure) if matches!(failure.class, Class::Missing | Class::Conflict) => Evicted::Taken,
        Err(failure) if is_held(&failure) => Evicted::Held,
        Err(failure) if shared.pods.failed(&pod.uid, &failure) => {
            // Once for each reason.
            tracing::warn!(%failure, pod = %pod.key(), "a pod could not be evicted");
            Evicted::Failed
        }
        Err(_) => Evicted::Failed,
    };
    following.evicted(&pod, done);
}

/// Whether a budget does not let a pod go, or several are there, of which the API server takes none.
fn is_held(failure: &Failure) -> bool {
    let said = failure.message.to_lowercase().replace(' ', "");
    matches!(failure.code, 429 | 500) && said.contains("disruptionbudget")
}

/// Says of a Job's pod that it is ended by no fault of its own, as an eviction does by itself.
async fn disrupted(shared: Arc<Shared>, pod: PodId, of_job: bool) {
    if !of_job {
        return;
    }
    let condition = json!({ "type": "DisruptionTarget", "status": "True",
        "reason": "DeletionByMercato", "message": "the lease of its node ends",
        "lastTransitionTime": clock::now() });
    let patch = json!({ "metadata": { "uid": pod.uid }, "status": { "conditions": [condition] } });
    let ns = Some(pod.namespace.as_str());
    let written = shared.cluster.strategic(POD, ns, &pod.name, Some("status"), patch).await;
    match written {
        Ok(fresh) => shared.pods.refresh(fresh),
        Err(failure) => tracing::debug!(%failure, pod = %pod.key(), "a disruption is not told"),
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
