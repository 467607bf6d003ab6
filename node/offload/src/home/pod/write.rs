//! The next write to one home pod: its status, a refusal, or the end of its deletion. One is under
//! way at a time.

use super::super::way::Way;
use super::super::{HomePod, Write};
use super::address::{lost, shown};
use super::{Pod, ends_uncounted, stand_in};
use crate::address::Reach;
use crate::message::{Report, Stage};

impl Pod {
    /// What was written does not count, nor what is under way, which may rest on the same.
    pub(in crate::home) fn make_status_again(&mut self) {
        (self.written, self.stale) = (None, self.writing.is_some());
    }

    /// The write that was under way succeeded: it, if one was.
    pub(in crate::home) fn on_written(&mut self) -> Option<Write> {
        let write = self.writing.take()?;
        let stale = std::mem::take(&mut self.stale);
        if let (Write::Status { outcome: Some(_), .. }, Some(seen)) = (&write, &mut self.seen) {
            seen.terminal = true;
        }
        self.written = Some(write.clone()).filter(|_| !stale);
        Some(write)
    }

    /// The write that was under way failed: it, if one was.
    pub(in crate::home) fn on_not_written(&mut self) -> Option<Write> {
        let write = self.writing.take()?;
        self.stale = false;
        Some(write)
    }

    /// The bytes of its status are not here: they are asked for.
    pub(in crate::home) fn on_missing_status(&mut self) {
        self.has_status = false;
        self.told.want = false;
    }

    /// Another status has come since `write` began, and those bytes are no longer kept.
    pub(in crate::home) fn is_replaced(&self, write: &Write, way: Way) -> bool {
        self.has_status && self.write(way).is_some_and(|next| next != *write)
    }

    /// The write is under way from now on.
    pub(in crate::home) fn begin(&mut self, write: Write) {
        debug_assert!(self.writing.is_none(), "one write of {} is under way", self.id.uid);
        let may_end = self.is_over() || stand_in(self).is_some() || write != Write::FinishDeletion;
        debug_assert!(may_end, "{} is removed once the provider says that it is over", self.id.uid);
        self.writing = Some(write);
    }

    /// The next thing to write at home, if it differs from the last.
    pub(in crate::home) fn write(&self, way: Way) -> Option<Write> {
        let seen = self.seen.as_ref().filter(|_| !self.gone && self.writing.is_none())?;
        let is_here = stand_in(self);
        let may_go = is_here.is_some() || self.is_over() && end_is_written(seen);
        let write = if seen.deletion_grace_s.is_some() && may_go {
            Write::FinishDeletion
        } else if let Some(refusal) = is_here {
            Some(Write::StandIn(refusal.clone())).filter(|_| !seen.terminal)?
        } else if let Some(report) = &self.report {
            // What runs, or ran, is told of, whatever would be said to it now.
            self.status_write(seen, report, way)?
        } else if is_lost(self, seen, way) && self.leaves() && self.refusal.is_none() {
            // It ran before this side started, perhaps.
            Write::Status { status: None, outcome: None, reach: lost(seen), resize: None }
        } else {
            Write::Refusal(seen.refusal.as_ref().or(self.refusal.as_ref())?.clone())
        };
        (self.written.as_ref() != Some(&write)).then_some(write)
    }

    fn status_write(&self, seen: &HomePod, report: &Report, way: Way) -> Option<Write> {
        let status = report.status.filter(|_| self.has_status);
        let (outcome, is_lost) = (report.stage.outcome().cloned(), is_lost(self, seen, way));
        let worth = match report.stage {
            Stage::Live => (status.is_some() || is_lost) && !seen.terminal,
            Stage::Ended(_) | Stage::Gone(_) if ends_uncounted(self) => false,
            Stage::Ended(_) => status.is_some(),
            Stage::Gone(_) => !seen.terminal,
        };
        worth.then(|| {
            let reach = self.reach(seen, report, way);
            let of_this = self.resize.as_ref().filter(|(digest, _)| *digest == seen.digest);
            let resize = of_this.map(|(_, refusal)| refusal.clone());
            Write::Status { status, outcome, reach, resize }
        })
    }

    fn reach(&self, seen: &HomePod, report: &Report, way: Way) -> Reach {
        match report.stage {
            Stage::Live if is_lost(self, seen, way) => lost(seen),
            Stage::Live => self.address.reach(way.tunnel, seen, self.is_to_be_called()),
            Stage::Ended(_) | Stage::Gone(_) => shown(seen),
        }
    }
}

/// Nothing is lost of how the pod ended if it is removed now.
fn end_is_written(seen: &HomePod) -> bool {
    seen.terminal || !seen.counted
}

/// Whether nobody knows any more how the pod is, or no packet reaches it.
fn is_lost(pod: &Pod, seen: &HomePod, way: Way) -> bool {
    way.is_lost_to(seen.patience_ms, pod.has_address())
}
