//! The pods of one virtual node: kept as home has them, and told to the
//! session as what would be sent.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use mercato_offload::forge::{self, ApiAccess, HomeContext, Refusal};
use mercato_offload::home::{HomePod, Input};
use mercato_offload::key::{ObjectKey, ObjectKind, PodId, Uid};
use mercato_protocol::id::Digest;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::service_env::service_env;
use super::{Shared, write};
use crate::api::NodePods;
use crate::kind::{POD, SERVICE};
use crate::limits;
use crate::offload_namespace::{Known, Leave, OptIn};
use crate::watch::{Change, Selection, changes, trim};

/// The pods as home's API server last told of them, by uid.
#[derive(Default)]
pub(super) struct Pods {
    by_uid: Mutex<BTreeMap<Uid, Kept>>,
    /// The whole list has come at least once.
    listed: AtomicBool,
}

/// A pod.
struct Kept {
    pod: Arc<Value>,
    /// Whether it was ready as of the last status that we wrote, and that state's version.
    written: Option<(u64, Value)>,
}

impl Pods {
    pub(super) fn get(&self, uid: &Uid) -> Option<Arc<Value>> {
        self.lock().get(uid).map(|kept| kept.pod.clone())
    }

    pub(super) fn all(&self) -> Vec<Arc<Value>> {
        self.lock().values().map(|kept| kept.pod.clone()).collect()
    }

    /// Takes a pod in, unless a newer state of it is known.
    fn insert(&self, pod: Arc<Value>) {
        let Some(id) = forge::pod_id(&pod) else { return };
        match self.lock().entry(id.uid) {
            Entry::Occupied(mut kept) => kept.get_mut().take(pod),
            Entry::Vacant(place) => drop(place.insert(Kept { pod, written: None })),
        }
    }

    /// Its status is being written: until that is answered, a change may be our own.
    pub(super) fn begin_write(&self, uid: &Uid) {
        if let Some(kept) = self.lock().get_mut(uid) {
            kept.written = None;
        }
    }

    /// Takes in what a write of its status answered, if the pod is still one of the node's.
    pub(super) fn refresh(&self, mut pod: Value) {
        let Some(id) = forge::pod_id(&pod) else { return };
        trim(&mut pod);
        if let Some(kept) = self.lock().get_mut(&id.uid) {
            kept.written = Some((version(&pod), readiness(&pod)));
            kept.take(Arc::new(pod));
        }
    }

    /// Whether somebody has made it ready or not since we wrote its status: a node
    /// controller that took the node for dead, say.
    fn overwritten(&self, pod: &Value) -> Option<Uid> {
        let uid = forge::pod_id(pod)?.uid;
        let (at, ready) = self.lock().get(&uid)?.written.clone()?;
        (version(pod) > at && readiness(pod) != ready).then_some(uid)
    }

    fn remove(&self, uid: &Uid) {
        self.lock().remove(uid);
    }

    fn replace(&self, pods: &[Arc<Value>]) {
        let mut known = self.lock();
        let mut before = std::mem::take(&mut *known);
        for pod in pods {
            let Some(id) = forge::pod_id(pod) else { continue };
            let written = before.remove(&id.uid).and_then(|kept| kept.written);
            known.insert(id.uid, Kept { pod: pod.clone(), written });
        }
        self.listed.store(true, Ordering::Release);
    }

    /// All of them; none before the list has come.
    pub(super) fn listed(&self) -> Option<Vec<Arc<Value>>> {
        self.listed.load(Ordering::Acquire).then(|| self.all())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uid, Kept>> {
        self.by_uid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn take(&mut self, pod: Arc<Value>) {
        if version(&self.pod) <= version(&pod) {
            self.pod = pod;
        }
    }
}

fn readiness(pod: &Value) -> Value {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    ready.next().map_or(Value::Null, |ready| ready["status"].clone())
}

/// Versions of one resource are ordered numbers, by the API's own conventions.
fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

impl NodePods for Pods {
    fn uid(&self, namespace: &str, name: &str) -> Option<String> {
        let pods = self.lock();
        let (uid, _) = pods.iter().find(|(_, Kept { pod, .. })| {
            pod["metadata"]["name"] == name && pod["metadata"]["namespace"] == namespace
        })?;
        Some(uid.0.clone())
    }

    fn list(&self) -> Vec<Arc<Value>> {
        self.all()
    }
}

/// Follows the node's pods for ever. Nothing is told before the opted-in
/// namespaces are known; a change of them tells of every pod again.
pub(super) fn follow(
    shared: Arc<Shared>,
    mut asked: mpsc::Receiver<Arc<Value>>,
) -> BoxFuture<'static, ()> {
    async move {
        let mut opted_in = shared.opted_in.clone();
        let bound = Selection::fields(format!("spec.nodeName={}", shared.config.node));
        let following = async {
            if opted_in.wait_for(Option::is_some).await.is_err() {
                return;
            }
            let pods = changes(&shared.cluster, POD, bound, Arc::new);
            let mut pods = pods.ready_chunks(limits::INPUTS);
            let mut teller = Teller { shared: &shared, environments: BTreeMap::new() };
            loop {
                tokio::select! {
                    together = pods.next() => {
                        let Some(together) = together else { return };
                        let known = opted_in.borrow().clone();
                        teller.tell(together, &known).await;
                    }
                    Some(pod) = asked.recv() => {
                        let known = opted_in.borrow().clone();
                        teller.tell(vec![Change::Changed(pod)], &known).await;
                    }
                    changed = opted_in.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        let known = opted_in.borrow_and_update().clone();
                        let all = shared.pods.all().into_iter().map(Change::Changed);
                        teller.tell(all.collect(), &known).await;
                    }
                }
            }
        };
        tokio::select! { () = shared.stop.cancelled() => {} () = following => {} }
    }
    .boxed()
}

struct Teller<'a> {
    shared: &'a Arc<Shared>,
    /// Service variables by pod, fixed when the pod is first seen, as a kubelet
    /// fixes them when it starts one.
    environments: BTreeMap<Uid, Environment>,
}

type Environment = Arc<BTreeMap<String, String>>;

impl Teller<'_> {
    /// Tells of changes that came together: what is asked for on account of one is as
    /// fresh for the others.
    async fn tell(&mut self, changes: Vec<Change<Arc<Value>>>, opted_in: &Known) {
        let mut fresh = Fresh::default();
        for change in changes {
            self.tell_one(change, opted_in, &mut fresh).await;
        }
    }

    async fn tell_one(&mut self, change: Change<Arc<Value>>, opted_in: &Known, fresh: &mut Fresh) {
        match change {
            Change::Synced(pods) => {
                self.shared.pods.replace(&pods);
                self.environments.retain(|uid, _| self.shared.pods.get(uid).is_some());
                let mut all = Vec::with_capacity(pods.len());
                for pod in &pods {
                    all.extend(self.home_pod(pod, opted_in, fresh).await);
                }
                self.shared.tell(Input::Synced(all)).await;
                for uid in pods.iter().filter_map(|pod| self.shared.pods.overwritten(pod)) {
                    self.shared.tell(Input::Overwritten(uid)).await;
                }
            }
            Change::Changed(pod) => {
                self.shared.pods.insert(pod.clone());
                if let Some(pod) = self.home_pod(&pod, opted_in, fresh).await {
                    self.shared.tell(Input::Pod(pod)).await;
                }
                if let Some(uid) = self.shared.pods.overwritten(&pod) {
                    self.shared.tell(Input::Overwritten(uid)).await;
                }
            }
            Change::Deleted(pod) => {
                if let Some(PodId { uid, .. }) = forge::pod_id(&pod) {
                    self.shared.pods.remove(&uid);
                    self.environments.remove(&uid);
                    self.shared.tell(Input::PodGone(uid)).await;
                }
            }
        }
    }

    /// The pod as the session sees it; the body is kept beside.
    async fn home_pod(
        &mut self,
        pod: &Value,
        opted_in: &Known,
        fresh: &mut Fresh,
    ) -> Option<HomePod> {
        let id = forge::pod_id(pod)?;
        let leave = opted_in.as_ref().map_or(Leave::Soon, |known| known.leave(&id.namespace));
        let Leave::Now(how) = leave else {
            // Told of once that is known. The end of a pod needs nothing to be known: a
            // namespace that is being deleted is never ready again.
            if leave == Leave::Soon && pod["metadata"]["deletionTimestamp"].is_null() {
                return None;
            }
            if is_running(pod) {
                // Its namespace was offloaded until now: its owner makes it again at home.
                tokio::spawn(write::end(self.shared.clone(), Arc::new(pod.clone())));
            }
            let path = "metadata.namespace".to_owned();
            let reason =
                format!("namespace {} is not offloaded: mercato offload {0}", id.namespace);
            return Some(seen(pod, id, Err(Refusal { path, reason })));
        };
        let environment = self.environment(&id, fresh).await;
        let exported = export(pod, &how, &environment);
        let needs = forge::needs(&exported);
        if let Some(refusal) = kept_at_home(&id, &how, &needs) {
            return Some(seen(pod, id, Err(refusal)));
        }
        let kept = self
            .shared
            .bodies
            .keep(&exported)
            .map_err(|error| Refusal { path: String::new(), reason: error.to_string() });
        Some(seen(pod, id, kept.map(|digest| (digest, needs))))
    }

    async fn environment(&mut self, pod: &PodId, fresh: &mut Fresh) -> Environment {
        if let Some(known) = self.environments.get(&pod.uid) {
            return known.clone();
        }
        let environment = fresh.of(self.shared, &pod.namespace).await;
        // Bounded by the pods: an entry goes with its pod.
        self.environments.insert(pod.uid.clone(), environment.clone());
        environment
    }
}

/// Environments by namespace, while changes that came together are told.
#[derive(Default)]
struct Fresh(BTreeMap<String, Environment>);

impl Fresh {
    async fn of(&mut self, shared: &Shared, namespace: &str) -> Environment {
        if let Some(known) = self.0.get(namespace) {
            return known.clone();
        }
        let api = shared.cluster.get(SERVICE, Some("default"), "kubernetes");
        let own = shared.cluster.list(SERVICE, Some(namespace), "");
        let deadline = Instant::now() + limits::SERVICES_WAIT;
        let (api, own) =
            match tokio::time::timeout_at(deadline, futures::future::join(api, own)).await {
                Ok((Ok(api), Ok(own))) => (api, own),
                Ok((api, own)) => {
                    let error = api.err().or(own.err());
                    tracing::warn!(
                        ?error,
                        namespace,
                        "services unknown: pods start without their variables"
                    );
                    return Environment::default();
                }
                Err(_) => return Environment::default(),
            };
        let environment = Arc::new(service_env(own.iter().chain(&api)));
        self.0.insert(namespace.to_owned(), environment.clone());
        environment
    }
}

/// A pod that uses a secret which may not leave stays.
fn kept_at_home(pod: &PodId, how: &OptIn, needs: &[ObjectKey]) -> Option<Refusal> {
    let secrets = needs.iter().filter(|need| need.kind == ObjectKind::Secret);
    let kept = secrets.into_iter().find(|secret| !how.secrets.permit(&secret.name))?;
    let (path, name) = ("spec".to_owned(), &kept.name);
    let reason = format!(
        "secret {name} may not leave namespace {}: see spec.secrets of its NamespaceOffload",
        pod.namespace
    );
    Some(Refusal { path, reason })
}

fn export(pod: &Value, how: &OptIn, environment: &BTreeMap<String, String>) -> Value {
    let api_access = if how.api_access { ApiAccess::Home } else { ApiAccess::None };
    forge::export_pod(pod, &HomeContext { service_env: environment.clone(), api_access })
}

fn is_running(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
}

fn seen(pod: &Value, id: PodId, sent: Result<(Digest, Vec<ObjectKey>), Refusal>) -> HomePod {
    let deleting = !pod["metadata"]["deletionTimestamp"].is_null();
    let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
    let (digest, needs, refusal) = match sent {
        Ok((digest, needs)) => (digest, needs, None),
        Err(refusal) => (forge::digest(&Value::Null), Vec::new(), Some(refusal)),
    };
    HomePod {
        pod: id,
        digest,
        needs,
        deletion_grace_s: deleting.then(|| u32::try_from(grace).unwrap_or(u32::MAX)),
        terminal: matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")),
        gates: forge::open_gates(pod),
        route: None,
        refusal,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_write_over_a_status_is_seen_and_our_own_is_not() {
        let at = |version: &str, ready: &str| {
            let metadata = json!({ "uid": "u", "namespace": "shop", "name": "web",
                "resourceVersion": version });
            let ready = json!([{ "type": "Ready", "status": ready }]);
            Arc::new(json!({ "metadata": metadata, "status": { "conditions": ready } }))
        };
        let (pods, uid) = (Pods::default(), Uid("u".into()));
        pods.insert(at("5", "False"));
        assert_eq!(pods.overwritten(&at("5", "False")), None, "nothing was written yet");
        pods.begin_write(&uid);
        assert_eq!(pods.overwritten(&at("6", "True")), None, "it may be our own write");
        pods.refresh(Arc::unwrap_or_clone(at("6", "True")));
        assert_eq!(pods.overwritten(&at("5", "False")), None, "it is older than ours");
        assert_eq!(pods.overwritten(&at("7", "True")), None, "it is as we wrote it");
        assert_eq!(pods.overwritten(&at("7", "False")), Some(uid));
        pods.replace(&[at("8", "False")]);
        assert!(pods.overwritten(&at("8", "False")).is_some(), "a list is no write");
    }
}
