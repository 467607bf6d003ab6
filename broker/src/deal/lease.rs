//! A lease: the contract in force, changes of it, what was used, and what it comes to. Each is a
//! small state machine of its own; here is what takes several of them.

mod leaving;

use mercato_protocol::codec::CodecError;
use mercato_protocol::contract::{Contract, Terms};
use mercato_protocol::envelope::{Signed, Verified};
use mercato_protocol::id::Digest;
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::{Answer, Body, DisputeReason, Message, State, TerminateReason};
use mercato_protocol::price::{Money, PriceError, Usage};
use mercato_protocol::receipt::Receipt;
use mercato_protocol::resources::Resources;

use super::agreement::{Agreement, Agreements};
use super::amendment::{Amendment, Amendments, Asked};
use super::conversation::Kind;
use super::ending::Ending;
use super::exchange::Exchange;
use super::meter::{Meter, MeterState, Overdue};
use super::order::Side;
use super::settlement::{Ended, Received, Settlement};
pub use leaving::Leaving;

/// How a lease is to be in this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Desired {
    /// Set up and open to pods, at home until it is [`Leaving`], at the provider to the end.
    Open,
    /// What runs stays; at the consumer no new pods come to the node.
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

    /// How far a running lease is, as it is said to the other side.
    pub(super) fn state(&self) -> State {
        match self.meter.state() {
            MeterState::Pending { .. } => State::Pending,
            MeterState::Running { .. } if self.settlement.reclaim().is_some() => State::Reclaiming,
            MeterState::Running { .. } => State::Active,
            MeterState::Suspended { .. } => State::Suspended,
            MeterState::Ended { .. } => State::Closed,
        }
    }

    /// How a running lease is to be in this cluster.
    pub(super) fn desired(&self) -> Desired {
        match self.meter.state() {
            MeterState::Suspended { .. } => Desired::Suspended,
            MeterState::Pending { .. } | MeterState::Running { .. } | MeterState::Ended { .. } => {
                Desired::Open
            }
        }
    }

    /// The next deadline of a running lease on this side, wall clock.
    pub(super) fn deadline_ms(&self, side: Side) -> Option<u64> {
        let lapses_ms = self.amendments.deadline_ms(side);
        let all = match (side, self.meter.state()) {
            (Side::Provider, MeterState::Pending { until_ms }) => {
                [Some(until_ms), Some(self.ends_ms()), None]
            }
            (Side::Provider, _) => {
                let metered_ms = self.meter.deadline_ms(&self.agreements);
                [Some(self.ends_ms()), metered_ms, lapses_ms]
            }
            (Side::Consumer, _) => {
                // The provider ends what it takes back; a longer term may have been agreed.
                let reclaimed = self.settlement.reclaim().is_some();
                let skew_ms = if reclaimed { CLOCK_SKEW_MS } else { 0 };
                let end_ms = self.ends_ms().saturating_add(skew_ms);
                [Some(end_ms).filter(|_| !self.amendments.is_in_doubt(side)), lapses_ms, None]
            }
        };
        all.into_iter().flatten().min()
    }

    /// The deadline of a running lease has come. Why it has to be closed, for a person; none: it
    /// runs on.
    pub(super) fn on_deadline(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
    ) -> Result<Option<String>, CodecError> {
        if self.amendments.on_deadline(exchange)? {
            return Ok(None);
        }
        let now_ms = exchange.now_ms();
        if exchange.side() == Side::Consumer {
            return Ok(Some(self.end_in_time()));
        }
        if matches!(self.meter.state(), MeterState::Pending { until_ms } if now_ms >= until_ms) {
            return Ok(Some("it was not ready in time".to_owned()));
        }
        if now_ms >= self.ends_ms() {
            return Ok(Some(self.end_in_time()));
        }
        Ok(match self.meter.on_deadline(exchange, &self.agreements)? {
            Overdue::Nothing => None,
            Overdue::Close => Some("usage reports stayed unsigned".to_owned()),
        })
    }

    /// Provider: the next deadline of a lease that has ended, wall clock.
    pub(super) fn ended_deadline_ms(&self) -> Option<u64> {
        self.meter.deadline_ms(&self.agreements).or(self.invoice_due_ms())
    }

    /// Provider: the deadline of a lease that has ended so has come.
    pub(super) fn on_ended_deadline(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        ending: Ending,
    ) -> Result<(), CodecError> {
        if self.amendments.on_deadline(exchange)? {
            return Ok(());
        }
        if self.invoice_due_ms().is_some() {
            return self.send_invoice(exchange, ending);
        }
        self.meter.on_deadline(exchange, &self.agreements).map(drop)
    }

    /// What the whole term costs; none when free.
    pub(crate) fn total(&self) -> Result<Option<Money>, PriceError> {
        let contract = self.agreements.contract();
        let usage = self.agreements.usage(contract.not_before_ms, contract.not_after_ms)?;
        contract.terms.price.total(&usage)
    }

    /// What the whole term costs if the change that was asked for is made, from when both sign
    /// it or, until then, from when it was asked for; none when free, or when there is no change. It
    /// stays the same while nothing happens.
    pub fn amended_total(&self) -> Result<Option<Money>, PriceError> {
        let Some(change) = self.amendment() else { return Ok(None) };
        let terms = change.terms();
        let begun_ms = self.agreements.contract().not_before_ms;
        let term_ms = terms.term_s.checked_mul(1_000).ok_or(PriceError::Overflow)?;
        let end_ms = begun_ms.checked_add(term_ms).ok_or(PriceError::Overflow)?;
        let from_ms = change.holds_from_ms().clamp(begun_ms, end_ms.max(begun_ms));
        let before = self.agreements.usage(begun_ms, from_ms)?;
        let after = Usage::of(&terms.quantity, end_ms.saturating_sub(from_ms))?;
        terms.price.total(&before.checked_add(&after)?)
    }

    /// What the provider has promised.
    pub(crate) fn claim(&self) -> Resources {
        self.agreements.claim(self.meter.metered_ms(), self.amendments.agreed())
    }

    /// Why it ends when it has come to [`ends_ms`](Self::ends_ms), for a person.
    fn end_in_time(&self) -> String {
        let not_after_ms = self.agreements.contract().not_after_ms;
        let reclaim = self.settlement.reclaim().filter(|notice| notice.until_ms < not_after_ms);
        reclaim.map_or_else(String::new, |_| self.settlement.reclaim_text().to_owned())
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

    /// Provider: the buyer is reached, whom a notice may wait for.
    pub(crate) fn on_reached(&mut self, now_ms: u64) {
        self.settlement.on_reached(now_ms);
    }

    /// Provider: the consumer says something of the lease alone.
    pub(super) fn on_consumer(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        message: &Verified<Message>,
    ) -> Result<(), CodecError> {
        if let Body::UsageReceipt { receipt } = &message.body {
            self.meter.on_receipt(exchange, receipt);
        } else if let Body::InvoiceReceipt { invoice } = &message.body {
            self.settlement.on_invoice_receipt(exchange, invoice);
        } else if let Body::Dispute { about, reason, text } = &message.body {
            self.settlement.note_dispute(exchange, *about, *reason, text);
            if *reason == DisputeReason::Usage && self.meter.give_up(*about) {
                exchange.answered(Kind::Report);
            }
        } else if let Body::Amendment { number, answer } = &message.body {
            return self.on_answer(exchange, *number, answer);
        }
        Ok(())
    }

    /// Either side hears what becomes of a change.
    pub(super) fn on_answer(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        number: u32,
        answer: &Answer,
    ) -> Result<(), CodecError> {
        self.amendments.on_answer(exchange, &mut self.agreements, number, answer)
    }

    /// Provider: what is answered to a buyer's signature, as long as the lease runs.
    pub(super) fn on_signed(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        signed: &Signed<Contract>,
        runs: bool,
    ) -> Body {
        let answer = self.amendments.on_signed(exchange, &mut self.agreements, signed, runs);
        answer.unwrap_or(Body::Finalized)
    }

    /// Consumer: the provider says what the lease came to, which ended so.
    pub(super) fn on_invoice(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        ending: Ending,
        received: &Received<'_>,
    ) -> Result<(), CodecError> {
        let contract = self.agreements.contract();
        let ended = self.meter.last().map(|last| Ended { contract, last, ending });
        self.settlement.on_invoice(exchange, ended.as_ref(), received)
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
        let reclaimed_ms = self.settlement.reclaim().map(|notice| notice.until_ms);
        let agreed = self.meter.agree(exchange, &self.agreements, &report, reclaimed_ms);
        if let Some(receipt) = agreed {
            return exchange.reply(message.digest(), Body::UsageReceipt { receipt });
        }
        // What is in doubt may be in it: it is reported again.
        if self.amendments.is_in_doubt(exchange.side()) {
            return Ok(());
        }
        tracing::warn!(index = report.index, "usage report refused");
        let about = Digest::of(report.payload());
        self.settlement.dispute(exchange, about, DisputeReason::Usage, "not what was used")
    }

    /// When the provider owes the invoice of a lease that is over, wall clock: it has all
    /// receipts.
    fn invoice_due_ms(&self) -> Option<u64> {
        self.meter.settled_ms().filter(|_| self.settlement.invoice().is_none())
    }

    /// Provider: sends the invoice, of a lease that ended so.
    fn send_invoice(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        ending: Ending,
    ) -> Result<(), CodecError> {
        let Some(last) = self.meter.last() else { return Ok(()) };
        let ended = Ended { contract: self.agreements.contract(), last, ending };
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
