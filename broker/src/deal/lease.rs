//! A lease: the contract in force, changes of it, what was used, and what it comes to. Each is a
//! small state machine of its own; here is what takes several of them.

use mercato_protocol::codec::CodecError;
use mercato_protocol::contract::Terms;
use mercato_protocol::envelope::{Signed, Verified};
use mercato_protocol::id::Digest;
use mercato_protocol::negotiation::{Body, CloseReason, DisputeReason, Message, TerminateReason};
use mercato_protocol::price::{Money, PriceError, Usage};
use mercato_protocol::receipt::Receipt;
use mercato_protocol::resources::Resources;
use mercato_protocol::time::Now;

use super::agreement::{Agreement, Agreements};
use super::amendment::{Amendment, Amendments, Asked};
use super::conversation::Kind;
use super::exchange::Exchange;
use super::meter::Meter;
use super::order::Side;
use super::settlement::{Ended, Settlement};

/// How a lease is to be in this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Desired {
    /// Set up and open to pods. Home admits new ones until then, wall clock; the
    /// provider to the end.
    Open {
        /// Until when home admits new pods, wall clock, milliseconds.
        admit_until_ms: u64,
    },
    /// What runs stays, and no new pods are admitted.
    Suspended,
    /// Ended in good order, then [`Input::CleanedUp`](crate::Input::CleanedUp).
    Drained,
    /// Over and forgotten: nothing needs to be done or remembered.
    Gone,
}

/// A lease, from the second signature on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub(super) agreements: Agreements,
    pub(super) amendments: Amendments,
    pub(super) meter: Meter,
    pub(super) settlement: Settlement,
}

impl Lease {
    /// Of a contract that both have signed. The provider waits so long until it can be used.
    pub(super) fn new(agreement: Agreement, until_ms: u64) -> Self {
        Self {
            agreements: Agreements::new(agreement),
            amendments: Amendments::default(),
            meter: Meter::pending(until_ms),
            settlement: Settlement::default(),
        }
    }

    /// The contract in force, and those before it.
    pub fn agreements(&self) -> &Agreements {
        &self.agreements
    }

    /// The change that is under way, or the last one that came to nothing.
    pub fn amendment(&self) -> Option<&Amendment> {
        self.amendments.last()
    }

    pub(crate) fn amendments(&self) -> &Amendments {
        &self.amendments
    }

    /// When the change that is under way lapses on this side, wall clock.
    pub fn amendment_deadline_ms(&self, side: Side) -> Option<u64> {
        self.amendments.deadline_ms(side)
    }

    /// What was used, as far as it was reported and signed.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// How it ends before its term, and what it comes to.
    pub fn settlement(&self) -> &Settlement {
        &self.settlement
    }

    /// When the lease ends, wall clock: with its term, or taken back before.
    pub fn ends_ms(&self) -> u64 {
        let reclaimed_ms = self.settlement.reclaim().map_or(u64::MAX, |notice| notice.until_ms);
        self.agreements.contract().not_after_ms.min(reclaimed_ms)
    }

    /// What the whole term costs; none when free.
    pub(crate) fn total(&self) -> Result<Option<Money>, PriceError> {
        let contract = self.agreements.contract();
        let usage = self.agreements.usage(contract.not_before_ms, contract.not_after_ms)?;
        contract.terms.price.total(&usage)
    }

    /// What the whole term costs if the change that was asked for is made, from when both sign
    /// it, or from now; none when free, or when there is no change.
    pub fn amended_total(&self, now: Now) -> Result<Option<Money>, PriceError> {
        let Some(terms) = self.amendment().map(Amendment::terms) else { return Ok(None) };
        let signed = self.amendments.agreed().and_then(|agreed| agreed.contract.amends);
        let begun_ms = self.agreements.contract().not_before_ms;
        let term_ms = terms.term_s.checked_mul(1_000).ok_or(PriceError::Overflow)?;
        let end_ms = begun_ms.checked_add(term_ms).ok_or(PriceError::Overflow)?;
        let from_ms = signed.map_or(now.wall_ms, |amends| amends.from_ms);
        let from_ms = from_ms.clamp(begun_ms, end_ms.max(begun_ms));
        let before = self.agreements.usage(begun_ms, from_ms)?;
        let after = Usage::of(&terms.quantity, end_ms.saturating_sub(from_ms))?;
        terms.price.total(&before.checked_add(&after)?)
    }

    /// What the provider has promised.
    pub(crate) fn claim(&self) -> Resources {
        self.agreements.claim(self.meter.metered_ms(), self.amendments.agreed())
    }

    /// Why it ends when it has come to [`ends_ms`](Self::ends_ms), and the same for a person.
    pub(super) fn end_in_time(&self) -> (CloseReason, String) {
        let not_after_ms = self.agreements.contract().not_after_ms;
        match self.settlement.reclaim().filter(|notice| notice.until_ms < not_after_ms) {
            Some(_) => (CloseReason::Reclaimed, self.settlement.reclaim_text().to_owned()),
            None => (CloseReason::Expired, String::new()),
        }
    }

    /// It ends now. What is signed and in doubt stays so.
    pub(super) fn end(&mut self, exchange: &mut Exchange<'_, '_>) {
        self.meter.end(self.ends_ms().min(exchange.now_ms()));
        let in_doubt = self.amendments.is_in_doubt(exchange.side());
        if !in_doubt {
            self.amendments.end(exchange, TerminateReason::Expired, "the lease has ended");
        }
        exchange
            .wait_only_for(|kind| kind == Kind::Report || in_doubt && kind == Kind::Verification);
    }

    /// Buyer: asks for a change.
    pub(crate) fn ask_amendment(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        terms: Terms,
    ) -> Result<(), CodecError> {
        self.amendments.ask(exchange, &self.agreements, terms)
    }

    /// Provider: the buyer asks for a change.
    pub(crate) fn on_asked(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        asked: Asked<'_>,
    ) -> Result<(), CodecError> {
        self.amendments.on_asked(exchange, &self.agreements, asked)
    }

    /// Provider: grants the change about which its owner is asked.
    pub(crate) fn agree_to_amendment(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
    ) -> Result<(), CodecError> {
        self.amendments.agree(exchange, &self.agreements)
    }

    /// Provider: refuses the change about which its owner is asked.
    pub(crate) fn refuse_amendment(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        text: &str,
    ) -> Result<(), CodecError> {
        self.amendments.refuse(exchange, TerminateReason::DeniedByOwner, text)
    }

    /// Buyer: the change that was asked for is wanted no longer.
    pub(crate) fn withdraw_amendment(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
    ) -> Result<(), CodecError> {
        self.amendments.withdraw(exchange)
    }

    /// Provider: takes the capacity back at that time.
    pub(crate) fn reclaim(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        until_ms: u64,
        text: &str,
    ) -> Result<(), CodecError> {
        self.settlement.give_notice(exchange, until_ms, text)
    }

    /// Consumer: the provider reports. What it cannot agree to stays unsigned.
    pub(super) fn on_report(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        message: &Verified<Message>,
        signed: &Signed<Receipt>,
    ) -> Result<(), CodecError> {
        let Ok(report) = exchange.open(signed) else { return Ok(()) };
        exchange.answered(Kind::Ready);
        if let Some(receipt) = self.meter.agree(exchange, &self.agreements, &report) {
            return exchange.reply(message.digest(), Body::UsageReceipt { receipt });
        }
        // What is in doubt may be in it: it is reported again.
        if self.amendments.is_in_doubt(exchange.side()) {
            return Ok(());
        }
        tracing::warn!(contract = %exchange.id(), index = report.index, "usage report refused");
        let about = Digest::of(report.payload());
        self.settlement.dispute(exchange, about, DisputeReason::Usage, "not what was used")
    }

    /// When the provider owes the invoice of a lease that is over, wall clock: it has all
    /// receipts.
    pub(super) fn invoice_due_ms(&self) -> Option<u64> {
        self.meter.settled_ms().filter(|_| self.settlement.invoice().is_none())
    }

    /// Provider: sends the invoice, of a lease that ended for this reason.
    pub(super) fn send_invoice(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        closed: CloseReason,
    ) -> Result<(), CodecError> {
        let Some(last) = self.meter.last() else { return Ok(()) };
        let ended = Ended { contract: self.agreements.contract(), last, closed };
        self.settlement.send_invoice(exchange, &ended)
    }

    /// As records hold it: what grows with it lies in records of its own.
    pub(super) fn without_grown(&self) -> Self {
        Self {
            agreements: self.agreements.without_earlier(),
            amendments: self.amendments.clone(),
            meter: self.meter.clone(),
            settlement: self.settlement.without_disputes(),
        }
    }
}
