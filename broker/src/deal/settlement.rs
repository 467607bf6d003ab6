//! How a lease ends before its term, and what it comes to: the reclaim notice, the invoice
//! with its credits, and what a buyer disputes.

use mercato_protocol::codec::{CodecError, Message as _};
use mercato_protocol::contract::Contract;
use mercato_protocol::envelope::{Countersigned, Signed, Verified};
use mercato_protocol::id::Digest;
use mercato_protocol::invoice::{Credit, CreditKind, Invoice, Notice};
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::{Body, CloseReason, DisputeReason, Message};
use mercato_protocol::price::{Money, PriceError, Usage};
use mercato_protocol::receipt::Receipt;
use serde::{Deserialize, Serialize};

use crate::deal::conversation::{Kind, Turn, shortened};
use crate::deal::{Deal, Stage};
use crate::limits;

/// An invoice and the signatures on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedInvoice {
    /// What was signed.
    pub invoice: Invoice,
    /// By the provider.
    pub provider: Signed<Invoice>,
    /// By the consumer; none until it is there.
    pub consumer: Option<Signed<Invoice>>,
}

/// What the buyer does not agree to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dispute {
    /// The payload of the receipt or invoice.
    pub about: Digest,
    /// Why.
    pub reason: DisputeReason,
    /// The same for a person.
    pub text: String,
    /// When, wall clock by this side.
    pub at_ms: u64,
}

impl Deal {
    /// That the capacity is taken back, if it is.
    pub fn reclaim(&self) -> Option<Notice> {
        self.reclaim
    }

    /// Why the capacity is taken back, in the words of the provider's owner; may be empty.
    pub fn reclaim_text(&self) -> &str {
        &self.reclaim_text
    }

    /// What the lease came to, once it is over.
    pub fn invoice(&self) -> Option<&SignedInvoice> {
        self.invoice.as_ref()
    }

    /// What the buyer did not agree to.
    pub fn disputes(&self) -> &[Dispute] {
        &self.disputes
    }

    /// When the lease ends, wall clock: with its term, or taken back before.
    pub fn ends_ms(&self) -> Option<u64> {
        let not_after_ms = self.agreement.as_ref()?.contract.not_after_ms;
        let reclaimed_ms = self.reclaim.map_or(u64::MAX, |notice| notice.until_ms);
        Some(not_after_ms.min(reclaimed_ms))
    }

    /// Ends a lease that has come to [`ends_ms`](Self::ends_ms).
    pub(crate) fn close_in_time(&mut self, turn: &mut Turn<'_>) -> Result<(), CodecError> {
        let not_after_ms = self.agreement.as_ref().map_or(0, |a| a.contract.not_after_ms);
        if self.reclaim.is_some_and(|notice| notice.until_ms < not_after_ms) {
            let text = self.reclaim_text.clone();
            return self.close(turn, CloseReason::Reclaimed, &text);
        }
        self.close(turn, CloseReason::Expired, "")
    }

    /// Provider: takes the capacity back at that time.
    pub(crate) fn give_notice(
        &mut self,
        turn: &mut Turn<'_>,
        until_ms: u64,
        text: &str,
    ) -> Result<(), CodecError> {
        let notice = Notice { given_ms: turn.now.wall_ms, until_ms };
        let text = shortened(text);
        (self.reclaim, self.reclaim_text) = (Some(notice), text.clone());
        self.talk.ask(turn, Kind::Reclaim, Body::ReclaimNotice { notice, text })
    }

    /// Consumer: the capacity is taken back. Notice counts from when it was heard, but for
    /// the skew of the clocks.
    pub(crate) fn on_notice(
        &mut self,
        turn: &mut Turn<'_>,
        notice: Notice,
        text: &str,
    ) -> Result<(), CodecError> {
        if self.stage.is_leased() && self.reclaim.is_none() {
            let heard_ms = turn.now.wall_ms.saturating_sub(CLOCK_SKEW_MS);
            self.reclaim = Some(Notice { given_ms: notice.given_ms.max(heard_ms), ..notice });
            self.reclaim_text = shortened(text);
        }
        self.talk.say(turn, self.outcome())
    }

    /// Whether the provider has all receipts of a lease that is over, and owes the invoice.
    pub(crate) fn invoice_due_ms(&self) -> Option<u64> {
        let ended_ms = self.meter.ended_ms?;
        let whole = self.meter.signed.as_ref().is_some_and(|it| it.receipt.to_ms >= ended_ms);
        let closed = self.stage.closed().is_some();
        (closed && whole && self.invoice.is_none()).then_some(ended_ms)
    }

    /// Provider: what the lease came to. Nothing if it cannot be expressed.
    pub(crate) fn send_invoice(&mut self, turn: &mut Turn<'_>) -> Result<(), CodecError> {
        if self.invoice_due_ms().is_none() {
            return Ok(());
        }
        let Some((closed, _)) = self.stage.closed() else { return Ok(()) };
        let Some(invoice) = self.make_invoice(closed, self.reclaim) else { return Ok(()) };
        let provider = turn.config.key.sign(turn.config.federation, &invoice)?;
        let body = Body::Invoice { invoice: provider.clone() };
        self.invoice = Some(SignedInvoice { invoice, provider, consumer: None });
        self.talk.ask(turn, Kind::Invoice, body)
    }

    fn make_invoice(&self, closed: CloseReason, notice: Option<Notice>) -> Option<Invoice> {
        let contract = &self.agreement.as_ref()?.contract;
        let last = &self.meter.signed.as_ref()?.receipt;
        let credits = credits(contract, (closed, notice), last).unwrap_or_default();
        let off = credits.iter().map(|credit| credit.amount.micros).sum::<u64>();
        Some(Invoice {
            contract: self.id(),
            provider: last.provider,
            consumer: last.consumer,
            closed,
            notice,
            receipt: Digest::of(&last.to_bytes().ok()?),
            amount: last.amount,
            credits,
            due: last.amount.map(|amount| Money { micros: amount.micros - off, ..amount }),
        })
    }

    /// Consumer: the provider says what the lease came to.
    pub(crate) fn on_invoice(
        &mut self,
        turn: &mut Turn<'_>,
        message: &Verified<Message>,
        signed: &Signed<Invoice>,
    ) -> Result<(), CodecError> {
        let Stage::Closed { reason, .. } = self.stage else { return Ok(()) };
        let Ok(invoice) = self.open(turn, signed) else { return Ok(()) };
        // What the provider itself said of the end, it cannot say otherwise now.
        let by_provider = |it| matches!(it, CloseReason::EndedByProvider | CloseReason::Reclaimed);
        let told = !by_provider(reason) || by_provider(invoice.closed);
        let own = self.make_invoice(invoice.closed, self.reclaim);
        if !told || own.as_ref() != Some(&*invoice) {
            let about = Digest::of(invoice.payload());
            return self.dispute(turn, about, DisputeReason::Credits, "other credits are due");
        }
        let consumer = turn.config.key.countersign(turn.config.federation, &invoice);
        self.invoice = Some(SignedInvoice {
            provider: invoice.signed().clone(),
            consumer: Some(consumer.clone()),
            invoice: invoice.into_value(),
        });
        self.talk.reply(turn, message.digest(), Body::InvoiceReceipt { invoice: consumer })
    }

    /// Provider: the consumer agrees to the invoice.
    pub(crate) fn on_invoice_receipt(&mut self, turn: &Turn<'_>, signed: &Signed<Invoice>) {
        let Some(known) = &self.invoice else { return };
        let both = Self::open_own(turn, &known.provider)
            .and_then(|own| Countersigned::join(own, self.open(turn, signed)?));
        let Ok(both) = both else { return };
        if let Some(known) = &mut self.invoice {
            known.consumer = Some(both.consumer().signed().clone());
        }
        self.talk.answered(Kind::Invoice);
    }

    /// Consumer: does not agree. It is said again as often as it is asked.
    pub(crate) fn dispute(
        &mut self,
        turn: &mut Turn<'_>,
        about: Digest,
        reason: DisputeReason,
        text: &str,
    ) -> Result<(), CodecError> {
        self.note_dispute(turn, about, reason, text);
        self.talk.say(turn, Body::Dispute { about, reason, text: text.to_owned() })
    }

    /// Either side remembers a dispute. A receipt goes on being asked for, until the lease is
    /// closed over it; an invoice is left to the owners.
    pub(crate) fn note_dispute(
        &mut self,
        turn: &Turn<'_>,
        about: Digest,
        reason: DisputeReason,
        text: &str,
    ) {
        let known = self.disputes.iter().any(|dispute| dispute.about == about);
        if !known && self.disputes.len() < limits::DISPUTES {
            let (text, at_ms) = (shortened(text), turn.now.wall_ms);
            self.disputes.push(Dispute { about, reason, text, at_ms });
        }
        if reason == DisputeReason::Credits {
            self.talk.answered(Kind::Invoice);
        }
    }
}

/// What is taken off the bill, by what both sides know: why the lease ended, what notice
/// there was, and the last receipt. Never more than the bill.
fn credits(
    contract: &Contract,
    (closed, notice): (CloseReason, Option<Notice>),
    last: &Receipt,
) -> Result<Vec<Credit>, PriceError> {
    let (Some(mut left), terms) = (last.amount, &contract.terms) else { return Ok(Vec::new()) };
    let bill = u128::from(left.micros);
    let had_ms = last.to_ms.saturating_sub(notice.map_or(last.to_ms, |notice| notice.given_ms));
    let rest_ms = contract.not_after_ms.saturating_sub(last.to_ms);
    let missing_ms = terms.reclaim_notice_s.saturating_mul(1_000).saturating_sub(had_ms);
    let missing_ms = match closed {
        CloseReason::EndedByProvider | CloseReason::Reclaimed => missing_ms.min(rest_ms),
        CloseReason::Expired
        | CloseReason::Cancelled
        | CloseReason::Unsigned
        | CloseReason::ProvisioningFailed
        | CloseReason::Breach => 0,
    };
    let mut all = Vec::new();
    let mut take_off = |kind, micros: u64| {
        let amount = Money { micros: micros.min(left.micros), ..left };
        left.micros -= amount.micros;
        if amount.micros > 0 {
            all.push(Credit { kind, amount });
        }
    };
    let given_ms = u128::from(last.to_ms.saturating_sub(contract.not_before_ms));
    let term_ms = u128::from(contract.not_after_ms - contract.not_before_ms);
    let short = |ppm: u32| given_ms * 1_000_000 < term_ms * u128::from(ppm);
    if let Some(sla) = terms.sla.filter(|sla| missing_ms > 0 && short(sla.availability_ppm)) {
        let micros = bill * u128::from(sla.credit_ppm) / 1_000_000;
        take_off(CreditKind::Availability, u64::try_from(micros).unwrap_or(u64::MAX));
    }
    let missing = terms.price.total(&Usage::of(&terms.quantity, missing_ms)?)?;
    take_off(CreditKind::ReclaimNotice, missing.map_or(0, |missing| missing.micros));
    Ok(all)
}
