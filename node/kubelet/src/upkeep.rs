//! What keeps guests within their contract, and what lets home's pods leave, stays as the daemon has written
//! it: it is followed, one watch a kind and name for the whole cluster, and put back when somebody deletes or changes it. Whether it was
//! changed, and what is told of it, is decided in `mercato_offload::put_back`; how often an object is
//! written, by the pace of all writes.

#[cfg(test)]
mod tests;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::select_all;
use mercato_offload::put_back::{self, KeptObject, PutBack, PutBacks};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::apiserver::cluster::{Cluster, Deletion};
use crate::apiserver::events::{self, About, EventType};
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::{
    Kind, LIMIT_RANGE, NAMESPACE, NETWORK_POLICY, RESOURCE_QUOTA, ROLE_BINDING, WEBHOOK,
};
use crate::apiserver::watch::{Change, Selection, changes};
use crate::limits;
use crate::names::{self, API_ACCESS_ROLE, CONTRACT, NAMESPACE_ROLE};
use crate::pace::Backoff;
use crate::repeated::Repeated;
use crate::warn_once;
use written::{Keeps, Spot, WrittenObject, change, uid};

/// What is followed, and how each is called in its namespace: the account may follow no others.
const FOLLOWED: [Followed; 6] = [
    (NETWORK_POLICY, OURS),
    (RESOURCE_QUOTA, OURS),
    (LIMIT_RANGE, OURS),
    (ROLE_BINDING, NAMESPACE_ROLE),
    (ROLE_BINDING, API_ACCESS_ROLE),
    (WEBHOOK, names::WEBHOOK),
];

/// The kind of what one watch follows, and its name.
type Followed = (Kind, &'static str);

/// Name of what we put into a guest namespace.
pub(crate) const OURS: &str = "mercato";

/// The objects that stay as they were written. Clones are the same; when the last
/// is gone, nothing is followed any more.
#[derive(Clone)]
pub struct Upkeep {
    inner: Arc<UpkeepParts>,
    _following: Arc<AbortOnDropHandle<()>>,
}

struct UpkeepParts {
    cluster: Cluster,
    state: Mutex<UpkeepState>,
    /// How many objects are kept: without any, nothing is watched.
    count: watch::Sender<usize>,
    /// There is something to be looked at.
    asked: Notify,
    began: Instant,
}

#[derive(Default)]
struct UpkeepState {
    written: BTreeMap<Spot, Arc<WrittenObject>>,
    /// Namespaces in which all is being written, and what of them has changed meanwhile.
    writing: BTreeMap<String, BTreeSet<Spot>>,
    due: BTreeSet<Spot>,
    /// Those that are being looked at.
    busy: BTreeSet<Spot>,
    put_back: PutBacks,
}

/// What a watch tells of an object.
struct LookedAt {
    spot: Spot,
    /// It is as it was written, or is none of ours.
    holds: bool,
}

impl Upkeep {
    /// Begins to follow, as soon as there is something to be kept.
    pub fn start(cluster: Cluster) -> Self {
        let inner = Arc::new(UpkeepParts {
            cluster,
            state: Mutex::default(),
            count: watch::Sender::default(),
            asked: Notify::new(),
            began: Instant::now(),
        });
        let following = tokio::spawn(follow(inner.clone()));
        Self { inner, _following: Arc::new(AbortOnDropHandle::new(following)) }
    }

    /// What was put back within the last hour.
    pub fn recent(&self) -> Vec<PutBack> {
        self.inner.state().put_back.recent(self.inner.began.elapsed())
    }

    /// Nothing in this namespace is kept any more: it is about to go.
    pub fn forget(&self, namespace: &str) {
        let mut state = self.inner.state();
        state.forget(Keeps::Guests, namespace);
        state.writing.remove(namespace);
        self.inner.count(&state);
    }

    /// At home an object was written so, or is there so, and stays so: one of the names that are followed.
    /// It is looked at once. In what namespace it is, or none.
    pub(crate) fn keep(&self, kind: Kind, namespace: &str, name: &'static str, object: &Value) {
        let spot = Spot { kind, namespace: namespace.to_owned(), name };
        let mut state = self.inner.state();
        if state.written.get(&spot).is_some_and(|known| known.is(object)) {
            return;
        }
        let written = WrittenObject::new(Keeps::Home, object);
        state.written.insert(spot.clone(), Arc::new(written));
        state.due.insert(spot);
        self.inner.count(&state);
        drop(state);
        self.inner.asked.notify_one();
    }

    /// What home kept in this namespace, or as the cluster's, is about to be taken back: all of it, or what
    /// has this name.
    pub(crate) fn leave(&self, namespace: &str, name: Option<&str>) {
        let mut state = self.inner.state();
        let stays = |spot: &Spot, written: &WrittenObject| {
            let is_meant = name.is_none_or(|name| name == spot.name);
            written.keeps != Keeps::Home || spot.namespace != namespace || !is_meant
        };
        state.written.retain(|spot, written| stays(spot, written));
        self.inner.count(&state);
    }

    /// All in this namespace is about to be written, and is not looked at meanwhile. Whether this run of the
    /// daemon has kept it before, or has begun to write it: what is missing then was not written yet.
    pub(crate) fn begin(&self, namespace: &str) -> bool {
        let mut state = self.inner.state();
        let is_begun = state.writing.contains_key(namespace);
        state.writing.entry(namespace.to_owned()).or_default();
        let before = state.written.len();
        state.forget(Keeps::Guests, namespace);
        is_begun || state.written.len() < before
    }

    /// All in this namespace was written so, and stays so. The binding of our rights is looked at once:
    /// it is not written where the rights are there.
    pub(crate) fn settle(&self, namespace: &str, objects: &[(Kind, Value)]) {
        let mut state = self.inner.state();
        for (kind, object) in objects {
            let written = WrittenObject::new(Keeps::Guests, object);
            state.written.insert(in_guests(*kind, namespace), Arc::new(written));
        }
        let missed = state.writing.remove(namespace).unwrap_or_default();
        let binding = in_guests(ROLE_BINDING, namespace);
        let known = missed.into_iter().chain([binding]);
        let known: Vec<_> = known.filter(|spot| state.written.contains_key(spot)).collect();
        state.due.extend(known);
        self.inner.count(&state);
        drop(state);
        self.inner.asked.notify_one();
    }

    /// An object was found deleted or changed as all was written, and is as it was.
    pub(crate) fn note(
        &self,
        kind: Kind,
        namespace: &str,
        found: Option<&Value>,
        written: &Value,
    ) -> BoxFuture<'static, ()> {
        let about = in_guests(kind, namespace).about(uid(found));
        self.tell(kind, about, change(found, written), Keeps::Guests.words())
    }

    /// An object was put back, to which somebody had done this; the last are the words for what it is
    /// there for. People are told once in a while.
    pub(crate) fn tell(
        &self,
        kind: Kind,
        about: About,
        change: put_back::Meddling,
        why: &'static str,
    ) -> BoxFuture<'static, ()> {
        let inner = self.inner.clone();
        Box::pin(async move { inner.note(kind, about, change, why).await })
    }
}

/// An object of this kind in a guest namespace.
fn in_guests(kind: Kind, namespace: &str) -> Spot {
    let name = if kind == ROLE_BINDING { NAMESPACE_ROLE } else { OURS };
    Spot { kind, namespace: namespace.to_owned(), name }
}

/// Follows all that is kept, for ever.
async fn follow(inner: Arc<UpkeepParts>) {
    let mut count = inner.count.subscribe();
    while count.wait_for(|count| *count > 0).await.is_ok() {
        let streams = FOLLOWED.map(|(kind, name)| {
            let which = Selection::default().fields(format!("metadata.name={name}"));
            let reader = inner.clone();
            let read = move |object: Value| reader.read(kind, name, &object);
            let changes = changes(&inner.cluster, kind, which, read);
            changes.map(move |change| ((kind, name), change)).boxed()
        });
        let (mut streams, mut looks) = (select_all(streams), JoinSet::new());
        loop {
            tokio::select! {
                Some((of, change)) = streams.next() => inner.state().on_change(of, change),
                () = inner.asked.notified() => {}
                Some(done) = looks.join_next() => {
                    if let Ok(spot) = done {
                        inner.state().busy.remove(&spot);
                    }
                }
                none = count.wait_for(|count| *count == 0) => {
                    if none.is_err() {
                        return;
                    }
                    break;
                }
            }
            for spot in inner.take_due() {
                looks.spawn(look(inner.clone(), spot));
            }
        }
        inner.state().busy.clear();
    }
}

/// Looks at an object until it is as it was written.
async fn look(inner: Arc<UpkeepParts>, spot: Spot) -> Spot {
    let mut backoff = Backoff::new(limits::KEPT_RETRY, limits::KEPT_RETRY_MAX);
    let mut repeated = Repeated::default();
    while let Err(failure) = inner.put_back(&spot).await {
        if !failure.is_transient() {
            let Spot { kind, namespace, name } = &spot;
            let kind = kind.kind;
            warn_once!(repeated, failure; kind, namespace, name, "an object is not put back");
        }
        backoff.wait().await;
    }
    spot
}

impl UpkeepParts {
    fn state(&self) -> MutexGuard<'_, UpkeepState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, state: &UpkeepState) {
        self.count.send_if_modified(|count| {
            let differs = *count != state.written.len();
            *count = state.written.len();
            differs
        });
    }

    fn read(&self, kind: Kind, name: &'static str, object: &Value) -> LookedAt {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let spot = Spot { kind, namespace: namespace.to_owned(), name };
        let (written, is_writing) = {
            let state = self.state();
            (state.written.get(&spot).cloned(), state.writing.contains_key(namespace))
        };
        let holds = written.map_or(!is_writing, |written| written.holds(object));
        LookedAt { spot, holds }
    }

    fn take_due(&self) -> Vec<Spot> {
        let mut state = self.state();
        let due: Vec<Spot> = state.due.difference(&state.busy).cloned().collect();
        for spot in &due {
            state.due.remove(spot);
            state.busy.insert(spot.clone());
        }
        due
    }

    /// Writes an object again that is not as it was written, unless its namespace goes, or is no guest's.
    async fn put_back(&self, spot: &Spot) -> Result<(), Failure> {
        let (kind, ns, name) = (spot.kind, spot.ns(), spot.name);
        self.cluster.turn(kind, ns, name).await;
        let present = self.cluster.get(kind, ns, name).await?;
        let Some(written) = self.state().written.get(spot).cloned() else { return Ok(()) };
        if present.as_ref().is_some_and(|present| written.holds(present))
            || !self.is_to_stay(spot, written.keeps).await?
        {
            return Ok(());
        }
        let object = written.object();
        let is_of_another_role =
            |present: &Value| kind == ROLE_BINDING && present["roleRef"] != object["roleRef"];
        if present.as_ref().is_some_and(is_of_another_role) {
            // The API server lets nobody change that.
            self.cluster.delete(kind, ns, name, Deletion::default()).await?;
        }
        let change = change(present.as_ref(), &object);
        let about = spot.about(uid(present.as_ref()));
        let stored = self.cluster.apply(kind, ns, name, object).await?;
        if kind == WEBHOOK {
            // Which has no pace where it is registered.
            self.cluster.count_write(kind, ns, name);
        }
        written.learn(stored);
        self.note(kind, about, change, written.keeps.words()).await;
        Ok(())
    }

    /// Whether the namespace of an object is there and stays, and is whose it was.
    async fn is_to_stay(&self, spot: &Spot, keeps: Keeps) -> Result<bool, Failure> {
        let Some(namespace) = spot.ns() else { return Ok(true) };
        let Some(found) = self.cluster.get(NAMESPACE, None, namespace).await? else {
            return Ok(false);
        };
        let metadata = &found["metadata"];
        let is_whose = match keeps {
            Keeps::Guests => !metadata["labels"][CONTRACT].is_null(),
            Keeps::Home => true,
        };
        Ok(is_whose && metadata["deletionTimestamp"].is_null())
    }

    /// Remembers that it was put back; the first time within an hour, people are told.
    async fn note(&self, kind: Kind, about: About, change: put_back::Meddling, why: &str) {
        let (namespace, name) = (about.namespace.clone().unwrap_or_default(), about.name.clone());
        let now = self.began.elapsed();
        let place =
            KeptObject { kind: kind.kind, namespace: namespace.clone(), name: name.clone() };
        let message = format!("it was {change}, and is as Mercato wrote it again: {why}");
        if !self.state().put_back.note(place, change, now) {
            return;
        }
        // Once an hour for each object.
        tracing::warn!(kind = kind.kind, namespace, name, message, "an object was put back");
        let told =
            events::write(&self.cluster, about, EventType::Warning, PUT_BACK, &message).await;
        if let Err(failure) = told {
            tracing::debug!(%failure, "an event was not written");
        }
    }
}

impl UpkeepState {
    /// Nothing that is kept so in this namespace is kept any more.
    fn forget(&mut self, keeps: Keeps, namespace: &str) {
        self.written.retain(|spot, written| written.keeps != keeps || spot.namespace != namespace);
    }

    /// Of objects of a kind and a name.
    fn on_change(&mut self, of: Followed, change: Change<LookedAt>) {
        let changed: Vec<Spot> = match change {
            Change::Synced(all) => {
                let holds: BTreeSet<Spot> =
                    all.into_iter().filter(|seen| seen.holds).map(|seen| seen.spot).collect();
                let ours = self.written.keys().filter(|spot| (spot.kind, spot.name) == of);
                ours.filter(|spot| !holds.contains(spot)).cloned().collect()
            }
            Change::Changed(seen) if seen.holds => Vec::new(),
            Change::Changed(seen) | Change::Deleted(seen) => vec![seen.spot],
        };
        for spot in changed {
            if let Some(missed) = self.writing.get_mut(&spot.namespace) {
                missed.insert(spot);
            } else if self.written.contains_key(&spot) {
                self.due.insert(spot);
            }
        }
    }
}

/// What virtual nodes are there for.
pub(crate) const FOR_PODS: &str = "pods of offloaded namespaces are placed by it";

/// What the Services of guests and their slices are there for.
pub(crate) const FOR_GUESTS: &str = "guests reach the Services of their home by it";

/// Reason of the event that an object was put back.
const PUT_BACK: &str = "PutBack";
