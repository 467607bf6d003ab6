//! What is over: a negotiation that came to nothing, or a lease that has ended. How long it is kept
//! is in [`Remains`](crate::deal::Remains).

use mercato_protocol::negotiation::{CloseReason, TerminateReason};

use crate::deal::agreement::Agreement;
use crate::deal::conversation::shortened;
use crate::deal::ending::{Closing, EndCause, Ending};
use crate::deal::exchange::Exchange;
use crate::deal::facts::facts;
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
    /// What the lease comes to.
    pub(in crate::deal) ending: Ending,
    /// Why, in the word of whoever closed it: for people.
    pub(in crate::deal) said: CloseReason,
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
    /// What the lease came to, by this side's records; none: there was none.
    pub ending: Option<&'a Ending>,
    /// The word of whoever closed the lease, where it says something else.
    pub said: Option<CloseReason>,
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
    /// The lease has ended, for this reason by this side's records.
    Closed(EndCause),
}

impl Closed {
    /// A lease that ends now: by this side, or by the other one, which says why.
    pub(super) fn end(
        lease: &mut Lease,
        exchange: &mut Exchange<'_, '_>,
        said: Option<CloseReason>,
        text: &str,
    ) -> Self {
        let by = if said.is_some() { exchange.side().other() } else { exchange.side() };
        let closing = Closing { by, at_ms: exchange.now_ms(), said };
        let ending = (exchange.rules().ending)(closing, &facts(lease, exchange));
        lease.end(exchange);
        let said = said.unwrap_or(ending.cause.word());
        let (lease, text, at_ms) = (lease.clone(), shortened(text), exchange.now_ms());
        Self { ending, said, text, at_ms, lease, cleaned_up: false, archived: false }
    }

    pub(super) fn without_grown(&self) -> Self {
        let Self { ending, said, at_ms, cleaned_up, archived, .. } = *self;
        let (text, lease) = (self.text.clone(), self.lease.without_grown());
        Self { ending, said, text, at_ms, lease, cleaned_up, archived }
    }
}

impl Over {
    /// How it ended, for people.
    pub(crate) fn end(&self) -> End<'_> {
        match self {
            Self::Terminated(Terminated { reason, text, at_ms, .. }) => End {
                reason: EndReason::Terminated(*reason),
                ending: None,
                said: None,
                text,
                at_ms: *at_ms,
            },
            Self::Closed(Closed { ending, said, text, at_ms, .. }) => {
                let reason = EndReason::Closed(ending.cause);
                let said = Some(*said).filter(|said| *said != ending.cause.word());
                End { reason, ending: Some(ending), said, text, at_ms: *at_ms }
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
