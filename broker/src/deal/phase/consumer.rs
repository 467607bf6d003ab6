//! The consumer's side of a deal: what each message and each deadline makes of it.
//!
//! Once it has signed it is in doubt until the provider's word, and never assumes
//! failure. Choosing an offer is the book's.

use mercato_protocol::codec::CodecError;
use mercato_protocol::contract::Contract;
use mercato_protocol::envelope::{Signed, Verified};
use mercato_protocol::negotiation::{Body, Message, State, TerminateReason};

use super::{Over, Phase};
use crate::deal::agreement::Agreement;
use crate::deal::conversation::{Kind, shortened};
use crate::deal::exchange::Exchange;
use crate::deal::negotiation::{Negotiation, total};
use crate::deal::settlement::Received;
use crate::limits;

impl Phase {
    /// The consumer asks: it orders, or wants a firm offer.
    pub(crate) fn ask(&mut self, exchange: &mut Exchange<'_, '_>) -> Result<(), CodecError> {
        let order = exchange.order();
        let request = order.request.clone();
        let body = match order.rfq {
            Some(_) => Body::Rfq(request),
            None => Body::Request(request),
        };
        exchange.ask(Kind::Request, body)
    }

    /// The consumer receives a word of the provider's that is taken now.
    pub(super) fn on_provider(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        message: &Verified<Message>,
    ) -> Result<(), CodecError> {
        match &message.body {
            Body::Review { until_ms } => self.on_review(exchange, *until_ms),
            Body::Agreement { contract } | Body::Offer { contract } => {
                self.on_signed(exchange, message, contract)
            }
            Body::Finalized => self.on_finalized(exchange),
            Body::Terminate { reason, text } => self.on_terminate(exchange, *reason, text),
            Body::StatusQuery => exchange.send(self.outcome()),
            Body::Status { state } => self.on_status(exchange, *state),
            Body::UsageReport { receipt } => match self.lease_mut() {
                Some(lease) => lease.on_report(exchange, message, receipt),
                None => Ok(()),
            },
            Body::ReclaimNotice { notice, text } => {
                if let Self::Leased(lease) = self {
                    lease.settlement.on_notice(exchange.now_ms(), *notice, text);
                }
                exchange.send(self.outcome())
            }
            Body::Invoice { invoice } => {
                let Self::Over(Over::Closed(over)) = self else { return Ok(()) };
                let received = Received { invoice, message: message.digest() };
                over.lease.on_invoice(exchange, over.ending, &received)
            }
            Body::Amendment { number, answer } => match self.lease_mut() {
                Some(lease) => lease.on_answer(exchange, *number, answer),
                None => Ok(()),
            },
            Body::Close { reason, text } => {
                self.on_finalized(exchange)?;
                self.on_close(exchange, *reason, text)
            }
            Body::Request(_)
            | Body::Rfq(_)
            | Body::Verification { .. }
            | Body::Ready
            | Body::Amend { .. }
            | Body::InvoiceReceipt { .. }
            | Body::Dispute { .. }
            | Body::Take
            | Body::UsageReceipt { .. } => Ok(()),
        }
    }

    fn on_review(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        until_ms: u64,
    ) -> Result<(), CodecError> {
        match self {
            Self::Negotiating(negotiation @ Negotiation::Requested { .. }) => {
                let latest_ms = exchange.now_ms() + limits::REVIEW_MS;
                *negotiation = Negotiation::Review { until_ms: latest_ms.min(until_ms) };
                exchange.answered(Kind::Request);
                Ok(())
            }
            Self::Over(Over::Terminated(_)) => exchange.ask(Kind::Terminate, self.outcome()),
            Self::Negotiating(_) | Self::Leased(_) | Self::Over(Over::Closed(_)) => Ok(()),
        }
    }

    /// The provider has signed: what was ordered, which binds, or an offer, which is this
    /// buyer's to take.
    fn on_signed(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        message: &Verified<Message>,
        signed: &Signed<Contract>,
    ) -> Result<(), CodecError> {
        let offered = matches!(message.body, Body::Offer { .. });
        let negotiation = match self {
            Self::Negotiating(negotiation) => match negotiation {
                Negotiation::Requested { .. } | Negotiation::Review { .. } => negotiation,
                Negotiation::Offered { .. } if exchange.awaits(Kind::Take) && !offered => {
                    negotiation
                }
                Negotiation::Offered { .. } | Negotiation::Agreed { .. } => return Ok(()),
            },
            Self::Over(Over::Terminated(_)) => {
                return exchange.reply(message.digest(), self.outcome());
            }
            Self::Leased(_) | Self::Over(Over::Closed(_)) => return Ok(()),
        };
        let opened = exchange.open(signed).ok();
        let Some(contract) =
            opened.filter(|contract| negotiation.can_sign(exchange, contract, offered))
        else {
            let text = "the contract is not what was ordered";
            return self.terminate(exchange, TerminateReason::NotAsOffered, text);
        };
        let agreement = Agreement {
            provider: contract.signed().clone(),
            consumer: None,
            contract: Contract::clone(&contract),
        };
        *negotiation = Negotiation::Offered { agreement };
        exchange.answered(Kind::Request);
        if !offered {
            return self.countersign(exchange, &contract);
        }
        let order = exchange.order();
        let whole = contract.terms.quantity == order.request.terms.quantity;
        match total(&contract) {
            Ok(total) if whole && order.allows(total) => self.take(exchange),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Takes a firm offer: by the signature under it, or, since its term would have begun a
    /// while ago, by asking for another.
    pub(crate) fn take(&mut self, exchange: &mut Exchange<'_, '_>) -> Result<(), CodecError> {
        let Self::Negotiating(Negotiation::Offered { agreement }) = self else { return Ok(()) };
        let Ok(contract) = exchange.open(&agreement.provider) else { return Ok(()) };
        if exchange.now_ms() <= contract.not_before_ms.saturating_add(limits::COMMIT_MS) {
            return self.countersign(exchange, &contract);
        }
        match exchange.awaits(Kind::Take) {
            true => Ok(()),
            false => exchange.ask(Kind::Take, Body::Take),
        }
    }

    /// Signs what the provider has signed. From here on it is in doubt.
    fn countersign(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        contract: &Verified<Contract>,
    ) -> Result<(), CodecError> {
        let consumer = exchange.countersign(contract);
        let agreement = Agreement {
            provider: contract.signed().clone(),
            consumer: Some(consumer.clone()),
            contract: Contract::clone(contract),
        };
        *self = Self::Negotiating(Negotiation::Agreed { agreement, unwanted: None });
        exchange.answered(Kind::Take);
        exchange.ask(Kind::Verification, Body::Verification { contract: consumer })
    }

    /// What was ordered is wanted no longer: it is withdrawn, cancelled, or, while in doubt,
    /// cancelled once the provider's word is there.
    pub(crate) fn give_up(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        text: &str,
    ) -> Result<(), CodecError> {
        match self {
            Self::Negotiating(Negotiation::Agreed { unwanted, .. }) => {
                *unwanted = Some(shortened(text));
                Ok(())
            }
            Self::Negotiating(_) => self.terminate(exchange, TerminateReason::Withdrawn, text),
            Self::Leased(_) | Self::Over(_) => self.close(exchange, text),
        }
    }

    /// The provider has stored this buyer's signature.
    fn on_finalized(&mut self, exchange: &mut Exchange<'_, '_>) -> Result<(), CodecError> {
        let Self::Negotiating(Negotiation::Agreed { agreement, unwanted }) = self else {
            return Ok(());
        };
        let (agreement, unwanted) = (agreement.clone(), unwanted.take());
        self.begin_lease(exchange, agreement);
        exchange.wait_only_for(|_| false);
        match unwanted {
            Some(text) => self.close(exchange, &text),
            None => Ok(()),
        }
    }

    fn on_status(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        state: State,
    ) -> Result<(), CodecError> {
        exchange.answered(Kind::Terminate);
        match state {
            State::Unknown | State::Terminated => {
                exchange.answered(Kind::Close);
                if self.is_signed_once() {
                    self.end_negotiation(exchange, TerminateReason::Expired, "");
                }
                Ok(())
            }
            State::Requested | State::Review | State::Offered | State::Agreed => Ok(()),
            State::Pending => self.on_finalized(exchange),
            State::Active | State::Suspended | State::Reclaiming => {
                exchange.answered(Kind::Ready);
                self.on_finalized(exchange)
            }
            State::Closed => {
                exchange.answered(Kind::Ready);
                exchange.answered(Kind::Close);
                self.on_finalized(exchange)
            }
        }
    }

    /// What was bought can be used: from the provider's hearing it, it is billed.
    pub(crate) fn on_usable(&mut self, exchange: &mut Exchange<'_, '_>) -> Result<(), CodecError> {
        let Self::Leased(lease) = self else { return Ok(()) };
        match lease.meter.start(exchange.now_ms()) {
            true => exchange.ask(Kind::Ready, Body::Ready),
            false => Ok(()),
        }
    }
}
