//! Follows the pods of one virtual node, and tells the session of each what would be sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use mercato_offload::body::Way;
use mercato_offload::forge::claims_of;
use mercato_offload::forge::told::{Note, kept_of_service};
use mercato_offload::home::{HomePod, Input};
use mercato_offload::key::{Item, PodId, Uid};
use mercato_offload::placement::export::{Departure, LeaseNode, Leave, staying};
use tokio::sync::mpsc;

use super::environments::Environment;
use super::open::Open;
use super::pods::Seen;
use super::reflected::{LeftOut, Notes, Reflection};
use super::services::Services;
use super::shared::{HomeConfig, Shared};
use super::write;
use crate::apiserver::kind::POD;
use crate::apiserver::watch::{Change, Selection, changes};
use crate::offload_namespace::Known;

/// Follows the node's pods for ever. Nothing is told before the opted-in
/// namespaces are known; a change of them tells of every pod again.
pub(super) fn follow(
    shared: Arc<Shared>,
    mut asked: mpsc::Receiver<Seen>,
) -> BoxFuture<'static, ()> {
    async move {
        let (mut opted_in, mut mounts) = (shared.opted_in.clone(), shared.mounts.subscribe());
        let bound = Selection::default().fields(format!("spec.nodeName={}", shared.config.node));
        let following = async {
            if opted_in.wait_for(Option::is_some).await.is_err() {
                return;
            }
            let pods = changes(&shared.cluster, POD, bound, |pod| Seen::read(&pod));
            let pods = pods.filter_map(async |change| change.known());
            let mut pods = std::pin::pin!(pods);
            let (cluster, environments) = (shared.cluster.clone(), shared.environments.clone());
            let services = Services::new(cluster, reflection(&shared), environments);
            let (environments, noted) = (BTreeMap::new(), BTreeMap::new());
            let open = Open::default();
            let mut teller = Teller { shared: &shared, environments, noted, services, open };
            loop {
                tokio::select! {
                    change = pods.next() => {
                        let Some(change) = change else { return };
                        let known = opted_in.borrow().clone();
                        teller.tell(change, &known).await;
                    }
                    Some(pod) = asked.recv() => {
                        let known = opted_in.borrow().clone();
                        if let Some(pod) = shared.pods.newest(pod) {
                            teller.tell(Change::Changed(pod), &known).await;
                        }
                    }
                    Ok(()) = mounts.changed() => {
                        let known = opted_in.borrow().clone();
                        for pod in shared.pods.all().into_iter().filter(has_claims) {
                            teller.tell(Change::Changed(pod), &known).await;
                        }
                    }
                    changed = opted_in.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        let known = opted_in.borrow_and_update().clone();
                        teller.open(&known).await;
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

/// The way to the session for what is no pod's alone, and to the owners of that.
fn reflection(shared: &Arc<Shared>) -> Reflection {
    let (bodies, inputs) = (shared.bodies.clone(), shared.inputs.clone());
    let (ranges, leads) = (shared.ranges.clone(), shared.leads.clone());
    let (of_service, shared) = (shared.clone(), shared.clone());
    let notes: Notes = Arc::new(move |service| {
        let known = of_service.opted_in.borrow().clone();
        // What is not known yet is not told.
        let leaves = |namespace: &str| {
            known.as_ref().is_none_or(|known| known.leave(namespace) != Leave::Never)
        };
        kept_of_service(service, of_service.config.domain.as_deref(), &leaves)
    });
    let left_out: LeftOut = Arc::new(move |key, notes| {
        tokio::spawn(write::told(shared.clone(), key, notes));
    });
    Reflection { bodies, inputs, ranges, leads, notes, left_out }
}

fn has_claims(pod: &Seen) -> bool {
    !claims_of(&pod.object.open()).is_empty()
}

struct Teller<'a> {
    shared: &'a Arc<Shared>,
    /// Service variables by pod, fixed when the pod is first seen, as a kubelet
    /// fixes them when it starts one.
    environments: BTreeMap<Uid, Environment>,
    /// What owners were told that stays at home of pods that have left. An entry goes with its pod.
    noted: BTreeMap<Uid, Vec<Note>>,
    services: Services,
    open: Open,
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
                self.open(opted_in).await;
                self.shared.tell(Input::Synced(all)).await;
                for pod in pods.into_iter().filter(|pod| self.shared.pods.overwritten(pod)) {
                    self.shared.tell(Input::Overwritten(pod.id.uid)).await;
                }
            }
            Change::Changed(pod) => {
                self.shared.pods.insert(pod.clone());
                let told = self.home_pod(&pod, opted_in).await;
                self.open(opted_in).await;
                if let Some(pod) = told {
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
                self.open(opted_in).await;
                self.shared.tell(Input::PodGone(uid)).await;
            }
        }
    }

    /// Ends what was begun for a pod; what was begun for its namespace ends with [`Teller::open`].
    fn forget(&mut self, gone: PodId) {
        self.environments.remove(&gone.uid);
        self.noted.remove(&gone.uid);
        self.open.forget(&gone.uid);
        self.shared.bodies.forget(&Item::Pod(gone));
    }

    /// Has Services of those namespaces cross that pods leave, and that are open to these, and of no others.
    async fn open(&mut self, opted_in: &Known) {
        let HomeConfig { node, contract, provider, .. } = &self.shared.config;
        let differs = self.open.look(opted_in, LeaseNode { name: node, contract, provider });
        let followed: Vec<String> = self.services.namespaces().cloned().collect();
        for namespace in followed.iter().filter(|namespace| !self.open.has(namespace)) {
            if !self.shared.pods.has_any_in(namespace) && self.services.forget(namespace) {
                let (namespace, objects) = (namespace.clone(), BTreeMap::new());
                self.shared.tell(Input::Services { namespace, objects }).await;
            }
        }
        if !differs {
            return;
        }
        let followed = self.services.namespaces().cloned().collect();
        for (namespace, crossing) in self.open.crossings(followed) {
            if let Some(life) = self.shared.life(&namespace) {
                self.services.cross(&life, crossing);
            }
        }
        if let Some(open) = self.open.news() {
            self.shared.tell(Input::Open(open)).await;
        }
    }

    /// The pod as the session sees it; the body is kept beside.
    async fn home_pod(&mut self, seen: &Seen, opted_in: &Known) -> Option<HomePod> {
        let told = self.told_of(seen, opted_in).await;
        // Of what is not known for a moment it holds what was told before.
        if let Some(pod) = &told {
            self.open.set(&seen.id, pod.refusal.is_none() && !pod.terminal);
        }
        told
    }

    async fn told_of(&mut self, seen: &Seen, opted_in: &Known) -> Option<HomePod> {
        let (id, pod) = (&seen.id, &seen.object.open());
        match self.shared.departure(pod, opted_in) {
            Departure::Undecided => None,
            Departure::Stays { refusal, ends } => {
                if ends && let Some(asking) = write::end(self.shared, id) {
                    tokio::spawn(asking);
                }
                staying(pod, refusal)
            }
            Departure::Leaves(permit) => {
                let mounts = self.shared.mounts.borrow().clone();
                let deleting = !pod["metadata"]["deletionTimestamp"].is_null();
                let called = match mounts.of(pod) {
                    Some(Ok(called)) => called,
                    Some(Err(refusal)) if !deleting => {
                        // The claim was not there when the webhook let the pod leave: the next one stays.
                        let ends = permit.stays_next_time(pod, &mounts);
                        if ends && let Some(asking) = write::end(self.shared, id) {
                            tokio::spawn(asking);
                        }
                        return staying(pod, refusal);
                    }
                    // The end of a pod needs nothing to be known.
                    Some(Err(_)) | None if deleting => BTreeMap::new(),
                    Some(Err(_)) | None => return None,
                };
                let environment = self.environment(id).await;
                let (bodies, notes) = (&self.shared.bodies, permit.notes(pod));
                let told = permit.home_pod(pod, &environment, called, |body| {
                    bodies.keep(Way::ToGuest, &Item::Pod(id.clone()), &body)
                })?;
                if told.refusal.is_none() {
                    self.note(id, notes);
                }
                Some(told)
            }
        }
    }

    /// Tells the owner of a pod what of it stays at home, unless that was told.
    fn note(&mut self, pod: &PodId, notes: Vec<Note>) {
        let before = self.noted.get(&pod.uid);
        if notes.is_empty() && before.is_none() || before == Some(&notes) {
            return;
        }
        self.noted.insert(pod.uid.clone(), notes.clone());
        tokio::spawn(write::told(self.shared.clone(), pod.key(), notes));
    }

    async fn environment(&mut self, pod: &PodId) -> Environment {
        if let Some(known) = self.environments.get(&pod.uid) {
            return known.clone();
        }
        // In a namespace that is ending, what starts now does not last.
        let Some(life) = self.shared.life(&pod.namespace) else { return Environment::default() };
        let crossing = self.open.crossing(&pod.namespace);
        let environment = self.services.environment(&life, crossing).await;
        // Bounded by the pods: an entry goes with its pod.
        self.environments.insert(pod.uid.clone(), environment.clone());
        environment
    }
}
