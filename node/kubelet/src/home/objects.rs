//! Config maps and secrets that pods of one node need: one watch for each kind
//! and namespace, told of only where a pod asks for the object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use mercato_offload::body::Way;
use mercato_offload::forge;
use mercato_offload::home::Input;
use mercato_offload::key::{Item, ObjectKey, ObjectKind};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::shared::Shared;
use super::write;
use crate::apiserver::cluster::Cluster;
use crate::apiserver::kind::{CONFIG_MAP, Kind, SECRET};
use crate::apiserver::life::Life;
use crate::apiserver::watch::{Change, Selection, changes};
use crate::limits;
use crate::offload_namespace::Known;
use crate::pace::Backoff;

/// Which objects are watched, by kind and namespace.
#[derive(Default)]
pub(super) struct Objects(BTreeMap<(ObjectKind, String), Followed>);

/// Followed until this is dropped, in each life of the namespace.
struct Followed {
    names: Arc<Names>,
    _following: AbortOnDropHandle<()>,
}

/// Which objects of one kind and namespace pods ask for.
#[derive(Default)]
struct Names {
    all: Mutex<Asked>,
    /// There are names that are new.
    asked: Notify,
}

#[derive(Default)]
struct Asked {
    names: BTreeSet<String>,
    /// Those of them that are still to be looked at.
    new: BTreeSet<String>,
}

impl Objects {
    pub(super) fn watch(&mut self, shared: &Arc<Shared>, key: ObjectKey) {
        let place = (key.kind, key.namespace.clone());
        let followed = self.0.entry(place).or_insert_with(|| {
            let names = Arc::<Names>::default();
            let following = follow(shared.clone(), key.kind, key.namespace.clone(), names.clone());
            Followed {
                names,
                _following: AbortOnDropHandle::new(tokio::spawn(following.in_current_span())),
            }
        });
        // The watch may have passed it already; in a namespace that cannot be read there is
        // nothing to look at.
        followed.names.ask(key.name, shared.life(&key.namespace).is_some());
    }

    pub(super) fn unwatch(&mut self, key: &ObjectKey) {
        let place = (key.kind, key.namespace.clone());
        if let Some(followed) = self.0.get(&place)
            && followed.names.is_last(&key.name)
        {
            self.0.remove(&place);
        }
    }
}

impl Names {
    fn ask(&self, name: String, is_to_look: bool) {
        let mut asked = self.lock();
        if is_to_look {
            asked.new.insert(name.clone());
        }
        asked.names.insert(name);
        drop(asked);
        self.asked.notify_one();
    }

    /// Takes a name out; whether none is left.
    fn is_last(&self, name: &str) -> bool {
        let mut asked = self.lock();
        asked.names.remove(name);
        asked.new.remove(name);
        asked.names.is_empty()
    }

    fn has(&self, name: &str) -> bool {
        self.lock().names.contains(name)
    }

    fn all(&self) -> BTreeSet<String> {
        self.lock().names.clone()
    }

    /// Waits for names that are still to be looked at, and takes them.
    async fn newly_asked(&self) -> BTreeSet<String> {
        loop {
            let new = std::mem::take(&mut self.lock().new);
            if !new.is_empty() {
                return new;
            }
            self.asked.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kind_of(kind: ObjectKind) -> Kind {
    if kind == ObjectKind::Secret { SECRET } else { CONFIG_MAP }
}

fn follow(
    shared: Arc<Shared>,
    kind: ObjectKind,
    namespace: String,
    names: Arc<Names>,
) -> BoxFuture<'static, ()> {
    async move {
        let mut opted_in = shared.opted_in.clone();
        let life = |known: &Known| known.as_ref().and_then(|known| known.life(&namespace));
        loop {
            // An error means that all of this side ends.
            let begun = match opted_in.wait_for(|known| life(known).is_some()).await {
                Ok(known) => life(&known),
                Err(_) => return,
            };
            let Some(begun) = begun else { continue };
            follow_life(&shared, kind, &begun, &names).await;
            let ended = |known: &Known| life(known).as_ref() != Some(&begun);
            if opted_in.wait_for(ended).await.is_err() {
                return;
            }
        }
    }
    .boxed()
}

/// Whatever is said of these objects is said here: what the watch says in its order, and what was
/// asked for only where the watch has not said anything since.
async fn follow_life(shared: &Arc<Shared>, kind: ObjectKind, life: &Life, names: &Arc<Names>) {
    let namespace = life.namespace();
    let all = Selection::within(life);
    let mut changes = changes(&shared.cluster, kind_of(kind), all, |object| object);
    let key = |name: &str| ObjectKey { kind, namespace: namespace.to_owned(), name: name.into() };
    let mut looks = Looks::default();
    loop {
        let told = tokio::select! {
            change = changes.next() => {
                let Some(change) = change else { return };
                let told = told_by(change, &names.all());
                told.iter().for_each(|(name, _)| looks.overtake(name));
                told
            }
            new = names.newly_asked() => {
                new.iter().for_each(|name| looks.begin(&shared.cluster, names, key(name)));
                continue;
            }
            Some((name, object)) = looks.next() => vec![(name, object)],
        };
        for (name, object) in told.into_iter().filter(|(name, _)| names.has(name)) {
            tell(shared, key(&name), object).await;
        }
    }
}

/// What a change says of single objects; a list, of all that are wanted.
fn told_by(change: Change<Value>, wanted: &BTreeSet<String>) -> Vec<(String, Option<Value>)> {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    match change {
        Change::Synced(objects) => {
            let mut found: BTreeMap<_, _> =
                objects.into_iter().map(|object| (name(&object), object)).collect();
            wanted.iter().map(|name| (name.clone(), found.remove(name))).collect()
        }
        Change::Changed(object) => vec![(name(&object), Some(object))],
        Change::Deleted(object) => vec![(name(&object), None)],
    }
}

/// Objects that are asked for by name, beside the watch. An answer is as old as its question may be: it
/// counts only where nothing else was said of the object since.
#[derive(Default)]
struct Looks {
    under_way: FuturesUnordered<BoxFuture<'static, Look>>,
    /// The look of each name whose answer counts.
    counting: BTreeMap<String, u64>,
    begun: u64,
}

struct Look {
    name: String,
    number: u64,
    found: Result<Option<Value>, Unasked>,
}

/// Nobody asks for it any more.
struct Unasked;

impl Looks {
    fn begin(&mut self, cluster: &Cluster, names: &Arc<Names>, key: ObjectKey) {
        self.begun += 1;
        let number = self.begun;
        self.counting.insert(key.name.clone(), number);
        let (cluster, names) = (cluster.clone(), names.clone());
        let looking = async move {
            let found = look(&cluster, &names, &key).await;
            Look { name: key.name, number, found }
        };
        self.under_way.push(looking.boxed());
    }

    /// The watch has told of it.
    fn overtake(&mut self, name: &str) {
        self.counting.remove(name);
    }

    /// The next answer that counts; none where nothing is asked for.
    async fn next(&mut self) -> Option<(String, Option<Value>)> {
        while let Some(Look { name, number, found }) = self.under_way.next().await {
            if self.counting.get(&name) == Some(&number) {
                self.counting.remove(&name);
                if let Ok(object) = found {
                    return Some((name, object));
                }
            }
        }
        None
    }
}

/// Asks until there is an answer: the watch, which may have passed the object, says nothing more of
/// it before it changes.
async fn look(cluster: &Cluster, names: &Names, key: &ObjectKey) -> Result<Option<Value>, Unasked> {
    let mut backoff = Backoff::new(limits::CONFIRM_RETRY, limits::CONFIRM_RETRY_MAX);
    loop {
        match cluster.get(kind_of(key.kind), Some(&key.namespace), &key.name).await {
            Ok(object) => return Ok(object),
            Err(_) if !names.has(&key.name) => return Err(Unasked),
            Err(failure) => tracing::debug!(%failure, %key, "not looked at yet"),
        }
        backoff.wait().await;
    }
}

async fn tell(shared: &Arc<Shared>, key: ObjectKey, object: Option<Value>) {
    let item = Item::Object(key.clone());
    let sent = object.map(|object| forge::export_object(&object));
    let digest = match sent.map(|sent| shared.bodies.keep(Way::ToGuest, &item, &sent)) {
        None => None,
        Some(Ok(digest)) => Some(digest),
        // What the provider has stays as it is.
        Some(Err(refusal)) => return write::object_refused(shared.clone(), key, refusal).await,
    };
    shared.tell(Input::Object { key, digest }).await;
}

#[cfg(test)]
mod tests;
