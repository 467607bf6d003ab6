//! The objects of one kind, followed and written to: as few requests as will do, none that
//! changes nothing, and none to another object of the same name.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

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
    kube::Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Send + Sync + 'static
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
        Self { cluster, changes, known: None }
    }

    /// Waits until something has changed. Nothing is lost when it is not awaited to the end.
    pub async fn changed(&mut self) {
        if let Some(change) = self.changes.next().await {
            self.take(change);
        }
        while let Some(Some(change)) = self.changes.next().now_or_never() {
            self.take(change);
        }
    }

    /// All of them; none before the first list has come.
    pub fn all(&self) -> Option<Vec<K>> {
        Some(self.known.as_ref()?.values().cloned().collect())
    }

    fn take(&mut self, change: Change<Option<K>>) {
        match change {
            Change::Synced(objects) => {
                let objects = objects.into_iter().flatten();
                self.known = Some(objects.map(|object| (key(&object), object)).collect());
            }
            Change::Changed(object) => object.into_iter().for_each(|object| self.put(object)),
            Change::Deleted(object) => {
                if let (Some(known), Some(object)) = (&mut self.known, object) {
                    known.remove(&key(&object));
                }
            }
        }
    }

    /// Keeps an object, unless a newer state of it is known.
    fn put(&mut self, object: K) {
        let Some(known) = &mut self.known else { return };
        let newer = |known: &K| uid(known) != uid(&object) || version(known) <= version(&object);
        if known.get(&key(&object)).is_none_or(newer) {
            known.insert(key(&object), object);
        }
    }

    /// Says this of an object, if it is not what is said.
    pub fn say<'a>(
        &'a mut self,
        object: &'a K,
        status: K::Status,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        async move {
            if object.said() == status {
                return Ok(());
            }
            let said = json!({ "metadata": { "uid": uid(object) }, "status": status });
            let (namespace, name) = place(object);
            let said = self.cluster.apply_status(K::KIND, namespace, name, said).await?;
            self.written(said);
            Ok(())
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
            self.say(&object, status).await
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

    fn written(&mut self, object: Value) {
        // What cannot be read comes again by the watch.
        if let Ok(object) = serde_json::from_value(object) {
            self.put(object);
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

fn uid(object: &impl kube::Resource) -> Option<&str> {
    object.meta().uid.as_deref()
}

/// Versions of one resource are ordered numbers, by the API's own conventions.
fn version(object: &impl kube::Resource) -> u64 {
    let version = object.meta().resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use kube::Resource as _;

    use super::*;
    use crate::crd::Condition;
    use crate::testing::{scripted, status};

    type Asked = Arc<Mutex<Vec<(String, String, Value)>>>;

    fn order(version: &str, finalizers: &[&str]) -> Order {
        serde_json::from_value(json!({
            "apiVersion": "mercato.dev/v1alpha1", "kind": "Order",
            "metadata": { "name": "web", "namespace": "shop", "uid": "u1",
                "resourceVersion": version, "finalizers": finalizers },
            "spec": { "cpu": 1, "memory": "1Gi", "for": "2h" },
        }))
        .unwrap()
    }

    /// Objects of a server that answers every write with this object, or refuses it.
    fn objects(answer: Result<Order, u16>) -> (Objects<Order>, Asked) {
        let asked = Asked::default();
        let seen = asked.clone();
        let cluster = scripted(move |method, path, body| {
            seen.lock().unwrap().push((method.to_string(), path.to_owned(), body));
            match &answer {
                Ok(order) => (200, serde_json::to_value(order).unwrap()),
                Err(code) => status(*code, "no"),
            }
        });
        let mut objects = Objects::follow(cluster);
        assert!(objects.all().is_none(), "nothing is known before the first list");
        objects.take(Change::Synced(vec![Some(order("5", &[])), None]));
        (objects, asked)
    }

    #[tokio::test]
    async fn what_is_said_already_is_not_written_again() {
        let (mut objects, asked) = objects(Ok(order("6", &[])));
        let [known] = &objects.all().unwrap()[..] else { panic!() };
        objects.say(known, known.said()).await.unwrap();
        assert!(asked.lock().unwrap().is_empty());
        let conditions = Condition::ready(true, ("Active", String::new()), 1, &[]);
        let status = OrderStatus { conditions, ..OrderStatus::default() };
        objects.say(known, status).await.unwrap();
        let (method, path, body) = asked.lock().unwrap().pop().unwrap();
        assert_eq!(method, "PATCH");
        assert!(path.starts_with("/apis/mercato.dev/v1alpha1/namespaces/shop/orders/web/status?"));
        assert_eq!(body["metadata"]["uid"], "u1", "another of the name is not meant");
        assert_eq!(body["status"]["conditions"][0]["status"], "True");
    }

    #[tokio::test]
    async fn a_finalizer_is_added_to_those_of_others_and_taken_away_alone() {
        let (mut objects, asked) = objects(Ok(order("6", &["theirs", FINALIZER])));
        let mine = order("5", &["theirs"]);
        objects.hold(&mine, true).await.unwrap();
        let sent = || asked.lock().unwrap().pop().map(|(.., body)| body["metadata"].clone());
        let wanted =
            json!({ "uid": "u1", "resourceVersion": "5", "finalizers": ["theirs", FINALIZER] });
        assert_eq!(sent(), Some(wanted));
        let [held] = &objects.all().unwrap()[..] else { panic!() };
        assert!(is_held(held));
        objects.hold(held, true).await.unwrap();
        assert_eq!(sent(), None);
        objects.hold(held, false).await.unwrap();
        assert_eq!(sent().unwrap()["finalizers"], json!(["theirs"]));
    }

    #[tokio::test]
    async fn a_refused_write_changes_nothing_and_an_old_state_comes_too_late() {
        let (mut objects, _) = objects(Err(409));
        assert!(objects.hold(&order("5", &[]), true).await.is_err());
        objects.take(Change::Changed(Some(order("4", &["old"]))));
        assert_eq!(objects.all().unwrap()[0].meta().resource_version.as_deref(), Some("5"));
        objects.take(Change::Changed(Some(order("10", &["new"]))));
        assert_eq!(objects.all().unwrap()[0].meta().resource_version.as_deref(), Some("10"));
        objects.take(Change::Deleted(Some(order("11", &[]))));
        assert!(objects.all().unwrap().is_empty());
    }

    #[tokio::test]
    async fn the_kinds_are_there_when_all_are() {
        let of = |names: &'static [&'static str]| {
            let kinds: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
            installed(&scripted(move |_, _, _| (200, json!({ "resources": kinds }))))
        };
        let all = &["contracts", "marketpolicies", "namespaceoffloads", "orders", "orders/status"];
        assert_eq!(of(all).await, Ok(true));
        assert_eq!(of(&["orders"]).await, Ok(false));
        assert_eq!(installed(&scripted(|_, _, _| status(404, "no"))).await, Ok(false));
        assert!(installed(&scripted(|_, _, _| status(503, "later"))).await.is_err());
    }
}
