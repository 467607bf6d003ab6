//! The provider's side of a deal: what each message and each deadline makes of it.
//!
//! The commit point is the durable write of the buyer's signature, before `commit_by` by
//! this clock alone. Whether to sell at all is decided where the request comes in.

use mercato_protocol::codec::CodecError;
use mercato_protocol::contract::{Contract, Terms};
use mercato_protocol::envelope::{Signed, Verified};
use mercato_protocol::negotiation::{Body, Message, State, TerminateReason};

use super::{Closed, Over, Phase};
use crate::deal::conversation::Kind;
use crate::deal::exchange::Exchange;
use crate::deal::negotiation::Negotiation;
use crate::limits;

impl Phase {
    /// Signs the contract as it was asked for, and holds the capacity, which the ledger has
    /// to spare; where a firm offer was asked for, for `hold_ms`.
    pub(crate) fn agree(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        hold_ms: u64,
    ) -> Result<(), CodecError> {
        let order = exchange.order();
        let terms = order.request.terms.clone();
        match order.rfq {
            Some(_) => self.offer(exchange, terms, hold_ms),
            None => {
                *self =
                    Self::Negotiating(Negotiation::promise(exchange, terms, limits::COMMIT_MS)?);
                Ok(())
            }
        }
    }

    /// Signs the contract on terms that the buyer is yet to take, and holds the capacity,
    /// which the ledger has to spare, for `hold_ms`.
    pub(crate) fn offer(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        terms: Terms,
        hold_ms: u64,
    ) -> Result<(), CodecError> {
        let agreement = Negotiation::sign(exchange, terms, hold_ms)?;
        let contract = agreement.provider.clone();
        *self = Self::Negotiating(Negotiation::Offered { agreement });
        exchange.ask(Kind::Agreement, Body::Offer { contract })
    }

    /// The buyer takes an offer that was made a while ago: its terms are signed afresh, so that
    /// the term begins now. The signature before counts no longer. The capacity is held no longer
    /// than it was to be.
    fn on_take(&mut self, exchange: &mut Exchange<'_, '_>) -> Result<(), CodecError> {
        match self {
            Self::Negotiating(Negotiation::Offered { agreement }) => {
                let terms = agreement.contract.terms.clone();
                let left_ms = agreement.contract.commit_by_ms.saturating_sub(exchange.now_ms());
                *self = Self::Negotiating(Negotiation::promise(exchange, terms, left_ms)?);
                Ok(())
            }
            // The agreement is said until it is answered.
            Self::Negotiating(_) | Self::Leased(_) | Self::Over(_) => Ok(()),
        }
    }

    /// The provider receives a word of the consumer's that is taken now.
    pub(super) fn on_consumer(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        message: &Verified<Message>,
    ) -> Result<(), CodecError> {
        match &message.body {
            Body::Verification { contract } => self.on_verification(exchange, message, contract),
            Body::Terminate { reason, text } => self.on_terminate(exchange, *reason, text),
            Body::StatusQuery => exchange.send(self.outcome()),
            Body::Status { state } => {
                if matches!(state, State::Closed | State::Unknown) {
                    exchange.answered(Kind::Close);
                }
                if matches!(state, State::Reclaiming | State::Closed | State::Unknown) {
                    exchange.answered(Kind::Reclaim);
                    if let Self::Leased(lease) = self {
                        lease.on_reached(exchange.now_ms());
                    }
                }
                exchange.answered(Kind::Terminate);
                Ok(())
            }
            Body::Ready => {
                if let Self::Leased(lease) = self {
                    lease.meter.start(exchange.now_ms());
                }
                exchange.send(self.outcome())
            }
            Body::Close { reason, text } => self.on_close(exchange, *reason, text),
            Body::Take => self.on_take(exchange),
            Body::UsageReceipt { .. }
            | Body::InvoiceReceipt { .. }
            | Body::Dispute { .. }
            | Body::Amendment { .. } => match self.lease_mut() {
                Some(lease) => lease.on_consumer(exchange, message),
                None => Ok(()),
            },
            // A request opens a deal, and a change was judged where there is a ledger.
            Body::Request(_)
            | Body::Rfq(_)
            | Body::Amend { .. }
            | Body::ReclaimNotice { .. }
            | Body::Invoice { .. }
            | Body::Review { .. }
            | Body::Agreement { .. }
            | Body::Offer { .. }
            | Body::Finalized
            | Body::UsageReport { .. } => Ok(()),
        }
    }

    /// The same number came with other content: nothing comes of an open negotiation; a
    /// contract stands.
    pub(crate) fn on_conflict(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
    ) -> Result<(), CodecError> {
        if !self.is_open() {
            return Ok(());
        }
        let text = "a message came twice, with two contents";
        self.terminate(exchange, TerminateReason::Conflict, text)
    }

    fn on_verification(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        message: &Verified<Message>,
        signed: &Signed<Contract>,
    ) -> Result<(), CodecError> {
        let reply = match self {
            Self::Negotiating(
                Negotiation::Offered { agreement } | Negotiation::Agreed { agreement, .. },
            ) => {
                let theirs = exchange.open(signed).ok();
                match theirs.filter(|theirs| **theirs == agreement.contract) {
                    Some(theirs) => {
                        agreement.consumer = Some(theirs.signed().clone());
                        let agreement = agreement.clone();
                        self.begin_lease(exchange, agreement);
                        exchange.answered(Kind::Agreement);
                        Body::Finalized
                    }
                    None => {
                        let text = "not this contract, or not signed by the buyer";
                        self.end_negotiation(exchange, TerminateReason::Malformed, text);
                        self.outcome()
                    }
                }
            }
            Self::Leased(lease) => lease.on_signed(exchange, signed, true),
            Self::Over(Over::Closed(Closed { lease, .. })) => {
                lease.on_signed(exchange, signed, false)
            }
            Self::Negotiating(_) | Self::Over(Over::Terminated(_)) => self.outcome(),
        };
        exchange.reply(message.digest(), reply)
    }
}
