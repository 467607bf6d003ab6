//! What one guest pod calls for: the next step, and what home is told of it.

use mercato_protocol::id::Digest;

use super::called::Called;
use super::{Life, ObservedPod};
use crate::address::GuestAddress;
use crate::key::PodId;
use crate::message::{Outcome, Refusal, Report, Route, Stage};

/// A pod as this side knows it.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) id: PodId,
    /// The content that home wants, and how it came, as far as it was said on this link.
    pub(super) wanted: Option<(Digest, Route)>,
    /// Home wants it ended, with this grace.
    pub(super) grace_s: Option<u32>,
    /// Home has written down how it ended.
    pub(super) taken: bool,
    /// Home has removed it and will not speak of it again.
    pub(super) forgotten: bool,
    /// What is on record.
    pub(super) life: Option<Life>,
    /// The digest that was applied, and how it is.
    pub(super) seen: Option<(Digest, ObservedPod)>,
    /// The API server said that it is not there, since we last tried to make it.
    pub(super) absent: bool,
    /// An attempt to make it may have worked without our knowing.
    pub(super) in_doubt: bool,
    /// It was seen with a terminal phase before anyone deleted it.
    pub(super) settled: bool,
    /// We end it, for this reason.
    pub(super) evicted: Option<Outcome>,
    /// Since when it has been over but for our finalizer, in ms of the monotonic clock.
    pub(super) ended_at_ms: Option<u64>,
    /// Since when there has been no room for it, likewise.
    pub(super) roomless_at_ms: Option<u64>,
    /// The grace of the deletion that was asked for.
    pub(super) deleted: Option<Option<u32>>,
    pub(super) doing: Option<Step>,
    pub(super) refusal: Option<Refusal>,
    pub(super) missing: bool,
    pub(super) told: Option<Report>,
    pub(super) told_refusal: Option<Refusal>,
    pub(super) called: Called,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Apply(Digest, Route),
    /// As `Apply`, but never make it.
    Update(Digest, Route),
    Delete(Option<u32>),
    Release,
    /// Put on record that it exists.
    Made,
    /// Put on record that it is over.
    Over(Outcome),
}

/// What a step depends on, besides the pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings {
    /// The lease is over.
    pub(super) closing: bool,
    /// No other life has the name.
    pub(super) name_is_free: bool,
    /// Home has had its time to take the last status.
    pub(super) farewell_over: bool,
}

impl Pod {
    pub(super) fn new(id: PodId) -> Self {
        Self {
            id,
            wanted: None,
            grace_s: None,
            taken: false,
            forgotten: false,
            life: None,
            seen: None,
            absent: false,
            in_doubt: false,
            settled: false,
            evicted: None,
            ended_at_ms: None,
            roomless_at_ms: None,
            deleted: None,
            doing: None,
            refusal: None,
            missing: false,
            told: None,
            told_refusal: None,
            called: Called::default(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.life, Some(Life::Over(_)))
    }

    /// Something of it is, or may be, at the API server under its name.
    pub(super) fn holds_name(&self) -> bool {
        self.seen.is_some() || self.doing.is_some() || self.life == Some(Life::Made)
    }

    /// Something of it is, or may be, in its guest namespace.
    pub(super) fn holds_place(&self) -> bool {
        self.holds_name() || self.in_doubt && !self.is_over()
    }

    pub(super) fn step(&self, around: Surroundings) -> Option<Step> {
        if self.doing.is_some() {
            return None;
        }
        match (&self.life, &self.seen) {
            (None, Some(_)) => Some(Step::Made),
            (None, None) => self.step_unmade(around),
            (Some(Life::Made), None) | (Some(Life::Over(_)), None) => None,
            (Some(Life::Made), Some((digest, seen))) => self.step_made(*digest, seen, around),
            (Some(Life::Over(_)), Some((_, seen))) if seen.ended => Some(Step::Release),
            // It is on its way out, perhaps without our finalizer already.
            (Some(Life::Over(_)), Some((_, seen))) if seen.deleting => None,
            // It was given up before it turned out that an attempt to make it had worked.
            (Some(Life::Over(_)), Some(_)) => self.delete(Some(0)),
        }
    }

    fn step_unmade(&self, around: Surroundings) -> Option<Step> {
        if self.grace_s.is_none() && !around.closing {
            let wanted = self.wanted.clone().filter(|_| around.name_is_free);
            return wanted.map(|(digest, route)| Step::Apply(digest, route));
        }
        if self.absent {
            return Some(Step::Over(self.outcome(around.closing)));
        }
        // An attempt to make it may have worked without our knowing.
        self.delete(Some(0))
    }

    fn step_made(&self, digest: Digest, seen: &ObservedPod, around: Surroundings) -> Option<Step> {
        if seen.ended {
            let free = self.taken || around.farewell_over;
            return free.then(|| Step::Over(self.outcome(around.closing)));
        }
        if self.grace_s.is_some() {
            return self.delete(self.grace_s);
        }
        if self.evicted.is_some() {
            return self.delete(Some(0));
        }
        if around.closing && !seen.deleting {
            return self.delete(None);
        }
        let mutable = seen.terminal.is_none() && !seen.deleting;
        let wanted = self.wanted.clone().filter(|(wanted, _)| mutable && *wanted != digest);
        wanted.map(|(digest, route)| Step::Update(digest, route))
    }

    fn delete(&self, grace_s: Option<u32>) -> Option<Step> {
        let asked = match (self.deleted, grace_s) {
            (None, _) => false,
            (Some(Some(before)), Some(now)) => before <= now,
            (Some(None), Some(_)) => false,
            (Some(_), None) => true,
        };
        (!asked).then_some(Step::Delete(grace_s))
    }

    /// How it ended, as home should show it.
    fn outcome(&self, closing: bool) -> Outcome {
        if let Some(evicted) = &self.evicted {
            return evicted.clone();
        }
        let seen = self.seen.as_ref().map(|(_, seen)| seen);
        let terminal = seen.and_then(|seen| seen.terminal.clone());
        let by_provider = seen.is_some_and(|seen| seen.deleting) && self.grace_s.is_none();
        match terminal {
            Some(terminal) if self.settled || !by_provider => terminal,
            _ if self.grace_s.is_some() => failed("Deleted", "deleted before it had ended"),
            _ if closing => failed("Evicted", "the lease is over"),
            _ => failed("Evicted", "the provider has removed the pod"),
        }
    }

    /// What home should know; none while there is nothing to say.
    pub(super) fn report(&self) -> Option<Report> {
        match (&self.life, &self.seen) {
            (Some(Life::Over(outcome)), None) => {
                Some(Report { status: None, stage: Stage::Gone(outcome.clone()) })
            }
            (Some(Life::Over(outcome)), Some((_, seen))) => {
                let stage = Stage::Ended(outcome.clone());
                Some(Report { status: Some(seen.status), stage })
            }
            (_, Some((_, seen))) => {
                let ended = seen.terminal.is_some() || seen.ended;
                let stage = if ended { Stage::Ended(self.outcome(false)) } else { Stage::Live };
                Some(Report { status: Some(seen.status), stage })
            }
            (_, None) => None,
        }
    }

    /// Where packets for it come from and go to, while it runs.
    pub(super) fn both_addresses(&self) -> Option<GuestAddress> {
        let (_, seen) = self.seen.as_ref()?;
        let runs = seen.terminal.is_none() && !seen.ended;
        let guest = seen.address.filter(|_| runs && !self.is_over())?;
        let address = self.called.address.filter(|it| it.is_ipv4() == guest.is_ipv4())?;
        Some(GuestAddress { pod: self.id.clone(), address, guest })
    }

    /// It is not there, and was: it has been over since some time unknown.
    pub(super) fn vanished(&self) -> Outcome {
        self.outcome(false)
    }
}

/// The end of one that was made, and is not as it must be: it may have begun, and is never made again.
pub(super) fn refused(Refusal { path, reason }: &Refusal) -> Outcome {
    failed("OffloadRefused", &format!("{path}: {reason}")).clipped()
}

fn failed(reason: &str, message: &str) -> Outcome {
    Outcome::Failed { reason: reason.to_owned(), message: message.to_owned() }
}
