//! Follows the pods of one virtual node, and tells the session of each what would be sent.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use mercato_offload::forge::{self, ApiAccess, HomeContext, Refusal};
use mercato_offload::home::{HomePod, Input};
use mercato_offload::key::{Item, ObjectKey, ObjectKind, PodId, Uid};
use mercato_protocol::id::Digest;
use serde_json::Value;
use tokio::sync::mpsc;

use super::pods::Seen;
use super::services::{Environment, Services};
use super::{Shared, write};
use crate::kind::POD;
use crate::offload_namespace::{Known, Leave, OptIn};
use crate::watch::{Change, Selection, changes};

/// Follows the node's pods for ever. Nothing is told before the opted-in
/// namespaces are known; a change of them tells of every pod again.
pub(super) fn follow(
    shared: Arc<Shared>,
    mut asked: mpsc::Receiver<Seen>,
) -> BoxFuture<'static, ()> {
    async move {
        let mut opted_in = shared.opted_in.clone();
        let bound = Selection::default().fields(format!("spec.nodeName={}", shared.config.node));
        let following = async {
            if opted_in.wait_for(Option::is_some).await.is_err() {
                return;
            }
            let pods = changes(&shared.cluster, POD, bound, |pod| Seen::read(&pod));
            let pods = pods.filter_map(async |change| change.known());
            let mut pods = std::pin::pin!(pods);
            let services = Services::new(shared.cluster.clone());
            let mut teller = Teller { shared: &shared, environments: BTreeMap::new(), services };
            loop {
                tokio::select! {
                    change = pods.next() => {
                        let Some(change) = change else { return };
                        let known = opted_in.borrow().clone();
                        teller.tell(change, &known).await;
                    }
                    Some(pod) = asked.recv() => {
                        let known = opted_in.borrow().clone();
                        teller.tell(Change::Changed(pod), &known).await;
                    }
                    changed = opted_in.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        let known = opted_in.borrow_and_update().clone();
                        for pod in shared.pods.all() {
                            teller.tell(Change::Changed(pod), &known).await;
                        }
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
    services: Services,
}

impl Teller<'_> {
    async fn tell(&mut self, change: Change<Seen>, opted_in: &Known) {
        match change {
            Change::Synced(pods) => {
                for gone in self.shared.pods.replace(&pods) {
                    self.forget(gone);
                }
                let mut all = Vec::with_capacity(pods.len());
                for pod in &pods {
                    all.extend(self.home_pod(pod, opted_in).await);
                }
                self.shared.tell(Input::Synced(all)).await;
                for pod in pods.into_iter().filter(|pod| self.shared.pods.overwritten(pod)) {
                    self.shared.tell(Input::Overwritten(pod.id.uid)).await;
                }
            }
            Change::Changed(pod) => {
                self.shared.pods.insert(pod.clone());
                if let Some(pod) = self.home_pod(&pod, opted_in).await {
                    self.shared.tell(Input::Pod(pod)).await;
                }
                if self.shared.pods.overwritten(&pod) {
                    self.shared.tell(Input::Overwritten(pod.id.uid)).await;
                }
            }
            Change::Deleted(pod) => {
                let uid = pod.id.uid.clone();
                self.shared.pods.remove(&uid);
                self.forget(pod.id);
                self.shared.tell(Input::PodGone(uid)).await;
            }
        }
    }

    /// Ends what was begun for a pod, and with the last one of a namespace what was begun
    /// for that.
    fn forget(&mut self, gone: PodId) {
        self.environments.remove(&gone.uid);
        if !self.shared.pods.has_any_in(&gone.namespace) {
            self.services.forget(&gone.namespace);
        }
        self.shared.bodies.forget(&Item::Pod(gone));
    }

    /// The pod as the session sees it; the body is kept beside.
    async fn home_pod(&mut self, seen: &Seen, opted_in: &Known) -> Option<HomePod> {
        let (id, pod) = (&seen.id, &seen.object.open());
        let leave = opted_in.as_ref().map_or(Leave::Soon, |known| known.leave(&id.namespace));
        let Leave::Now(how) = leave else {
            // Told of once that is known. The end of a pod needs nothing to be known: a
            // namespace that is being deleted is never ready again.
            if leave == Leave::Soon && !seen.deleting {
                return None;
            }
            if !seen.deleting && pod["status"]["phase"] == "Running" {
                // Its namespace was offloaded until now: its owner makes it again at home.
                tokio::spawn(write::end(self.shared.clone(), id.clone()));
            }
            let path = "metadata.namespace".to_owned();
            let reason =
                format!("namespace {} is not offloaded: mercato offload {0}", id.namespace);
            return Some(told(seen, pod, Err(Refusal { path, reason })));
        };
        let config = &self.shared.config;
        let runs = pod["status"]["phase"] == "Running";
        if !runs && !how.targets.permit(&config.node, &config.provider) {
            return Some(told(seen, pod, Err(not_a_target(id, &config.node))));
        }
        let place = match how.name.place(&id.namespace) {
            Err(reason) if !runs => {
                let path = "metadata.namespace".to_owned();
                return Some(told(seen, pod, Err(Refusal { path, reason })));
            }
            place => place.unwrap_or_default(),
        };
        let environment = self.environment(id).await;
        let exported = export(pod, &how, &environment, config.host_ip);
        let needs = forge::needs(&exported);
        if let Some(refusal) = kept_at_home(id, &how, &needs) {
            return Some(told(seen, pod, Err(refusal)));
        }
        let kept = self
            .shared
            .bodies
            .keep(&Item::Pod(id.clone()), &exported)
            .map_err(|error| Refusal { path: String::new(), reason: error.to_string() });
        let told = told(seen, pod, kept.map(|digest| (digest, needs)));
        Some(HomePod { place, ..told })
    }

    async fn environment(&mut self, pod: &PodId) -> Environment {
        if let Some(known) = self.environments.get(&pod.uid) {
            return known.clone();
        }
        // In a namespace that is ending, what starts now does not last.
        let Some(life) = self.shared.life(&pod.namespace) else { return Environment::default() };
        let environment = self.services.environment(&life).await;
        // Bounded by the pods: an entry goes with its pod.
        self.environments.insert(pod.uid.clone(), environment.clone());
        environment
    }
}

/// A pod that was put on a node which is none of its namespace's stays.
fn not_a_target(pod: &PodId, node: &str) -> Refusal {
    let (path, namespace) = ("spec.nodeName".to_owned(), &pod.namespace);
    let reason = format!(
        "pods of namespace {namespace} may not go to {node}: see spec.to of its NamespaceOffload"
    );
    Refusal { path, reason }
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

fn export(
    pod: &Value,
    how: &OptIn,
    environment: &BTreeMap<String, String>,
    host_ip: IpAddr,
) -> Value {
    let api_access = if how.api_access { ApiAccess::Home } else { ApiAccess::None };
    let host_ip = Some(host_ip.to_string());
    let service_env = environment.clone();
    forge::export_pod(pod, &HomeContext { service_env, api_access, host_ip })
}

/// What the session is told of a pod: of its own words, and what would be sent.
fn told(seen: &Seen, pod: &Value, sent: Result<(Digest, Vec<ObjectKey>), Refusal>) -> HomePod {
    let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
    let (digest, needs, refusal) = match sent {
        Ok((digest, needs)) => (digest, needs, None),
        Err(refusal) => (forge::digest(&Value::Null), Vec::new(), Some(refusal)),
    };
    HomePod {
        pod: seen.id.clone(),
        digest,
        needs,
        deletion_grace_s: seen.deleting.then(|| u32::try_from(grace).unwrap_or(u32::MAX)),
        terminal: matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")),
        gates: forge::open_gates(pod),
        route: forge::came(pod).map(Box::new),
        place: None,
        refusal,
    }
}
