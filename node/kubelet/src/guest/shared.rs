//! What following and writing the guests of one lease have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use mercato_offload::body::Way;
use mercato_offload::forge::labels::MADE;
use mercato_offload::forge::{self, GuestContext, KnownGuests, Refusal};
use mercato_offload::guest::{Failure as GuestFailure, Input, Observed};
use mercato_offload::key::{Item, PodId};
use mercato_offload::message::{EventKind, PodEvent};
use mercato_offload::placement::export::{REFUSED, refusal_text};
use mercato_offload::placement::{Capacity, Write};
use mercato_protocol::names::LeaseNames;
use mercato_protocol::node::ServiceAddress;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::edits::Edits;
use super::stored::LeaseStored;
use crate::apiserver::cluster::Cluster;
use crate::apiserver::kind::Kind;
use crate::apiserver::life::Life;
use crate::bodies::Bodies;
use crate::repeated::Repeated;
use crate::upkeep::Upkeep;

/// Of one lease; each task has it.
pub(super) struct Shared {
    pub(super) cluster: Cluster,
    pub(super) bodies: Bodies,
    pub(super) context: watch::Receiver<Arc<GuestContext>>,
    /// The guest namespaces that there are.
    pub(super) living: watch::Receiver<Vec<Life>>,
    pub(super) inputs: mpsc::Sender<Input>,
    /// What was asked for by name, for whoever follows its kind in its namespace.
    pub(super) asked: mpsc::Sender<Asked>,
    pub(super) capacity: Mutex<Capacity>,
    /// What that comes to in etcd, with that of all other leases.
    pub(super) stored: Arc<LeaseStored>,
    /// The guest pods that are there.
    pub(super) guests: Mutex<KnownGuests>,
    /// What somebody else does to Services and slices.
    pub(super) edits: Edits,
    /// Whom people are told by of what was put back.
    pub(super) kept: Upkeep,
    /// Those that Services of the guest namespaces have now.
    pub(super) addresses: watch::Sender<BTreeSet<ServiceAddress>>,
    /// The names that guests have at home; none, before all are known.
    pub(super) names: watch::Sender<Option<Arc<LeaseNames>>>,
    /// Why items could not be written; each entry goes with its item.
    pub(super) failing: Mutex<BTreeMap<Item, Repeated>>,
    /// One lease does not take all the requests of a cluster, nor their memory.
    pub(super) turns: Semaphore,
    /// When this API server was last seen to drop the resources of a pod as a whole.
    pub(super) drops_whole: Mutex<Option<Instant>>,
    /// It was said that home is called what no home may be called.
    pub(super) domain_refused: Once,
    pub(super) stop: CancellationToken,
}

/// A guest object that was asked for by name, as the API server answered.
pub(super) struct Asked {
    pub(super) item: Item,
    pub(super) kind: Kind,
    /// The namespace of this cluster that it is in.
    pub(super) guest: String,
    /// None if it is not there.
    pub(super) object: Option<Value>,
    /// How many deletions the watches had told of when it was asked for once more, since it was there and
    /// they had not told of it.
    pub(super) since: Option<u64>,
}

impl Shared {
    pub(super) fn failing(&self) -> MutexGuard<'_, BTreeMap<Item, Repeated>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn context(&self) -> Arc<GuestContext> {
        self.context.borrow().clone()
    }

    /// Whether there is room for this write, which takes it then.
    pub(super) fn claim(
        &self,
        item: &Item,
        forged: &Value,
        write: Write<'_>,
    ) -> Result<(), GuestFailure> {
        let (context, mut capacity) = (self.context(), self.capacity());
        capacity.claim(item, forged, write, &context, &mut self.stored.cluster())
    }

    /// Counts what objects take otherwise; the sum over all leases is told.
    pub(super) fn count(&self, count: impl FnOnce(&mut Capacity)) {
        let mut capacity = self.capacity();
        count(&mut capacity);
        self.stored.note(capacity.bytes());
    }

    fn capacity(&self) -> MutexGuard<'_, Capacity> {
        self.capacity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn guests(&self) -> MutexGuard<'_, KnownGuests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits where the driver is behind; nothing is lost, nothing piles up.
    pub(super) async fn tell(&self, input: Input) {
        if let Input::Gone(item) = &input {
            self.count(|capacity| capacity.release(item));
            match item {
                Item::Pod(pod) => self.guests().forget(pod),
                Item::Object(key) => self.guests().forget_object(key),
            }
            self.edits.set_removing(item, false);
            self.failing().remove(item);
            self.bodies.forget(item);
        }
        // An error means that the driver has gone, and this side with it.
        let _ = self.inputs.send(input).await;
    }

    /// Whether an object is this item, by its marks, or by the uid that it was made under.
    pub(super) fn is(&self, item: &Item, object: &Value) -> bool {
        let observed = forge::observe(&self.context(), &self.guests(), object);
        observed.is_some_and(|observed| observed.item == *item)
    }

    /// Whether somebody has changed what we wrote of this object; one of an earlier release does not say
    /// what that was.
    pub(super) fn is_edited(&self, item: &Item, present: &Value) -> bool {
        let says = present["metadata"]["annotations"][MADE].is_string();
        says && !self.guests().is_as_made(item, present)
    }

    /// Reads a guest object; a pod's status is kept as a body, to be sent home.
    pub(super) fn observe(&self, object: &Value) -> Option<Observed> {
        let context = self.context();
        let (observed, is_new) = {
            let mut guests = self.guests();
            let observed = forge::observe(&context, &guests, object)?;
            let is_new = match (&observed.item, &observed.pod) {
                (Item::Pod(id), Some(pod)) => guests.is_new(id, &pod.uid),
                _ => false,
            };
            guests.note(&observed.item, object);
            (observed, is_new)
        };
        self.count(|capacity| capacity.note(&observed.item, object));
        let there = observed.pod.as_ref().filter(|pod| !pod.deleting);
        if let Some(Refusal { path, reason }) = there.and_then(|pod| pod.unlike.as_ref()) {
            // Once for each guest, or twice: it is ended.
            tracing::warn!(path, reason, key = %observed.item.key(),
                "a guest is not as it must be, and is ended: leave the namespaces of guests out of \
                webhooks that change pods, and see whether the API server knows the field");
        }
        if let (Item::Pod(pod), Some(seen)) = (&observed.item, &observed.pod) {
            let runs = is_new && seen.terminal.is_none() && seen.unlike.is_none();
            if let Some(refusal) = forge::unbounded(&context, object).filter(|_| runs) {
                self.tell_of_unbounded(pod, &refusal);
            }
            let status = forge::guest_status(object);
            if let Err(refusal) = self.bodies.keep(Way::ToHome, &observed.item, &status) {
                self.tell_of_status(pod.clone(), &refusal);
                return None;
            }
        }
        Some(observed)
    }

    /// Its owner is told, and people here are: whatever was changed is written again.
    pub(super) async fn tell_of_marks(&self, pod: &PodId) {
        // Once for each time that somebody does so.
        tracing::warn!(uid = %pod.uid, namespace = pod.namespace, name = pod.name,
            "labels or annotations by which a guest is known were changed: they are written again");
        let event = PodEvent {
            kind: EventKind::Warning,
            reason: MARKS_CHANGED.to_owned(),
            field: String::new(),
            message: "somebody in the provider's cluster has changed the labels or annotations of \
                      Mercato on this pod; they are written again, and it runs on"
                .to_owned(),
            count: 1,
        };
        self.tell(Input::Event(pod.clone(), event)).await;
    }

    /// One that was made by an earlier release runs on as it is.
    fn tell_of_unbounded(&self, pod: &PodId, Refusal { path, reason }: &Refusal) {
        // Once for each guest that is there as the lease begins, or begins again here.
        tracing::warn!(
            path,
            reason,
            namespace = pod.namespace,
            name = pod.name,
            "a guest runs without a bound, and runs on: whoever deletes its pod at home has it made \
            again, with its bounds"
        );
        let event = PodEvent {
            kind: EventKind::Warning,
            reason: UNBOUNDED.to_owned(),
            field: String::new(),
            message: format!(
                "{path} {reason}; it runs on, and is made with it once it is made again"
            ),
            count: 1,
        };
        // An error means that there are events enough, or that the driver has gone.
        let _ = self.inputs.try_send(Input::Event(pod.clone(), event));
    }

    /// A guest has lost this of what it was forged with.
    pub(super) fn note_loss(&self, pod: &PodId, lost: Refusal) {
        if lost.path.starts_with(WHOLE) {
            *self.drops_whole.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        self.guests().note_loss(pod, lost);
    }

    /// Why a pod is not made at all: this API server has just dropped a field that it has as well. A pod
    /// that is made and ended is made again at home at once.
    pub(super) fn is_dropped(&self, forged: &Value) -> Option<Refusal> {
        let asks = ["limits", "requests"].iter().any(|sort| {
            let list = forged["spec"]["resources"][*sort].as_object();
            list.is_some_and(|list| !list.is_empty())
        });
        let since = *self.drops_whole.lock().unwrap_or_else(PoisonError::into_inner);
        let is_dropped = asks && since.is_some_and(|since| since.elapsed() < DROPS_FOR);
        let reason = "is not known to the provider's API server, which drops it: give the containers \
                      resources in its place, or buy elsewhere";
        is_dropped.then(|| Refusal { path: WHOLE.to_owned(), reason: reason.to_owned() })
    }

    /// The owner of a pod that waits for its name is told why, once.
    pub(super) fn tell_of_earlier(&self, item: &Item) {
        let Item::Pod(pod) = item else { return };
        if !self.failing().entry(item.clone()).or_default().is_news(&NAME_IN_USE) {
            return;
        }
        let event = PodEvent {
            kind: EventKind::Warning,
            reason: NAME_IN_USE.to_owned(),
            field: String::new(),
            message:
                "a pod of this name is still there in the provider's cluster: this one is made \
                      once that one is gone"
                    .to_owned(),
            count: 1,
        };
        // An error means that there are events enough, or that the driver has gone.
        let _ = self.inputs.try_send(Input::Event(pod.clone(), event));
    }

    /// Home sees the guest as it was: its owner is told why, unless too much is said already.
    fn tell_of_status(&self, pod: PodId, refusal: &Refusal) {
        let event = PodEvent {
            kind: EventKind::Warning,
            reason: REFUSED.to_owned(),
            field: String::new(),
            message: refusal_text(refusal),
            count: 1,
        };
        // An error means that there are events enough, or that the driver has gone.
        let _ = self.inputs.try_send(Input::Event(pod, event));
    }
}

/// Reason of the event that the marks of a guest were changed by somebody else.
const MARKS_CHANGED: &str = "GuestMarksChanged";

/// Reason of the event that a guest from before has no bound that it would be made with now.
const UNBOUNDED: &str = "GuestUnbounded";

/// The field that clusters before 1.34 drop.
const WHOLE: &str = "spec.resources";

/// How long nothing with that field is made after it was dropped; a guess: clusters are updated.
const DROPS_FOR: Duration = Duration::from_secs(600);

/// Reason of the event that another pod has the name that a guest is to have.
const NAME_IN_USE: &str = "NameInUse";
