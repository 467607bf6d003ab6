//! The consumer's side of a deal: what each message and each deadline makes of it.
//!
//! Once it has signed it is in doubt until the provider's word, and never assumes
//! failure. Choosing an offer is the book's.

use mercato_protocol::codec::CodecError;
use mercato_protocol::contract::Contract;
use mercato_protocol::envelope::{Signed, Verified};
use mercato_protocol::id::PublicKey;
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::{Body, CloseReason, Message, State, TerminateReason};
use mercato_protocol::price::Money;

use crate::deal::conversation::{Kind, Turn};
use crate::deal::{Agreement, Deal, Stage};
use crate::limits;
use crate::sale::size;

impl Deal {
    /// The buyer hears the provider.
    pub(crate) fn on_seller(
        &mut self,
        turn: &mut Turn<'_>,
        message: &Verified<Message>,
    ) -> Result<(), CodecError> {
        match &message.body {
            Body::Review { until_ms } => self.on_review(turn, *until_ms),
            Body::Agreement { contract } => self.on_signed(turn, message, contract),
            Body::Offer { contract } => self.on_signed(turn, message, contract),
            Body::Finalized => self.on_finalized(turn),
            Body::Terminate { reason, text } => self.on_terminate(turn, *reason, text),
            Body::StatusQuery => self.talk.say(turn, self.outcome()),
            Body::Status { state } => self.on_status(turn, *state),
            Body::UsageReport { receipt } => self.on_report(turn, message, receipt),
            Body::ReclaimNotice { notice, text } => self.on_notice(turn, *notice, text),
            Body::Invoice { invoice } => self.on_invoice(turn, message, invoice),
            Body::Amendment { number, answer } => self.on_amendment(turn, *number, answer),
            Body::Close { reason, text } => {
                self.on_finalized(turn)?;
                self.on_close(turn, *reason, text)
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

    fn on_review(&mut self, turn: &mut Turn<'_>, until_ms: u64) -> Result<(), CodecError> {
        match self.stage {
            Stage::Requested { .. } => {
                let latest_ms = turn.now.wall_ms + limits::REVIEW_MS;
                self.stage = Stage::Review { until_ms: latest_ms.min(until_ms) };
                self.talk.answered(Kind::Request);
                Ok(())
            }
            Stage::Terminated { .. } => self.talk.ask(turn, Kind::Terminate, self.outcome()),
            Stage::Review { .. }
            | Stage::Offered
            | Stage::Agreed
            | Stage::Pending { .. }
            | Stage::Active
            | Stage::Suspended
            | Stage::Closed { .. } => Ok(()),
        }
    }

    /// The provider has signed: what was ordered, which binds, or an offer, which is this
    /// buyer's to take.
    fn on_signed(
        &mut self,
        turn: &mut Turn<'_>,
        message: &Verified<Message>,
        signed: &Signed<Contract>,
    ) -> Result<(), CodecError> {
        let offered = matches!(message.body, Body::Offer { .. });
        match self.stage {
            Stage::Requested { .. } | Stage::Review { .. } => {}
            Stage::Offered if self.talk.awaits(Kind::Take) && !offered => {}
            Stage::Terminated { .. } => {
                return self.talk.reply(turn, message.digest(), self.outcome());
            }
            Stage::Offered
            | Stage::Agreed
            | Stage::Pending { .. }
            | Stage::Active
            | Stage::Suspended
            | Stage::Closed { .. } => return Ok(()),
        }
        let opened = self.open(turn, signed).ok();
        let Some(contract) = opened.filter(|contract| self.can_sign(turn, contract, offered))
        else {
            let text = "the contract is not what was ordered";
            return self.terminate(turn, TerminateReason::NotAsOffered, text);
        };
        self.agreement = Some(Agreement {
            provider: contract.signed().clone(),
            consumer: None,
            contract: Contract::clone(&contract),
        });
        self.stage = Stage::Offered;
        self.talk.answered(Kind::Request);
        match (offered, self.is_within_limit()) {
            (false, _) => self.countersign(turn, &contract),
            (true, true) => self.take(turn),
            (true, false) => Ok(()),
        }
    }

    /// Takes a firm offer: by the signature under it, or, since its term would have begun a
    /// while ago, by asking for another.
    pub(crate) fn take(&mut self, turn: &mut Turn<'_>) -> Result<(), CodecError> {
        let offered = self.agreement.as_ref().filter(|_| self.stage == Stage::Offered);
        let Some(contract) = offered.and_then(|offered| self.open(turn, &offered.provider).ok())
        else {
            return Ok(());
        };
        if turn.now.wall_ms <= contract.not_before_ms.saturating_add(limits::COMMIT_MS) {
            return self.countersign(turn, &contract);
        }
        match self.talk.awaits(Kind::Take) {
            true => Ok(()),
            false => self.talk.ask(turn, Kind::Take, Body::Take),
        }
    }

    /// Signs what the provider has signed. From here on it is in doubt.
    fn countersign(
        &mut self,
        turn: &mut Turn<'_>,
        contract: &Verified<Contract>,
    ) -> Result<(), CodecError> {
        let consumer = turn.config.key.countersign(turn.config.federation, contract);
        if let Some(agreement) = &mut self.agreement {
            agreement.consumer = Some(consumer.clone());
        }
        self.stage = Stage::Agreed;
        self.talk.answered(Kind::Take);
        self.talk.ask(turn, Kind::Verification, Body::Verification { contract: consumer })
    }

    /// Whether a contract is of this negotiation and on the terms of the request. An offer
    /// may have another price and another quantity, and be held for longer.
    fn can_sign(&self, turn: &Turn<'_>, contract: &Verified<Contract>, offered: bool) -> bool {
        let now_ms = turn.now.wall_ms;
        let us: (_, PublicKey) = (turn.config.cluster(), turn.config.key.public());
        let taken = self.agreement.as_ref().filter(|_| self.stage == Stage::Offered);
        let mut terms = taken.map_or(&self.request.terms, |taken| &taken.contract.terms).clone();
        if offered {
            terms.price = contract.terms.price.clone();
            terms.quantity = contract.terms.quantity.clone();
        }
        let hold_ms = if offered { limits::REVIEW_MS } else { limits::COMMIT_MS };
        contract.id == self.id()
            && (contract.provider.cluster, contract.provider.key) == (self.talk.peer, self.talk.key)
            && (contract.consumer.cluster, contract.consumer.key) == us
            && contract.ad == self.request.ad
            && contract.terms == terms
            && size::check(&terms.quantity).is_ok()
            && contract.not_before_ms <= now_ms.saturating_add(CLOCK_SKEW_MS)
            && contract.commit_by_ms.saturating_add(CLOCK_SKEW_MS) >= now_ms
            && contract.commit_by_ms <= now_ms.saturating_add(hold_ms + CLOCK_SKEW_MS)
            && contract.commit_by_ms <= contract.not_before_ms.saturating_add(hold_ms)
    }

    /// Whether an offer is of all that was ordered, at no more than the owner said to pay: what
    /// was posted, if nothing was said.
    fn is_within_limit(&self) -> bool {
        let whole = self.terms().quantity == self.request.terms.quantity;
        match (self.limit, self.total()) {
            (_, Ok(None)) => whole && self.rfq.is_none(),
            (Some(limit), Ok(Some(total))) => {
                whole && total.currency == limit.currency && total.micros <= limit.micros
            }
            (None, Ok(Some(total))) => {
                let posted = self.posted().ok().flatten();
                let within = |posted: Money| {
                    posted.currency == total.currency && total.micros <= posted.micros
                };
                whole && self.rfq.is_none() && posted.is_some_and(within)
            }
            (_, Err(_)) => false,
        }
    }

    /// The provider has stored this buyer's signature.
    fn on_finalized(&mut self, turn: &mut Turn<'_>) -> Result<(), CodecError> {
        if self.stage != Stage::Agreed {
            return Ok(());
        }
        self.stage = Stage::Pending { until_ms: turn.now.wall_ms + limits::PROVISION_MS };
        self.talk.waiting.clear();
        match self.unwanted.take() {
            Some(text) => self.close(turn, CloseReason::Cancelled, &text),
            None => Ok(()),
        }
    }

    fn on_status(&mut self, turn: &mut Turn<'_>, state: State) -> Result<(), CodecError> {
        self.talk.answered(Kind::Terminate);
        match state {
            State::Unknown | State::Terminated => {
                self.talk.answered(Kind::Close);
                if self.stage.is_signed_once() {
                    self.end_negotiation(turn, TerminateReason::Expired, "");
                }
                Ok(())
            }
            State::Requested | State::Review | State::Offered | State::Agreed => Ok(()),
            State::Pending => self.on_finalized(turn),
            State::Active | State::Suspended | State::Reclaiming => {
                self.talk.answered(Kind::Ready);
                self.on_finalized(turn)
            }
            State::Closed => {
                self.talk.answered(Kind::Ready);
                self.talk.answered(Kind::Close);
                self.on_finalized(turn)
            }
        }
    }

    /// What was bought can be used: from the provider's hearing it, it is billed.
    pub(crate) fn on_usable(&mut self, turn: &mut Turn<'_>) -> Result<(), CodecError> {
        if !matches!(self.stage, Stage::Pending { .. }) {
            return Ok(());
        }
        self.stage = Stage::Active;
        self.meter.started_ms = Some(turn.now.wall_ms);
        self.talk.ask(turn, Kind::Ready, Body::Ready)
    }

    /// The consumer's next deadline, wall clock.
    pub(crate) fn buyer_deadline_ms(&self) -> Option<u64> {
        let contract = self.agreement.as_ref().map(|agreement| &agreement.contract);
        match &self.stage {
            Stage::Requested { until_ms } => Some(*until_ms),
            Stage::Review { until_ms } => Some(until_ms.saturating_add(CLOCK_SKEW_MS)),
            Stage::Agreed if !self.talk.awaits(Kind::Verification) => None,
            Stage::Offered | Stage::Agreed => {
                contract.map(|contract| contract.commit_by_ms.saturating_add(CLOCK_SKEW_MS))
            }
            Stage::Pending { .. } | Stage::Active | Stage::Suspended => {
                // The provider ends what it takes back; a longer term may have been agreed.
                let skew_ms = if self.reclaim.is_some() { CLOCK_SKEW_MS } else { 0 };
                let end_ms = self.ends_ms().map(|end_ms| end_ms.saturating_add(skew_ms));
                let end_ms = end_ms.filter(|_| !self.is_change_in_doubt());
                [end_ms, self.change_deadline_ms()].into_iter().flatten().min()
            }
            Stage::Closed { .. } | Stage::Terminated { .. } => None,
        }
    }

    /// The consumer's deadline has come.
    pub(crate) fn on_buyer_deadline(&mut self, turn: &mut Turn<'_>) -> Result<(), CodecError> {
        if self.on_change_deadline(turn)? {
            return Ok(());
        }
        match self.stage {
            Stage::Requested { .. } => {
                self.terminate(turn, TerminateReason::Expired, "no answer in time")
            }
            Stage::Review { .. } => {
                self.terminate(turn, TerminateReason::Expired, "the owner did not decide in time")
            }
            Stage::Offered => {
                self.terminate(turn, TerminateReason::Expired, "the offer was not taken in time")
            }
            Stage::Agreed => {
                self.talk.answered(Kind::Verification);
                self.talk.ask(turn, Kind::Query, Body::StatusQuery)
            }
            Stage::Pending { .. } | Stage::Active | Stage::Suspended => self.close_in_time(turn),
            Stage::Closed { .. } | Stage::Terminated { .. } => Ok(()),
        }
    }
}
