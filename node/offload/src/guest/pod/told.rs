//! What home is told of one guest, and when there is nothing to tell.

use super::super::Life;
use super::GuestPod;
use crate::key::Item;
use crate::message::{Report, Stage, ToHome};

impl GuestPod {
    /// What home is told of it as a link begins; it counts as told from then on. One whose marks somebody
    /// has changed has no content, so that home says it again.
    pub(in crate::guest) fn listed(&mut self) -> ToHome {
        self.told = self.report();
        let marked = self.seen.as_ref().filter(|(_, seen)| seen.marked);
        let digest = marked.map(|(digest, _)| *digest);
        ToHome::Have { item: Item::Pod(self.id().clone()), digest, report: self.told.clone() }
    }

    /// The next thing to tell home of it, likewise.
    pub(in crate::guest) fn statement(&mut self) -> Option<ToHome> {
        let item = Item::Pod(self.id().clone());
        let first = self.desired.missing_statement(&item);
        if let Some(first) = first.or_else(|| self.desired.refusal_statement(&item)) {
            return Some(first);
        }
        if self.called.is_under_way() {
            return None;
        }
        if let Some(in_force) = self.called.statement(self.record.id()) {
            return Some(in_force);
        }
        if self.told.is_some() && self.is_unread() {
            return None;
        }
        let report = self.report().filter(|report| self.told.as_ref() != Some(report))?;
        self.told = Some(report.clone());
        Some(ToHome::Status { pod: self.id().clone(), report })
    }

    /// Home waits for it to be gone, and counts nothing of how it ends.
    fn is_unread(&self) -> bool {
        let seen = self.seen.as_ref().map(|(_, seen)| seen);
        self.is_to_go() && seen.is_some_and(|seen| seen.deleting && !seen.kept)
    }

    /// What home should know; none while there is nothing to say.
    fn report(&self) -> Option<Report> {
        match (self.record.life(), &self.seen) {
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
}
