//! What is known of one guest pod, and what home is told of it; [`step`] says what it calls for.

mod called;
mod on_record;
mod step;
mod told;

use std::net::IpAddr;

use mercato_protocol::gate::GuestUid;
use mercato_protocol::id::Digest;
use mercato_protocol::time::Now;

use super::desired::{Desired, Step};
use super::{Effect, Failure, Life, ObservedPod};
use crate::address::GuestAddress;
use crate::key::{Item, PodId};
use crate::limits;
use crate::message::{Outcome, Refusal, Report, Route};
use crate::output::Output;
pub(super) use called::Called;
use on_record::OnRecord;
pub(super) use step::Surroundings;

/// A pod as this side knows it.
#[derive(Debug)]
pub(super) struct GuestPod {
    record: OnRecord,
    desired: Desired,
    /// Home wants it ended, with this grace.
    grace_s: Option<u32>,
    /// Home has written down how it ended.
    taken: bool,
    /// Home has removed it and will not speak of it again.
    forgotten: bool,
    /// The digest that was applied, and how it is.
    seen: Option<(Digest, ObservedPod)>,
    /// The API server said that it is not there, since we last tried to make it.
    absent: bool,
    /// An attempt to make it may have worked without our knowing.
    in_doubt: bool,
    /// Nothing keeps it: it is on record before it is made.
    unkept: bool,
    /// A list without it has come while it was being made.
    missed: bool,
    /// It was seen with a terminal phase before anyone deleted it.
    settled: bool,
    /// We end it, for this reason.
    evicted: Option<Outcome>,
    /// Since when it has been over but for our finalizer, in ms of the monotonic clock.
    ended_at_ms: Option<u64>,
    /// Since when there has been no room for it, likewise.
    roomless_at_ms: Option<u64>,
    /// Our finalizer was the last, and has been taken off: it is as good as gone.
    released: bool,
    /// The grace of the deletion that was asked for.
    deleted: Option<Option<u32>>,
    /// What home was told of it on this link.
    told: Option<Report>,
    called: Called,
}

impl GuestPod {
    /// One with this on record, if anything is.
    pub(super) fn new(id: PodId, life: Option<Life>) -> Self {
        Self {
            record: OnRecord::new(id, life),
            desired: Desired::default(),
            grace_s: None,
            taken: false,
            forgotten: false,
            seen: None,
            absent: false,
            in_doubt: false,
            unkept: false,
            missed: false,
            settled: false,
            evicted: None,
            ended_at_ms: None,
            roomless_at_ms: None,
            released: false,
            deleted: None,
            told: None,
            called: Called::default(),
        }
    }

    pub(super) fn id(&self) -> &PodId {
        self.record.id()
    }

    pub(super) fn desired(&mut self) -> &mut Desired {
        &mut self.desired
    }

    /// The uid that it was made under, as far as that is on record.
    pub(super) fn made_as(&self) -> Option<&GuestUid> {
        self.record.made_as()
    }

    /// Something of it is at the API server, as far as is known.
    pub(super) fn is_held(&self) -> bool {
        self.seen.is_some() || self.record.is_made()
    }

    /// Something of it is, or may be, at the API server under its name.
    pub(super) fn holds_name(&self) -> bool {
        self.is_held() || self.desired.is_busy()
    }

    /// Something of it is, or may be, in its guest namespace.
    pub(super) fn holds_place(&self) -> bool {
        self.holds_name() || self.in_doubt && !self.record.is_over()
    }

    /// Its removal could come before an attempt to make it that may have worked.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Home wants it ended, whatever it said of its content.
    pub(super) fn is_to_go(&self) -> bool {
        self.grace_s.is_some()
    }

    /// A list has come in which it is not. Whether that is to be asked for: of one that is being made
    /// it is once that has its answer.
    pub(super) fn on_missed(&mut self) -> bool {
        self.missed = matches!(self.desired.doing(), Some(Step::Make(..)));
        !self.missed
    }

    /// It need not be remembered: home has removed it, and it is not there.
    pub(super) fn is_done_with(&self) -> bool {
        self.forgotten && self.record.is_over() && !self.holds_name()
    }

    /// What was said on an earlier link is void.
    pub(super) fn on_new_link(&mut self) {
        self.desired.on_new_link();
        self.told = None;
        self.called.on_new_link();
    }

    /// Home wants it with this content, unless that is refused.
    pub(super) fn on_put(&mut self, digest: Digest, route: &Route, refusal: Option<Refusal>) {
        self.desired.put(digest, route, refusal);
        self.told = None;
    }

    /// Home wants it ended with this grace at most; whether that is new.
    pub(super) fn on_delete(&mut self, grace_s: u32) -> bool {
        let before = self.grace_s;
        self.grace_s = Some(before.map_or(grace_s, |before| before.min(grace_s)));
        self.told = None;
        self.grace_s != before
    }

    /// Home asks how it is.
    pub(super) fn on_want(&mut self) {
        self.told = None;
    }

    pub(super) fn on_taken(&mut self) {
        self.taken = true;
    }

    pub(super) fn on_forget(&mut self) {
        self.forgotten = true;
    }

    pub(super) fn on_address(&mut self, address: IpAddr) -> Option<Effect> {
        self.called.on_address(address);
        self.map()
    }

    /// How it is with packets for it.
    pub(super) fn called(&mut self) -> &mut Called {
        &mut self.called
    }

    /// The API server has it so; whether its gate has let it through with this.
    pub(super) fn on_observed(
        &mut self,
        now: Now,
        digest: Digest,
        mut seen: ObservedPod,
        out: &mut Output<Effect>,
    ) -> bool {
        seen.terminal = seen.terminal.map(Outcome::clipped);
        seen.unschedulable = seen.unschedulable.map(Outcome::clipped);
        seen.unlike = seen.unlike.map(Refusal::clipped);
        if self.record.is_made() {
            self.record.made(Some(seen.uid.clone()), out);
        }
        let opens = self.seen.as_ref().is_some_and(|(_, before)| before.held) && !seen.held;
        if let Some(why) = &seen.unlike {
            self.evicted.get_or_insert_with(|| refused(why));
        }
        if seen.left_out && seen.terminal.is_none() && !seen.deleting {
            self.evicted.get_or_insert_with(|| failed("Evicted", LEFT_OUT));
        }
        self.settled |= seen.terminal.is_some() && !seen.deleting;
        self.ended_at_ms = seen.ended.then(|| self.ended_at_ms.unwrap_or(now.mono_ms));
        let since = self.roomless_at_ms.unwrap_or(now.mono_ms);
        self.roomless_at_ms = seen.unschedulable.is_some().then_some(since);
        self.absent = false;
        // Marks are written with the content, which home has not said again on a later link.
        let was_marked = self.seen.as_ref().is_none_or(|(_, before)| before.marked);
        if was_marked && !seen.marked && self.desired.content().is_none() && !self.is_to_go() {
            self.desired.set_missing(true);
        }
        self.seen = Some((digest, seen));
        out.extend(self.map());
        opens
    }

    /// The API server says that it is not there. One that was made is over.
    pub(super) fn on_gone(&mut self, out: &mut Output<Effect>) {
        let outcome = self.outcome(false);
        self.seen = None;
        (self.absent, self.in_doubt, self.released, self.deleted) = (true, false, false, None);
        out.extend(self.map());
        if self.record.is_made() {
            self.record.over(outcome, out);
        }
    }

    /// The write that was under way succeeded, and has made it under this uid.
    pub(super) fn on_written(&mut self, uid: Option<GuestUid>, out: &mut Output<Effect>) {
        let done = self.desired.end();
        self.released |= matches!(done, Some(Step::Release));
        let (Some(Step::Apply(digest, _) | Step::Update(digest, _)) | Some(Step::Make(digest, _))) =
            done
        else {
            return;
        };
        self.desired.accept();
        let (outcome, absent) = (self.outcome(false), self.absent && !self.record.is_over());
        if let Some((seen, pod)) = &mut self.seen {
            (*seen, pod.marked) = (digest, true);
        }
        self.made(uid, out);
        if absent {
            self.record.over(outcome, out);
        }
        if std::mem::take(&mut self.missed) && self.seen.is_none() {
            self.confirm(out);
        }
    }

    /// The write that was under way failed so.
    pub(super) fn on_failure(
        &mut self,
        failure: &Failure,
        out: &mut Output<Effect>,
    ) -> Option<Step> {
        let step = self.desired.end();
        self.deleted = None;
        let is_unsure = *failure == Failure::Unanswered;
        match step {
            Some(Step::Apply(..)) => {
                self.in_doubt |= is_unsure;
                self.unkept = *failure == Failure::Unrecorded;
            }
            // If it is not there, it is over: it may have come and gone.
            Some(Step::Make(..)) if is_unsure => self.confirm(out),
            Some(Step::Make(..)) => {
                self.missed = false;
                self.record.take_back(out);
            }
            Some(Step::Update(..) | Step::Delete(_) | Step::Release)
            | Some(Step::Made | Step::Over(_))
            | None => {}
        }
        step
    }

    /// Asks whether it is there.
    fn confirm(&mut self, out: &mut Output<Effect>) {
        self.missed = false;
        let uid = self.made_as().cloned();
        out.push(Effect::Confirm(Item::Pod(self.id().clone()), uid));
    }

    /// There is no room for it as long as others do not leave. Until when it waits for that, in
    /// ms of the monotonic clock.
    pub(super) fn on_full(&mut self, now: Now) -> u64 {
        *self.roomless_at_ms.get_or_insert(now.mono_ms) + limits::ROOMLESS_MS
    }

    /// There will be no room for it: it is over if it was never made; whether it is.
    pub(super) fn on_out_of_room(&mut self, outcome: Outcome, out: &mut Output<Effect>) -> bool {
        let unmade = self.record.life().is_none();
        if unmade {
            self.record.over(outcome, out);
        }
        unmade
    }

    /// The step is taken: a record, or a write, to the object that was spoken of as `id`.
    pub(super) fn begin(&mut self, step: Step, id: &PodId, out: &mut Output<Effect>) {
        debug_assert!(
            !(self.record.is_over() && matches!(step, Step::Apply(..) | Step::Make(..))),
            "the end of {} is on record: it is never made again",
            self.id().uid
        );
        match step {
            Step::Made => return self.made(None, out),
            Step::Over(outcome) => return self.record.over(outcome, out),
            Step::Delete(grace_s) => self.deleted = Some(grace_s),
            Step::Apply(..) => self.absent = false,
            Step::Make(..) => (self.absent, self.unkept) = (false, false),
            Step::Update(..) | Step::Release => {}
        }
        // One that is made keeps the address that it was made with.
        let called = match &self.seen {
            Some((_, seen)) => seen.called,
            None => self.called.address(),
        };
        out.extend(self.desired.begin(step, &Item::Pod(id.clone()), called));
    }

    /// It exists, under this uid or that which was seen.
    fn made(&mut self, uid: Option<GuestUid>, out: &mut Output<Effect>) {
        let uid = uid.or_else(|| self.seen.as_ref().map(|(_, seen)| seen.uid.clone()));
        self.record.made(uid, out);
    }

    /// Keeps the gateway in step with where packets for it come from and go to, while it runs.
    fn map(&mut self) -> Option<Effect> {
        let seen = self.seen.as_ref().map(|(_, seen)| seen);
        let runs = |seen: &&ObservedPod| seen.terminal.is_none() && !seen.ended;
        let guest =
            seen.filter(runs).filter(|_| !self.record.is_over()).and_then(|seen| seen.address);
        let address = guest.and_then(|guest| self.called.address_of_family(guest));
        let both = guest.zip(address);
        let both =
            both.map(|(guest, address)| GuestAddress { pod: self.id().clone(), address, guest });
        self.called.map(self.record.id(), both)
    }
}

/// Its resize waits for others to leave.
pub(super) fn is_deferred(pod: &GuestPod) -> bool {
    pod.desired.is_deferred()
}

/// The end of one that was made, and is not as it must be: it may have begun, and is never made
/// again.
fn refused(Refusal { path, reason }: &Refusal) -> Outcome {
    failed("OffloadRefused", &format!("{path}: {reason}")).clipped()
}

/// Why one is ended that ran on a node of the provider's that is left out by now.
const LEFT_OUT: &str = "the provider leaves out the node that it ran on (label mercato.dev/gateway=off): \
                        nothing reaches it there any more";

fn failed(reason: &str, message: &str) -> Outcome {
    Outcome::Failed { reason: reason.to_owned(), message: message.to_owned() }
}
