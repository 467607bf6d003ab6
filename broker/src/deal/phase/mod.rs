//! How far a deal is: a negotiation, a lease, or over. What each side's messages and deadlines
//! make of it is in `consumer` and `provider`; here is what both do alike.

mod consumer;
mod hearing;
mod over;
mod provider;

use mercato_protocol::codec::CodecError;
use mercato_protocol::negotiation::{Body, CloseReason, State, TerminateReason};
use mercato_protocol::resources::Resources;

use super::agreement::Agreement;
use super::conversation::{Kind, shortened};
use super::exchange::Exchange;
use super::lease::{Desired, Lease, Leaving};
use super::meter::MeterState;
use super::negotiation::Negotiation;
use super::order::Side;
use crate::limits;

pub(crate) use hearing::hear;
pub(crate) use over::Over;
pub(super) use over::{Closed, Terminated};
pub use over::{End, EndReason};

/// How far a deal is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "one for each deal")]
pub(crate) enum Phase {
    /// Not both have signed yet.
    Negotiating(Negotiation),
    /// Both have signed, and the lease has not ended.
    Leased(Lease),
    /// It came to nothing, or the lease has ended.
    Over(Over),
}

impl Phase {
    /// How far it is, as it is said to the other side.
    pub(crate) fn state(&self) -> State {
        match self {
            Self::Negotiating(negotiation) => negotiation.state(),
            Self::Leased(lease) => lease.state(),
            Self::Over(Over::Terminated(_)) => State::Terminated,
            Self::Over(Over::Closed(_)) => State::Closed,
        }
    }

    /// When it lapses if nothing comes of it, wall clock: a request, or what is being made
    /// ready.
    pub(crate) fn until_ms(&self) -> Option<u64> {
        match self {
            Self::Negotiating(negotiation) => negotiation.until_ms(),
            Self::Leased(lease) => match lease.meter.state() {
                MeterState::Pending { until_ms } => Some(until_ms),
                MeterState::Running { .. }
                | MeterState::Suspended { .. }
                | MeterState::Ended { .. } => None,
            },
            Self::Over(_) => None,
        }
    }

    /// The contract in force, or as it is to be, once the provider has signed it.
    pub(crate) fn agreement(&self) -> Option<&Agreement> {
        match self {
            Self::Negotiating(negotiation) => negotiation.agreement(),
            Self::Over(Over::Terminated(over)) => over.offered.as_ref(),
            Self::Leased(_) | Self::Over(Over::Closed(_)) => {
                self.lease().map(|lease| lease.agreements.current())
            }
        }
    }

    /// The lease, running or ended.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        match self {
            Self::Leased(lease) | Self::Over(Over::Closed(Closed { lease, .. })) => Some(lease),
            Self::Negotiating(_) | Self::Over(Over::Terminated(_)) => None,
        }
    }

    pub(crate) fn lease_mut(&mut self) -> Option<&mut Lease> {
        match self {
            Self::Leased(lease) | Self::Over(Over::Closed(Closed { lease, .. })) => Some(lease),
            Self::Negotiating(_) | Self::Over(Over::Terminated(_)) => None,
        }
    }

    /// Whether it is neither a contract yet nor over.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Negotiating(_))
    }

    /// Whether the provider has signed and waits for the buyer's signature.
    pub(crate) fn is_signed_once(&self) -> bool {
        matches!(self, Self::Negotiating(Negotiation::Offered { .. } | Negotiation::Agreed { .. }))
    }

    /// What is over, and how; none: something may come of it.
    pub(crate) fn over(&self) -> Option<&Over> {
        match self {
            Self::Over(over) => Some(over),
            Self::Negotiating(_) | Self::Leased(_) => None,
        }
    }

    pub(super) fn without_grown(&self) -> Self {
        match self {
            Self::Leased(lease) => Self::Leased(lease.without_grown()),
            Self::Over(Over::Closed(over)) => Self::Over(Over::Closed(over.without_grown())),
            Self::Negotiating(_) | Self::Over(Over::Terminated(_)) => self.clone(),
        }
    }

    /// How the lease is to be in this cluster, and when it ends; none: there never was one.
    pub(crate) fn wanted(&self) -> Option<(Desired, Leaving)> {
        let desired = match self {
            Self::Leased(lease) => Some(lease.desired()),
            Self::Over(Over::Closed(over)) => {
                Some(if over.cleaned_up { Desired::Gone } else { Desired::Drained })
            }
            Self::Negotiating(_) | Self::Over(Over::Terminated(_)) => None,
        };
        Some((desired?, self.lease()?.leaving()))
    }

    /// What of a provider's capacity is held for it or committed to it, until nothing of it is
    /// left in the cluster; none if nothing.
    pub(crate) fn promised(&self) -> Option<Resources> {
        match self {
            Self::Negotiating(negotiation) => {
                negotiation.agreement().map(|it| it.contract.terms.quantity.clone())
            }
            Self::Leased(lease) => Some(lease.claim()),
            Self::Over(Over::Closed(over)) => (!over.cleaned_up).then(|| over.lease.claim()),
            Self::Over(Over::Terminated(_)) => None,
        }
    }

    /// Its next deadline on this side, wall clock. `verifies`: the consumer's signature waits for
    /// an answer.
    pub(super) fn deadline_ms(&self, side: Side, verifies: bool) -> Option<u64> {
        match self {
            Self::Negotiating(negotiation) => negotiation.deadline_ms(side, verifies),
            Self::Leased(lease) => lease.deadline_ms(side),
            Self::Over(Over::Closed(Closed { lease, .. })) => {
                lease.ended_deadline_ms().filter(|_| side == Side::Provider)
            }
            Self::Over(Over::Terminated(_)) => None,
        }
    }

    /// Its next deadline, wall clock, has come.
    pub(super) fn on_deadline(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
    ) -> Result<(), CodecError> {
        match self {
            Self::Negotiating(negotiation) => match negotiation.lapse(exchange.side()) {
                Some(text) => self.terminate(exchange, TerminateReason::Expired, text),
                None => {
                    exchange.answered(Kind::Verification);
                    exchange.ask(Kind::Query, Body::StatusQuery)
                }
            },
            Self::Leased(lease) => match lease.on_deadline(exchange)? {
                Some(text) => self.close(exchange, &text),
                None => Ok(()),
            },
            Self::Over(Over::Closed(over)) if exchange.side() == Side::Provider => {
                over.lease.on_ended_deadline(exchange, over.ending)
            }
            Self::Over(_) => Ok(()),
        }
    }

    /// It comes to nothing. What it may have held is free again. The other side is told until it
    /// has heard, even if nothing was ever heard of it: its answer may have been lost.
    pub(crate) fn terminate(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        reason: TerminateReason,
        text: &str,
    ) -> Result<(), CodecError> {
        self.end_negotiation(exchange, reason, text);
        exchange.ask(Kind::Terminate, self.outcome())
    }

    /// The other side says that it comes to nothing.
    fn on_terminate(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        reason: TerminateReason,
        text: &str,
    ) -> Result<(), CodecError> {
        self.end_negotiation(exchange, reason, text);
        exchange.answered(Kind::Terminate);
        exchange.send(Body::Status { state: self.state() })
    }

    /// As [`terminate`](Self::terminate), without a word: the other side said so itself.
    pub(crate) fn end_negotiation(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        reason: TerminateReason,
        text: &str,
    ) {
        let Self::Negotiating(negotiation) = self else { return };
        let at_ms = exchange.now_ms();
        let (text, offered) = (shortened(text), negotiation.agreement().cloned());
        *self = Self::Over(Over::Terminated(Terminated { reason, text, at_ms, offered }));
        exchange.wait_only_for(|_| false);
    }

    /// What a late or repeated message is told: how it ended, or that it stands.
    pub(crate) fn outcome(&self) -> Body {
        match self {
            Self::Over(Over::Terminated(Terminated { reason, text, .. })) => {
                Body::Terminate { reason: *reason, text: text.clone() }
            }
            Self::Negotiating(_) | Self::Leased(_) | Self::Over(Over::Closed(_)) => {
                Body::Status { state: self.state() }
            }
        }
    }

    /// The lease ends now, and the other side is told.
    pub(crate) fn close(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        text: &str,
    ) -> Result<(), CodecError> {
        let Self::Leased(lease) = self else { return Ok(()) };
        let closed = Closed::end(lease, exchange, None, text);
        let (reason, text) = (closed.said, closed.text.clone());
        *self = Self::Over(Over::Closed(closed));
        exchange.ask(Kind::Close, Body::Close { reason, text })
    }

    /// The other side says that the lease has ended.
    fn on_close(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        said: CloseReason,
        text: &str,
    ) -> Result<(), CodecError> {
        if let Self::Leased(lease) = self {
            *self = Self::Over(Over::Closed(Closed::end(lease, exchange, Some(said), text)));
        }
        exchange.answered(Kind::Close);
        exchange.send(self.outcome())
    }

    /// Both have signed: the lease begins.
    fn begin_lease(&mut self, exchange: &Exchange<'_, '_>, agreement: Agreement) {
        *self = Self::Leased(Lease::new(agreement, exchange.now_ms() + limits::PROVISION_MS));
    }
}
