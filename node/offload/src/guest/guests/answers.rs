//! What came of a write, and when it is tried again.

use mercato_protocol::gate::GuestUid;
use mercato_protocol::time::Now;

use super::super::desired::{Desired, Step};
use super::super::object::Object;
use super::super::pod::GuestPod;
use super::super::{Effect, Failure};
use super::Guests;
use crate::forge::resize::is_deferred;
use crate::key::Item;
use crate::limits;
use crate::message::{Outcome, Refusal};
use crate::output::Output;

impl Guests {
    /// The write that was under way for this item succeeded, and has made a pod of this uid.
    pub(in crate::guest) fn on_written(
        &mut self,
        now: Now,
        item: &Item,
        uid: Option<GuestUid>,
        out: &mut Output<Effect>,
    ) {
        match item {
            Item::Object(key) => {
                let Some(goes) = self.objects.on_written(key) else { return };
                match goes {
                    // What uses it holds it: to ask again at once would not make it go.
                    true => self.retries.back_off(now.mono_ms, item),
                    false => self.retries.clear(item),
                }
                out.changed(item.clone());
            }
            Item::Pod(id) => {
                self.retries.clear(item);
                let Some(pod) = self.pods.get_mut(&id.uid) else { return };
                pod.on_written(uid, out);
            }
        }
        self.drop_if_done(item, out);
        self.step(now, item, out);
        self.step_namesakes(now, item, out);
    }

    /// It failed so.
    pub(in crate::guest) fn on_failure(
        &mut self,
        now: Now,
        item: &Item,
        failure: Failure,
        out: &mut Output<Effect>,
    ) {
        let step = match item {
            Item::Object(key) => self.objects.get_mut(key).and_then(|it| it.desired().end()),
            Item::Pod(id) => {
                self.pods.get_mut(&id.uid).and_then(|pod| pod.on_failure(&failure, out))
            }
        };
        let Some(step) = step else { return };
        match (step, failure.clipped()) {
            (Step::Update(..) | Step::Delete(_) | Step::Release, Failure::Absent) => {
                return self.on_gone(now, item, out);
            }
            (Step::Apply(digest, _) | Step::Make(digest, _), Failure::MissingBody)
            | (Step::Update(digest, _), Failure::MissingBody) => {
                if let Some(desired) = self.desired(item) {
                    desired.on_missing_body(digest);
                }
            }
            (Step::Apply(..) | Step::Make(..) | Step::Update(..), Failure::Refused(why)) => {
                let may_pass = is_deferred(&why);
                if let Some(desired) = self.desired(item) {
                    desired.refuse(why);
                }
                if !self.is_to_go(item) {
                    self.retries.back_off(now.mono_ms, item);
                }
                if may_pass {
                    self.retries.no_later(now.mono_ms + limits::DEFERRED_MS, item);
                }
            }
            (Step::Apply(..) | Step::Make(..), Failure::OutOf(outcome)) => {
                self.out_of_room(now, item, outcome, out);
            }
            (Step::Apply(..) | Step::Make(..), Failure::Full(outcome)) => {
                self.full(now, item, outcome, out);
            }
            // What follows is a record, or an answer to a question.
            (Step::Apply(..), Failure::Unrecorded) | (Step::Make(..), Failure::Unanswered) => {}
            (
                _,
                Failure::OutOf(_) | Failure::Full(_) | Failure::Refused(_) | Failure::MissingBody,
            )
            | (
                _,
                Failure::Transient | Failure::Unanswered | Failure::Unrecorded | Failure::Absent,
            ) => self.retries.back_off(now.mono_ms, item),
        }
        // It may have been seen to go meanwhile.
        self.drop_if_done(item, out);
        out.changed(item.clone());
        self.step(now, item, out);
        self.step_namesakes(now, item, out);
    }

    /// Home counts no longer what it has told to leave, but the lease does until it is gone.
    fn full(&mut self, now: Now, item: &Item, outcome: Outcome, out: &mut Output<Effect>) {
        let pod = if let Item::Pod(id) = item { self.pods.get_mut(&id.uid) } else { None };
        let until = pod.map_or(now.mono_ms, |pod| pod.on_full(now));
        if now.mono_ms < until {
            self.retries.back_off(now.mono_ms, item);
            // It is given up at that time, however long the wait has grown.
            self.retries.no_later(until, item);
        } else {
            self.out_of_room(now, item, outcome, out);
        }
    }

    /// A pod is over. Any other object is tried again, and its owner knows meanwhile.
    fn out_of_room(&mut self, now: Now, item: &Item, outcome: Outcome, out: &mut Output<Effect>) {
        let is_over = match (item, outcome) {
            (Item::Pod(id), outcome) => {
                let pod = self.pods.get_mut(&id.uid);
                pod.is_some_and(|pod| pod.on_out_of_room(outcome, out))
            }
            (Item::Object(key), Outcome::Failed { message: reason, .. }) => {
                if let Some(object) = self.objects.get_mut(key) {
                    object.desired().refuse(Refusal { path: String::new(), reason });
                }
                false
            }
            (Item::Object(_), Outcome::Succeeded) => false,
        };
        if !is_over {
            self.retries.back_off(now.mono_ms, item);
        }
    }

    /// Whether it is not to be there, whatever home said of its content.
    fn is_to_go(&self, item: &Item) -> bool {
        self.closing
            || match item {
                Item::Object(key) => self.objects.get(key).is_some_and(Object::is_dropped),
                Item::Pod(id) => self.pods.get(&id.uid).is_some_and(GuestPod::is_to_go),
            }
    }

    fn desired(&mut self, item: &Item) -> Option<&mut Desired> {
        match item {
            Item::Object(key) => self.objects.get_mut(key).map(Object::desired),
            Item::Pod(id) => self.pods.get_mut(&id.uid).map(GuestPod::desired),
        }
    }
}
