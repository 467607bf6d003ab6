//! Config maps and secrets that pods of one node need: one watch for each kind
//! and namespace, told of only where a pod asks for the object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use mercato_offload::body::Way;
use mercato_offload::forge;
use mercato_offload::home::Input;
use mercato_offload::key::{Item, ObjectKey, ObjectKind};
use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::shared::Shared;
use super::write;
use crate::apiserver::kind::{CONFIG_MAP, Kind, SECRET};
use crate::apiserver::life::Life;
use crate::apiserver::watch::{Change, Selection, changes};
use crate::offload_namespace::Known;

/// Which objects are watched, by kind and namespace.
#[derive(Default)]
pub(super) struct Objects(BTreeMap<(ObjectKind, String), Followed>);

/// Followed until this is dropped, in each life of the namespace.
struct Followed {
    names: Names,
    _following: AbortOnDropHandle<()>,
}

type Names = Arc<Mutex<BTreeSet<String>>>;

impl Objects {
    pub(super) fn watch(&mut self, shared: &Arc<Shared>, key: ObjectKey) {
        let place = (key.kind, key.namespace.clone());
        let followed = self.0.entry(place).or_insert_with(|| {
            let names = Names::default();
            let following = follow(shared.clone(), key.kind, key.namespace.clone(), names.clone());
            Followed {
                names,
                _following: AbortOnDropHandle::new(tokio::spawn(following.in_current_span())),
            }
        });
        lock(&followed.names).insert(key.name.clone());
        // The watch may have passed it already; in a namespace that cannot be read there is
        // nothing to look at.
        if shared.life(&key.namespace).is_some() {
            tokio::spawn(look(shared.clone(), key).in_current_span());
        }
    }

    pub(super) fn unwatch(&mut self, key: &ObjectKey) {
        let place = (key.kind, key.namespace.clone());
        if let Some(followed) = self.0.get(&place) {
            let mut names = lock(&followed.names);
            names.remove(&key.name);
            let last = names.is_empty();
            drop(names);
            if last {
                self.0.remove(&place);
            }
        }
    }
}

fn lock(names: &Names) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kind_of(kind: ObjectKind) -> Kind {
    if kind == ObjectKind::Secret { SECRET } else { CONFIG_MAP }
}

fn follow(
    shared: Arc<Shared>,
    kind: ObjectKind,
    namespace: String,
    names: Names,
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

async fn follow_life(shared: &Arc<Shared>, kind: ObjectKind, life: &Life, names: &Names) {
    let namespace = life.namespace();
    let all = Selection::within(life);
    let mut changes = changes(&shared.cluster, kind_of(kind), all, |object| object);
    let key = |name: &str| ObjectKey { kind, namespace: namespace.to_owned(), name: name.into() };
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    while let Some(change) = changes.next().await {
        let wanted = lock(names).clone();
        let told: Vec<(String, Option<Value>)> = match change {
            Change::Synced(objects) => {
                let mut found: BTreeMap<_, _> =
                    objects.into_iter().map(|object| (name(&object), object)).collect();
                wanted.iter().map(|name| (name.clone(), found.remove(name))).collect()
            }
            Change::Changed(object) => vec![(name(&object), Some(object))],
            Change::Deleted(object) => vec![(name(&object), None)],
        };
        for (name, object) in told.into_iter().filter(|(name, _)| wanted.contains(name)) {
            tell(shared, key(&name), object).await;
        }
    }
}

fn look(shared: Arc<Shared>, key: ObjectKey) -> BoxFuture<'static, ()> {
    async move {
        let found = shared.cluster.get(kind_of(key.kind), Some(&key.namespace), &key.name);
        // A failure is the watch's to make good.
        if let Ok(object) = found.await {
            tell(&shared, key, object).await;
        }
    }
    .boxed()
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
