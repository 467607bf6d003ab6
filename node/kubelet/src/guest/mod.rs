//! The provider's side of one lease, towards its API server: follows the
//! lease's guest objects, as inputs of the session, and performs the session's
//! effects. Only what carries the contract's label is ever touched. What to do
//! when is `mercato_offload::guest`'s; guest namespaces are [`namespace`]'s.

mod edits;
mod events;
mod follow;
mod names;
pub mod namespace;
mod object;
mod place;
mod pod;
mod shared;
pub mod stored;
pub mod stream;
pub mod usage;
mod write;

pub(crate) use write::release_patch;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Once, PoisonError};

use mercato_offload::forge::{Content, GuestContext};
use mercato_offload::guest::Input;
use mercato_offload::key::{Item, PodId};
use mercato_offload::placement::IfAbsent;
use mercato_protocol::gate::GuestUid;
use mercato_protocol::names::LeaseNames;
use mercato_protocol::node::ServiceAddress;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use edits::Edits;
use shared::Shared;
use stored::LeaseStored;

use crate::apiserver::cluster::Cluster;
use crate::apiserver::life::{Life, Lives};
use crate::bodies::Bodies;
use crate::limits;
use crate::upkeep::Upkeep;

/// The provider's side of one lease. Each method starts the work and returns;
/// what comes of it is an input. Everything ends when this is dropped.
pub struct GuestSide {
    shared: Arc<Shared>,
    context: watch::Sender<Arc<GuestContext>>,
    /// The guest namespaces, by their names here.
    lives: Mutex<Lives<()>>,
    living: watch::Sender<Vec<Life>>,
    tasks: TaskTracker,
}

impl GuestSide {
    /// Starts following; the session's inputs come out of the receiver, a
    /// `Synced` once every guest namespace has been listed. What somebody else does to the objects of
    /// guests is told by `kept`.
    pub fn start(
        cluster: Cluster,
        kept: Upkeep,
        context: GuestContext,
        bodies: Bodies,
        stored: Arc<LeaseStored>,
    ) -> (Self, mpsc::Receiver<Input>) {
        let (inputs, received) = mpsc::channel(limits::INPUTS);
        let (asked, to_tell) = mpsc::channel(limits::INPUTS);
        let mut lives = Lives::default();
        let (living, receiver) = watch::channel(begin(&mut lives, &context));
        let (sender, context) = watch::channel(Arc::new(context));
        let stop = CancellationToken::new();
        let (capacity, guests) = (Mutex::default(), Mutex::default());
        let turns = Semaphore::new(limits::WRITES as usize);
        let shared = Arc::new(Shared {
            cluster,
            bodies,
            context,
            living: receiver,
            inputs,
            asked,
            capacity,
            stored,
            guests,
            edits: Edits::default(),
            kept,
            addresses: watch::Sender::default(),
            names: watch::Sender::default(),
            failing: Mutex::default(),
            turns,
            drops_whole: Mutex::new(None),
            domain_refused: Once::new(),
            stop,
        });
        let tasks = TaskTracker::new();
        tasks.spawn(follow::follow(shared.clone(), to_tell).in_current_span());
        tasks.spawn(events::follow(shared.clone()).in_current_span());
        (Self { shared, context: sender, lives: Mutex::new(lives), living, tasks }, received)
    }

    /// What the provider imposes from now on: a further guest namespace, most
    /// often, which must be there already.
    pub fn set_context(&self, context: GuestContext) {
        let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        let living = begin(&mut lives, &context);
        self.context.send_replace(Arc::new(context));
        self.living.send_replace(living);
    }

    /// The addresses of this cluster that Services of the guest namespaces have, as far as these carry
    /// the marks of the contract; each change from now on.
    pub fn service_addresses(&self) -> watch::Receiver<BTreeSet<ServiceAddress>> {
        self.shared.addresses.subscribe()
    }

    /// The names that guests have at home, as the guest objects say them; none, before all are known.
    /// Changes of a moment come together.
    pub fn names(&self) -> watch::Receiver<Option<Arc<LeaseNames>>> {
        self.shared.names.subscribe()
    }

    /// Makes the guest object of this body, which came by this route, or updates it.
    pub fn apply(&self, item: Item, content: Content) {
        self.spawn(write::apply(self.shared.clone(), item, content, IfAbsent::Create));
    }

    /// The same of a guest pod that is on record as made.
    pub fn make(&self, pod: PodId, content: Content) {
        let item = Item::Pod(pod);
        self.spawn(write::apply(self.shared.clone(), item, content, IfAbsent::Make));
    }

    /// Updates a guest pod; one that is not there is not made.
    pub fn update(&self, pod: PodId, content: Content) {
        let item = Item::Pod(pod);
        self.spawn(write::apply(self.shared.clone(), item, content, IfAbsent::Leave));
    }

    /// Deletes, with the grace in seconds, or the object's own.
    pub fn delete(&self, item: Item, grace_s: Option<u32>) {
        self.spawn(write::delete(self.shared.clone(), item, grace_s));
    }

    /// Takes our finalizer off a guest pod.
    pub fn release(&self, pod: PodId) {
        self.spawn(write::release(self.shared.clone(), pod));
    }

    /// Asks for an item by name; a pod that was made under this uid is known by it.
    pub fn confirm(&self, item: Item, uid: Option<GuestUid>) {
        if let (Item::Pod(pod), Some(uid)) = (&item, uid) {
            self.shared.guests().note_uid(pod, uid);
        }
        self.spawn(write::confirm(self.shared.clone(), item, None));
    }

    /// Begins a task within the span of the lease: what it logs says whose it is.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work.in_current_span());
    }
}

/// The lives of the lease's namespaces as of now; those of others are over.
fn begin(lives: &mut Lives<()>, context: &GuestContext) -> Vec<Life> {
    lives.set(context.namespaces.values().map(|namespace| (namespace.clone(), ())));
    lives.all().cloned().collect()
}

impl Drop for GuestSide {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        self.tasks.close();
    }
}

#[cfg(test)]
mod tests;
