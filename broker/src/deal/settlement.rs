//! What a lease comes to: the reclaim notice, the invoice with its credits, and what a buyer
//! disputes.

use mercato_protocol::codec::{CodecError, Message as _};
use mercato_protocol::contract::Contract;
use mercato_protocol::envelope::{Countersigned, Signed};
use mercato_protocol::id::Digest;
use mercato_protocol::invoice::{Credit, CreditKind, Invoice, Notice};
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::{Body, DisputeReason};
use mercato_protocol::price::{Money, PriceError, Usage};
use mercato_protocol::receipt::Receipt;
use serde::{Deserialize, Serialize};

use super::conversation::{Kind, shortened};
use super::ending::{Bill, Ending};
use super::exchange::Exchange;
use crate::limits;

/// How a lease ends before its term, and what it comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// The provider takes the capacity back.
    pub(super) reclaim: Option<Reclaim>,
    /// What the lease came to.
    pub(super) invoice: Option<SignedInvoice>,
    /// What the buyer does not agree to: each a record of its own.
    pub(super) disputes: Vec<Dispute>,
}

/// That the provider takes the capacity back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reclaim {
    pub(super) notice: Notice,
    /// Provider: the notice counts from when the buyer is connected or answers, which it has not
    /// yet.
    pub(super) waits: bool,
    /// Why, in its owner's words; may be empty.
    pub(super) text: String,
}

/// An invoice and the signatures on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedInvoice {
    /// The invoice, as both sign it.
    pub invoice: Invoice,
    /// The invoice with the provider's signature.
    pub provider: Signed<Invoice>,
    /// The same bytes signed by the consumer; none until it has.
    pub consumer: Option<Signed<Invoice>>,
}

/// What the buyer does not agree to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dispute {
    /// The payload of the receipt or invoice.
    pub about: Digest,
    /// Why the buyer does not agree.
    pub reason: DisputeReason,
    /// The reason in words for a person.
    pub text: String,
    /// When it was raised, wall clock by this side.
    pub at_ms: u64,
}

/// What an invoice follows from.
pub(crate) struct Ended<'a> {
    pub(crate) contract: &'a Contract,
    /// The last receipt that both signed.
    pub(crate) last: &'a Receipt,
    /// What the lease comes to by this side's records.
    pub(crate) ending: Ending,
}

impl Settlement {
    /// That the capacity is taken back, if it is.
    pub fn reclaim(&self) -> Option<Notice> {
        self.reclaim.as_ref().map(|reclaim| reclaim.notice)
    }

    /// Why the capacity is taken back, in the words of the provider's owner; may be empty.
    pub fn reclaim_text(&self) -> &str {
        self.reclaim.as_ref().map_or("", |reclaim| &reclaim.text)
    }

    /// What the lease came to, once it is over.
    pub fn invoice(&self) -> Option<&SignedInvoice> {
        self.invoice.as_ref()
    }

    /// What the buyer did not agree to.
    pub fn disputes(&self) -> &[Dispute] {
        &self.disputes
    }

    /// The notice, from when it counts for this side: for a buyer that was never reached, not at
    /// all.
    pub(super) fn notice(&self) -> Option<Notice> {
        let Reclaim { notice, waits, .. } = self.reclaim.as_ref()?;
        let given_ms = if *waits { notice.until_ms } else { notice.given_ms };
        Some(Notice { given_ms, ..*notice })
    }

    /// Provider: takes the capacity back at that time. Notice counts from now where the buyer is
    /// connected, else from when it is or answers.
    pub(crate) fn give_notice(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        until_ms: u64,
        text: &str,
    ) -> Result<(), CodecError> {
        let notice = Notice { given_ms: exchange.now_ms(), until_ms };
        let (text, waits) = (shortened(text), !exchange.link().is_up);
        self.reclaim = Some(Reclaim { notice, waits, text: text.clone() });
        exchange.ask(Kind::Reclaim, Body::ReclaimNotice { notice, text })
    }

    /// Provider: the buyer is reached, whom a notice waits for.
    pub(crate) fn on_reached(&mut self, now_ms: u64) {
        if let Some(reclaim) = self.reclaim.as_mut().filter(|reclaim| reclaim.waits) {
            reclaim.waits = false;
            reclaim.notice.given_ms = now_ms.min(reclaim.notice.until_ms);
        }
    }

    /// Whether a notice waits for the buyer to be reached.
    pub(crate) fn waits_for_buyer(&self) -> bool {
        self.reclaim.as_ref().is_some_and(|reclaim| reclaim.waits)
    }

    /// Consumer: the capacity is taken back. Notice counts from when it was received, but for
    /// the skew of the clocks.
    pub(crate) fn on_notice(&mut self, now_ms: u64, notice: Notice, text: &str) {
        if self.reclaim.is_none() {
            let received_ms = now_ms.saturating_sub(CLOCK_SKEW_MS);
            let given_ms = notice.given_ms.max(received_ms).min(notice.until_ms);
            let (notice, text) = (Notice { given_ms, ..notice }, shortened(text));
            self.reclaim = Some(Reclaim { notice, waits: false, text });
        }
    }

    /// Provider: sends what the lease came to. Nothing if nothing is billed, or it cannot be
    /// expressed.
    pub(crate) fn send_invoice(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        ended: &Ended<'_>,
    ) -> Result<(), CodecError> {
        let Some(invoice) = ended.invoice(self.notice()) else { return Ok(()) };
        let provider = exchange.sign(&invoice)?;
        let body = Body::Invoice { invoice: provider.clone() };
        self.invoice = Some(SignedInvoice { invoice, provider, consumer: None });
        exchange.ask(Kind::Invoice, body)
    }

    /// Consumer: the provider says what the lease came to. A bill that takes off at least what
    /// this side would, and no less than one that it has signed, is signed, a dearer one never.
    pub(crate) fn on_invoice(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        ended: Option<&Ended<'_>>,
        received: &Received<'_>,
    ) -> Result<(), CodecError> {
        let Ok(invoice) = exchange.open(received.invoice) else { return Ok(()) };
        let own = ended.and_then(|ended| ended.invoice(self.notice()));
        let signed = self.invoice.as_ref().map(|known| &known.invoice);
        if !own.iter().chain(signed).all(|own| covers(own, &invoice)) || own.is_none() {
            let about = Digest::of(invoice.payload());
            return self.dispute(exchange, about, DisputeReason::Credits, "other credits are due");
        }
        let consumer = exchange.countersign(&invoice);
        self.invoice = Some(SignedInvoice {
            provider: invoice.signed().clone(),
            consumer: Some(consumer.clone()),
            invoice: invoice.into_value(),
        });
        exchange.reply(received.message, Body::InvoiceReceipt { invoice: consumer })
    }

    /// Provider: the consumer agrees to the invoice.
    pub(crate) fn on_invoice_receipt(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        signed: &Signed<Invoice>,
    ) {
        let Some(known) = &mut self.invoice else { return };
        let both = exchange
            .open_own(&known.provider)
            .and_then(|own| Countersigned::join(own, exchange.open(signed)?));
        let Ok(both) = both else { return };
        known.consumer = Some(both.consumer().signed().clone());
        exchange.answered(Kind::Invoice);
    }

    /// Consumer: does not agree. It is said again as often as it is asked.
    pub(crate) fn dispute(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        about: Digest,
        reason: DisputeReason,
        text: &str,
    ) -> Result<(), CodecError> {
        self.note_dispute(exchange, about, reason, text);
        exchange.send(Body::Dispute { about, reason, text: text.to_owned() })
    }

    /// Either side remembers a dispute. A receipt goes on being asked for, until the lease is
    /// closed over it; an invoice is left to the owners.
    pub(crate) fn note_dispute(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        about: Digest,
        reason: DisputeReason,
        text: &str,
    ) {
        let known = self.disputes.iter().any(|dispute| dispute.about == about);
        if !known && self.disputes.len() < limits::DISPUTES {
            let (text, at_ms) = (shortened(text), exchange.now_ms());
            self.disputes.push(Dispute { about, reason, text, at_ms });
        }
        if reason == DisputeReason::Credits {
            exchange.answered(Kind::Invoice);
        }
    }

    /// As records hold it: disputes lie in records of their own.
    pub(super) fn without_disputes(&self) -> Self {
        let Self { reclaim, invoice, .. } = self.clone();
        Self { reclaim, invoice, disputes: Vec::new() }
    }
}

/// An invoice, and the message that it came in.
pub(crate) struct Received<'a> {
    pub(crate) invoice: &'a Signed<Invoice>,
    pub(crate) message: Digest,
}

/// Whether a bill is of the same usage as one's own, and comes to no more.
fn covers(own: &Invoice, theirs: &Invoice) -> bool {
    let about = |it: &Invoice| (it.contract, it.provider, it.consumer, it.receipt, it.amount);
    let micros = |it: &Invoice| it.due.map(|due| due.micros);
    about(own) == about(theirs) && micros(theirs) <= micros(own)
}

impl Ended<'_> {
    fn invoice(&self, notice: Option<Notice>) -> Option<Invoice> {
        let last = self.last;
        let credits = self.credits().unwrap_or_default();
        let off = credits.iter().map(|credit| credit.amount.micros).sum::<u64>();
        Some(Invoice {
            contract: self.contract.id,
            provider: last.provider,
            consumer: last.consumer,
            closed: self.ending.cause.word(),
            notice,
            receipt: Digest::of(&last.to_bytes().ok()?),
            amount: last.amount,
            credits,
            due: last.amount.map(|amount| Money { micros: amount.micros - off, ..amount }),
        })
    }

    /// What is taken off the bill, by this side's records of the end and the last receipt. Never
    /// more than the bill.
    fn credits(&self) -> Result<Vec<Credit>, PriceError> {
        let (last, contract, terms) = (self.last, self.contract, &self.contract.terms);
        let Some(mut left) = last.amount else { return Ok(Vec::new()) };
        let bill = left.micros;
        let mut all = Vec::new();
        let mut take_off = |kind, micros: u64| {
            let amount = Money { micros: micros.min(left.micros), ..left };
            left.micros -= amount.micros;
            if amount.micros > 0 {
                all.push(Credit { kind, amount });
            }
        };
        let rest_ms = contract.not_after_ms.saturating_sub(last.to_ms);
        let missing_ms = match self.ending.bill {
            Bill::Whole => 0,
            Bill::LessNotice { missing_ms } => missing_ms.min(rest_ms),
            Bill::Nothing => {
                take_off(CreditKind::Availability, bill);
                0
            }
        };
        let given_ms = u128::from(last.to_ms.saturating_sub(contract.not_before_ms));
        let term_ms = u128::from(contract.not_after_ms - contract.not_before_ms);
        let short = |ppm: u32| given_ms * 1_000_000 < term_ms * u128::from(ppm);
        if let Some(sla) = terms.sla.filter(|sla| missing_ms > 0 && short(sla.availability_ppm)) {
            let micros = u128::from(bill) * u128::from(sla.credit_ppm) / 1_000_000;
            take_off(CreditKind::Availability, u64::try_from(micros).unwrap_or(u64::MAX));
        }
        let missing = terms.price.total(&Usage::of(&terms.quantity, missing_ms)?)?;
        take_off(CreditKind::ReclaimNotice, missing.map_or(0, |missing| missing.micros));
        Ok(all)
    }
}
