//! What is kept of a deal that is over, and for how long. Who gives way where there is too much of
//! it is the broker's.

use super::order::Side;
use super::phase::{Closed, Over};
use crate::limits;

/// What a deal that is over is kept as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remnant {
    /// It came to nothing: the negotiation, or a lease that was sold and never ready. Nobody owes
    /// anything for it, and a buyer can make any number of them.
    Ended,
    /// A lease, whole, for what the other side may say of it yet. One that was bought and never
    /// ready is such a one, too: it tells what to think of its provider.
    Closed,
    /// The same for its statement alone.
    Archived,
}

/// A deal that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remains<'a> {
    pub(super) over: &'a Over,
    pub(super) side: Side,
    /// Something is said until the other side answers.
    pub(super) waits: bool,
}

impl Remains<'_> {
    /// What it is kept as; none: something of it is left in this cluster.
    pub(crate) fn kept_as(self) -> Option<Remnant> {
        let Over::Closed(closed) = self.over else { return Some(Remnant::Ended) };
        let was_ready = closed.lease.meter.started_ms().is_some();
        match closed {
            Closed { cleaned_up: false, .. } => None,
            Closed { archived: true, .. } => Some(Remnant::Archived),
            Closed { .. } if self.side == Side::Provider && !was_ready => Some(Remnant::Ended),
            Closed { .. } => Some(Remnant::Closed),
        }
    }

    /// Whether it is a lease that is kept until the other side answers.
    pub(crate) fn is_unanswered(self) -> bool {
        self.waits && self.kept_as() == Some(Remnant::Closed)
    }

    /// When it is to be archived, wall clock.
    pub(crate) fn archive_ms(self) -> Option<u64> {
        match self.kept_as()? {
            Remnant::Closed => Some(self.over.end().at_ms.saturating_add(limits::ENDED_KEPT_MS)),
            Remnant::Ended | Remnant::Archived => None,
        }
    }

    /// When it can be forgotten, wall clock.
    pub(crate) fn forget_ms(self) -> Option<u64> {
        let kept_ms = match self.kept_as()? {
            Remnant::Ended => limits::ENDED_KEPT_MS,
            Remnant::Archived => limits::CLOSED_KEPT_MS,
            Remnant::Closed => return None,
        };
        Some(self.over.end().at_ms.saturating_add(kept_ms))
    }
}
