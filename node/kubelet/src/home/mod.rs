//! Home's side of one lease, towards its API server: follows the pods of the
//! virtual node and what they need, as inputs of the session, and performs the
//! session's effects. What to do when is `mercato_offload::home`'s.

mod claims;
mod environments;
mod events;
mod follow;
mod lease;
mod leaving;
pub mod node;
mod objects;
mod open;
mod pods;
mod reflected;
mod services;
mod shared;
mod status_patch;
mod tokens;
mod volumes;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use mercato_offload::address::MappedRange;
use mercato_offload::forge::Refusal;
use mercato_offload::home::leaving::Left;
use mercato_offload::home::{Granted, Input, Write};
use mercato_offload::key::{Item, ObjectKey, ObjectKind, PodId};
use mercato_offload::message::PodEvent;
use mercato_offload::placement::export::Destinations;
use mercato_offload::placement::spec::Leaving;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::apiserver::cluster::Cluster;
use crate::bodies::Bodies;
use crate::bucket::Bucket;
use crate::kubelet_api::NodePods;
use crate::limits;
use crate::offload_namespace::Known;
use crate::pace::every;

use claims::News;
pub use claims::{ClusterClaims, Storage};
use environments::Environments;
pub use lease::{HomeLease, HomeLeaseConfig, HomeLeaseError};
pub use leaving::Leavers;
use objects::Objects;
pub use shared::HomeConfig;
use shared::Shared;
use tokens::Tokens;
pub use volumes::remove_volumes;

/// Home's side of one lease. Each method starts the work and returns; what
/// comes of it is an input. Everything ends when this is dropped.
pub struct HomeSide {
    shared: Arc<Shared>,
    objects: Objects,
    tokens: Arc<Tokens>,
    told: mpsc::Sender<(PodId, PodEvent)>,
    claims: mpsc::Sender<News>,
    storage: watch::Sender<Option<Storage>>,
    ranges: watch::Sender<Vec<MappedRange>>,
    leaving: watch::Sender<Option<Leaving>>,
    tasks: TaskTracker,
}

impl HomeSide {
    /// Starts following; the session's inputs come out of the receiver, first
    /// of all a `Synced`.
    pub fn start(
        cluster: Cluster,
        config: HomeConfig,
        bodies: Bodies,
        opted_in: watch::Receiver<Known>,
        of_cluster: Arc<ClusterClaims>,
    ) -> (Self, mpsc::Receiver<Input>) {
        let (inputs, received) = mpsc::channel(limits::INPUTS);
        let (asked, to_tell) = mpsc::channel(limits::INPUTS);
        let (ranges, known) = watch::channel(Vec::new());
        let shared = Arc::new(Shared {
            config,
            cluster,
            environments: Arc::new(Environments::new(bodies.clone(), inputs.clone())),
            bodies,
            opted_in,
            pods: Arc::default(),
            asked,
            inputs,
            ranges: known,
            leads: watch::Sender::default(),
            strays: watch::Sender::default(),
            mounts: watch::Sender::default(),
            events: Bucket::new(Instant::now(), limits::EVENTS, limits::EVENTS_EACH_S),
            turns: Semaphore::new(limits::WRITES as usize),
            stop: CancellationToken::new(),
        });
        let (told, to_write) = mpsc::channel(limits::GUEST_EVENTS_WAITING);
        let tokens = Arc::new(Tokens::default());
        let tasks = TaskTracker::new();
        tasks.spawn(follow::follow(shared.clone(), to_tell).in_current_span());
        tasks.spawn(tokens.clone().keep_fresh(shared.clone()).in_current_span());
        tasks.spawn(events::write_all(shared.clone(), to_write).in_current_span());
        let (claims, news) = mpsc::channel(limits::CLAIM_NEWS);
        let (storage, bought) = watch::channel(None);
        let followed = claims::follow(shared.clone(), of_cluster, news, bought);
        tasks.spawn(followed.in_current_span());
        let objects = Objects::default();
        let leaving = watch::Sender::new(None);
        let side = Self { shared, objects, tokens, told, claims, storage, ranges, leaving, tasks };
        (side, received)
    }

    /// By which ranges guests know pods from now on: home's, and each other.
    pub fn set_ranges(&self, ranges: Vec<MappedRange>) {
        self.ranges.send_if_modified(|before| {
            let differs = *before != ranges;
            *before = ranges;
            differs
        });
    }

    /// Sees to the node's pods whenever it leaves, whose guests have so many seconds to end at most, and
    /// tells how many have still to go.
    pub(super) fn sees_to_leaving(
        &self,
        leavers: Arc<Leavers>,
        longest_grace_s: u64,
        left: watch::Sender<Left>,
    ) {
        let (shared, leaving) = (self.shared.clone(), self.leaving.subscribe());
        self.spawn(leaving::tend(shared, leavers, longest_grace_s, leaving, left));
    }

    /// The lease ends soon from now on, or does not.
    pub fn set_leaving(&self, leaving: Option<Leaving>) {
        self.leaving.send_if_modified(|before| {
            let differs = *before != leaving;
            *before = leaving;
            differs
        });
    }

    /// So much storage was bought, or is taken up.
    pub fn set_storage(&self, storage: Storage) {
        self.storage.send_if_modified(|before| before.replace(storage) != Some(storage));
    }

    /// Claims that the provider holds, and of which nothing is left at home: by namespace and uid.
    pub fn strays(&self) -> watch::Receiver<Vec<ObjectKey>> {
        self.shared.strays.subscribe()
    }

    /// What came of a wish for a claim. What is too much is lost: each wish is said again.
    pub fn claim(&self, key: ObjectKey, granted: Granted) {
        let _ = self.claims.try_send(News::Granted(key, granted));
    }

    /// Where the Services lead that other namespaces open to this lease, by namespace.
    pub fn leads(&self) -> watch::Receiver<BTreeMap<String, Arc<Destinations>>> {
        self.shared.leads.subscribe()
    }

    /// The node's pods, for its kubelet API.
    pub fn pods(&self) -> Arc<dyn NodePods> {
        self.shared.pods.clone()
    }

    /// Tells of an object now, and whenever it changes.
    pub fn watch(&mut self, key: ObjectKey) {
        match key.kind {
            ObjectKind::ConfigMap | ObjectKind::Secret => match environments::of(&key) {
                Some(which) => {
                    let shared = self.shared.clone();
                    self.spawn(async move {
                        shared.environments.want(&key.namespace, which).await;
                    });
                }
                None => self.objects.watch(&self.shared, key),
            },
            ObjectKind::ServiceAccountToken => self.tokens.watch(&self.shared, key),
            ObjectKind::Pod
            | ObjectKind::Namespace
            | ObjectKind::Service
            | ObjectKind::EndpointSlice
            | ObjectKind::Claim => {
                tracing::debug!(%key, "not a kind that a pod needs");
            }
        }
    }

    /// Stops telling of an object, and forgets its body.
    pub fn unwatch(&mut self, key: &ObjectKey) {
        self.shared.environments.unwant(key);
        self.objects.unwatch(key);
        self.tokens.unwatch(key);
        self.shared.bodies.forget(&Item::Object(key.clone()));
    }

    /// Asks for a pod by name.
    pub fn confirm(&self, pod: PodId) {
        self.spawn(write::confirm(self.shared.clone(), pod));
    }

    /// Writes to a pod at home what came of its guest.
    pub fn write(&self, pod: PodId, write: Write) {
        self.spawn(write::perform(self.shared.clone(), pod, write));
    }

    /// Tells the owner of an object that the provider refuses it.
    pub fn object_refused(&self, key: ObjectKey, refusal: Refusal) {
        if key.kind == ObjectKind::Claim {
            let _ = self.claims.try_send(News::Refused(key, refusal));
            return;
        }
        self.spawn(write::object_refused(self.shared.clone(), key, refusal));
    }

    /// Tells the owner of a pod what the kubelet over there says of it, unless too much is
    /// said.
    pub fn event(&self, pod: PodId, event: PodEvent) {
        if let Err(error) = self.told.try_send((pod, event)) {
            tracing::debug!(%error, "one event too many");
        }
    }

    /// Asks once for the end of each of the node's pods, with its own grace, and waits until none
    /// is left, but for those that only others' finalizers hold. A DaemonSet's pod is asked to end and not waited for: another comes until the node
    /// is gone. It may be dropped and called again.
    pub async fn drained(&self) {
        let mut looks = every(limits::DRAIN_LOOK);
        loop {
            looks.tick().await;
            let Some(pods) = self.shared.pods.listed() else { continue };
            for asking in pods.iter().filter_map(|pod| write::end(&self.shared, &pod.id)) {
                self.spawn(asking);
            }
            if pods.iter().all(|pod| pod.of_daemon_set || pod.is_over) {
                return;
            }
        }
    }

    /// Begins a task within the span of the lease: what it logs says whose it is.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work.in_current_span());
    }
}

impl Drop for HomeSide {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        self.tasks.close();
    }
}

#[cfg(test)]
mod tests;
