//! The objects of one kind, followed and written to: as few requests as will do, none that
//! changes nothing, and none to another object of the same name.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Contract, MarketPolicy, NamespaceOffload, Order};
use super::{ContractStatus, MarketPolicyStatus, NamespaceOffloadStatus, OrderStatus};
use crate::apiserver::cluster::{Answer, Cluster, Deletion};
use crate::apiserver::events::{self, About};
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::{CONTRACT, Kind, MARKET_POLICY, NAMESPACE_OFFLOAD, ORDER};
use crate::apiserver::watch::{Change, Selection, changes};
use crate::names::FINALIZER;

pub use crate::apiserver::events::EventType;

/// One of the four kinds.
pub trait Resource:
    kube::Resource<DynamicType = ()>
    + Serialize
    + DeserializeOwned
    + Clone
    + PartialEq
    + Send
    + Sync
    + 'static
{
    /// What is said of an object.
    type Status: Serialize + Default + Clone + PartialEq + Send + Sync;

    /// The kind of the objects at the API server.
    const KIND: Kind;

    /// What is said of it now.
    fn said(&self) -> Self::Status;
}

macro_rules! resources {
    ($($kind:ident: $status:ident = $at:expr;)*) => {
        $(impl Resource for $kind {
            type Status = $status;
            const KIND: Kind = $at;

            fn said(&self) -> $status {
                self.status.clone().unwrap_or_default()
            }
        })*
    };
}

resources! {
    Contract: ContractStatus = CONTRACT;
    MarketPolicy: MarketPolicyStatus = MARKET_POLICY;
    NamespaceOffload: NamespaceOffloadStatus = NAMESPACE_OFFLOAD;
    Order: OrderStatus = ORDER;
}

/// Whether the cluster has the four kinds.
pub fn installed(cluster: &Cluster) -> Answer<bool> {
    let answer = cluster.resources(ORDER);
    async move {
        let kinds = answer.await?;
        let all = [CONTRACT, MARKET_POLICY, NAMESPACE_OFFLOAD, ORDER];
        Ok(all.iter().all(|kind| kinds.iter().any(|plural| plural == kind.plural)))
    }
    .boxed()
}

/// The objects of a kind in a cluster.
pub struct Objects<K> {
    cluster: Cluster,
    changes: BoxStream<'static, Change<Option<K>>>,
    /// By namespace and name; none before the first list.
    known: Option<BTreeMap<(String, String), K>>,
    /// They are looked at again then, though nothing has changed.
    again: Option<Instant>,
}

impl<K: Resource> Objects<K> {
    /// Begins to follow the objects of this kind.
    pub fn follow(cluster: Cluster) -> Self {
        let read = |object| match serde_json::from_value(object) {
            Ok(object) => Some(object),
            Err(error) => {
                // Once for each content of it.
                tracing::warn!(%error, kind = K::KIND.kind, "an object that is none of the kind");
                None
            }
        };
        let changes = changes(&cluster, K::KIND, Selection::default(), read);
        Self { cluster, changes, known: None, again: None }
    }

    /// Waits until something has changed that is not known yet, as what was written here is, or until a
    /// write may be made that had to wait. Nothing is lost when it is not awaited to the end.
    pub async fn changed(&mut self) {
        loop {
            let again = self.again;
            let due = async {
                match again {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                change = self.changes.next() => {
                    let Some(change) = change else { return };
                    let mut is_new = self.take(change);
                    while let Some(Some(change)) = self.changes.next().now_or_never() {
                        is_new |= self.take(change);
                    }
                    if is_new {
                        return;
                    }
                }
                () = due => {
                    self.again = None;
                    return;
                }
            }
        }
    }

    /// All of them; none before the first list has come.
    pub fn all(&self) -> Option<Vec<K>> {
        Some(self.known.as_ref()?.values().cloned().collect())
    }

    /// Whether it tells anything new.
    fn take(&mut self, change: Change<Option<K>>) -> bool {
        match change {
            Change::Synced(objects) => {
                let objects = objects.into_iter().flatten();
                let objects = objects.map(|object| (key(&object), object)).collect();
                let before = self.known.replace(objects);
                let all = |known: &Option<BTreeMap<_, K>>| -> Option<Vec<K>> {
                    Some(known.as_ref()?.values().map(content).collect())
                };
                all(&before) != all(&self.known)
            }
            Change::Changed(object) => object.is_some_and(|object| self.put(object)),
            Change::Deleted(object) => match (&mut self.known, object) {
                (Some(known), Some(object)) => known.remove(&key(&object)).is_some(),
                (Some(_) | None, _) => false,
            },
        }
    }

    /// Keeps an object, unless a newer state of it is known; whether it says anything else than
    /// what is known.
    fn put(&mut self, object: K) -> bool {
        let Some(known) = &mut self.known else { return false };
        let before = known.get(&key(&object));
        let newer = |known: &K| uid(known) != uid(&object) || version(known) <= version(&object);
        if !before.is_none_or(newer) {
            return false;
        }
        let is_new = before.map(content) != Some(content(&object));
        known.insert(key(&object), object);
        is_new
    }

    /// Has the objects looked at again after so long, if nothing changes before.
    fn look_again(&mut self, after: Duration) {
        let at = Instant::now() + after;
        self.again = Some(self.again.map_or(at, |again| again.min(at)));
    }

    /// Says this of an object, if it is not what is said: the one place that writes statuses. Whether it
    /// is said now; else the object changes too often, and all are looked at again once it may be written
    /// to.
    pub fn say<'a>(
        &'a mut self,
        object: &'a K,
        status: K::Status,
    ) -> BoxFuture<'a, Result<bool, Failure>> {
        async move {
            if object.said() == status {
                return Ok(true);
            }
            let (namespace, name) = place(object);
            let wait = self.cluster.pace(K::KIND, namespace, name, 1);
            if !wait.is_zero() {
                self.look_again(wait);
                return Ok(false);
            }
            let said = json!({ "metadata": { "uid": uid(object) }, "status": status });
            let said = self.cluster.apply_status(K::KIND, namespace, name, said).await?;
            self.written(said);
            Ok(true)
        }
        .boxed()
    }

    /// Keeps an object from vanishing before the daemon has done what that calls for, or
    /// lets it go.
    pub fn hold<'a>(&'a mut self, object: &'a K, held: bool) -> BoxFuture<'a, Result<(), Failure>> {
        async move {
            let meta = object.meta();
            if is_held(object) == held {
                return Ok(());
            }
            let mut finalizers = meta.finalizers.clone().unwrap_or_default();
            finalizers.retain(|finalizer| finalizer != FINALIZER);
            finalizers.extend(held.then(|| FINALIZER.to_owned()));
            let patch = json!({ "metadata": { "uid": meta.uid, "finalizers": finalizers,
                "resourceVersion": meta.resource_version } });
            self.patch(object, patch).await
        }
        .boxed()
    }

    /// Changes an object by a JSON merge patch.
    pub fn patch<'a>(
        &'a mut self,
        object: &'a K,
        patch: Value,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        async move {
            let (namespace, name) = place(object);
            let written = self.cluster.merge(K::KIND, namespace, name, None, patch).await?;
            self.written(written);
            Ok(())
        }
        .boxed()
    }

    /// Makes one of a kind that has no namespaces, and says what it is.
    pub fn make<'a>(
        &'a mut self,
        name: &'a str,
        status: K::Status,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        async move {
            let made = json!({ "apiVersion": K::KIND.api_version(), "kind": K::KIND.kind,
                "metadata": { "name": name }, "spec": {} });
            let made = self.cluster.create(K::KIND, None, made).await?;
            let Ok(object) = serde_json::from_value::<K>(made) else { return Ok(()) };
            self.put(object.clone());
            self.say(&object, status).await.map(drop)
        }
        .boxed()
    }

    /// Deletes one of the objects; that it is gone already is no failure.
    pub fn delete(&self, object: &K) -> BoxFuture<'static, Result<(), Failure>> {
        let (namespace, name) = place(object);
        let how = Deletion { uid: object.meta().uid.clone(), grace: None };
        let deleted = self.cluster.delete(K::KIND, namespace, name, how);
        async move { deleted.await.map(drop) }.boxed()
    }

    /// Writes an event that `kubectl describe` shows with the object.
    pub fn event(
        &self,
        object: &K,
        kind: EventType,
        reason: &str,
        message: &str,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        let (namespace, name) = place(object);
        let about = About {
            api_version: K::KIND.api_version(),
            kind: K::KIND.kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            uid: object.meta().uid.clone(),
        };
        events::write(&self.cluster, about, kind, reason, message)
    }

    /// Keeps what came of a write. Where more than a status is another, whether by it or by somebody else
    /// just before, all are looked at again: the watch tells nothing new of it.
    fn written(&mut self, object: Value) {
        // What cannot be read comes again by the watch.
        let Ok(object) = serde_json::from_value::<K>(object) else { return };
        let before = self.known.as_ref().and_then(|known| known.get(&key(&object)));
        let same = before.is_some_and(|before| content(before).meta() == content(&object).meta());
        self.put(object);
        if !same {
            self.look_again(Duration::ZERO);
        }
    }
}

/// Whether it waits for the daemon before it vanishes.
pub fn is_held(object: &impl kube::Resource) -> bool {
    let finalizers = object.meta().finalizers.iter().flatten();
    finalizers.into_iter().any(|finalizer| finalizer == FINALIZER)
}

/// Whether somebody has deleted it.
pub fn is_deleted(object: &impl kube::Resource) -> bool {
    object.meta().deletion_timestamp.is_some()
}

fn place(object: &impl kube::Resource) -> (Option<&str>, &str) {
    let meta = object.meta();
    (meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
}

fn key(object: &impl kube::Resource) -> (String, String) {
    let (namespace, name) = place(object);
    (namespace.unwrap_or_default().to_owned(), name.to_owned())
}

/// An object without what each write of it moves.
fn content<K: Resource>(object: &K) -> K {
    let mut object = object.clone();
    let meta = object.meta_mut();
    (meta.resource_version, meta.managed_fields) = (None, None);
    object
}

fn uid(object: &impl kube::Resource) -> Option<&str> {
    object.meta().uid.as_deref()
}

/// Versions of one resource are ordered numbers, by the API's own conventions.
fn version(object: &impl kube::Resource) -> u64 {
    let version = object.meta().resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}
