//! What is over: a negotiation that came to nothing, or a lease that has ended. How long it is kept
//! is in [`Remains`](crate::deal::Remains).

use mercato_protocol::negotiation::{CloseReason, TerminateReason};

use crate::deal::agreement::Agreement;
use crate::deal::lease::Lease;
use crate::limits;

/// A deal of which nothing more comes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "one for each deal")]
pub(crate) enum Over {
    /// The negotiation came to nothing.
    Terminated(Terminated),
    /// The lease has ended, for whatever reason.
    Closed(Closed),
}

/// A negotiation that came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terminated {
    pub(in crate::deal) reason: TerminateReason,
    pub(in crate::deal) text: String,
    pub(in crate::deal) at_ms: u64,
    /// What the provider had signed.
    pub(in crate::deal) offered: Option<Agreement>,
}

/// A lease that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(in crate::deal) reason: CloseReason,
    pub(in crate::deal) text: String,
    pub(in crate::deal) at_ms: u64,
    pub(in crate::deal) lease: Lease,
    /// Nothing of it is left in this cluster.
    pub(in crate::deal) cleaned_up: bool,
    /// Over for good: kept for its statement alone.
    pub(in crate::deal) archived: bool,
}

/// Why and when a deal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End<'a> {
    /// Why the deal came to its end.
    pub reason: EndReason,
    /// The reason in words for a person; may be empty.
    pub text: &'a str,
    /// When it ended, wall clock, milliseconds.
    pub at_ms: u64,
}

/// Why a deal is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The negotiation came to nothing.
    Terminated(TerminateReason),
    /// The lease has ended, for this reason.
    Closed(CloseReason),
}

impl Closed {
    pub(super) fn new(lease: Lease, reason: CloseReason, text: String, at_ms: u64) -> Self {
        Self { reason, text, at_ms, lease, cleaned_up: false, archived: false }
    }

    pub(super) fn without_grown(&self) -> Self {
        let Self { reason, at_ms, cleaned_up, archived, .. } = *self;
        let (text, lease) = (self.text.clone(), self.lease.without_grown());
        Self { reason, text, at_ms, lease, cleaned_up, archived }
    }
}

impl Over {
    /// How it ended, for people.
    pub(crate) fn end(&self) -> End<'_> {
        match self {
            Self::Terminated(Terminated { reason, text, at_ms, .. }) => {
                End { reason: EndReason::Terminated(*reason), text, at_ms: *at_ms }
            }
            Self::Closed(Closed { reason, text, at_ms, .. }) => {
                End { reason: EndReason::Closed(*reason), text, at_ms: *at_ms }
            }
        }
    }

    fn closed(&self) -> Option<&Closed> {
        match self {
            Self::Closed(closed) => Some(closed),
            Self::Terminated(_) => None,
        }
    }

    /// Whether nothing of it is left in this cluster.
    pub(crate) fn is_cleaned_up(&self) -> bool {
        self.closed().is_none_or(|closed| closed.cleaned_up)
    }

    /// When this side stops waiting for the other one to hear of it, wall clock; `unheard`: that
    /// one has never said anything.
    pub(crate) fn gives_up_ms(&self, unheard: bool) -> u64 {
        match self {
            Self::Closed(over) => over.at_ms.saturating_add(limits::ENDED_KEPT_MS),
            Self::Terminated(over) => {
                let unheard = unheard && over.reason != TerminateReason::Withdrawn;
                let for_ms = if unheard { limits::UNHEARD_MS } else { limits::REVIEW_MS };
                over.at_ms.saturating_add(for_ms)
            }
        }
    }
}
