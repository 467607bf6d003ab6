//! Metering: cumulative reports by the provider, countersigned by the consumer.
//!
//! Reserved quantity times time is billed, from the provider's hearing `Ready` to the
//! end of the lease. One report is under way at a time; the next covers all that has
//! passed since. Settling what is owed is left to the settlement.

use mercato_protocol::codec::{CodecError, Message as _};
use mercato_protocol::envelope::{Countersigned, Signed, Verified};
use mercato_protocol::id::Digest;
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::Body;
use mercato_protocol::price::Usage;
use mercato_protocol::receipt::Receipt;
use serde::{Deserialize, Serialize};

use super::agreement::Agreements;
use super::conversation::Kind;
use super::exchange::Exchange;
use super::order::Side;
use crate::limits;

/// What was used of one lease, as far as it was reported and signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    pub(super) state: MeterState,
    /// The last receipt that both signed.
    pub(super) signed: Option<SignedReceipt>,
    /// Provider: reported, not signed by the buyer yet.
    pub(super) reported: Option<Reported>,
}

/// Whether something accrues. Times are this side's wall clock, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeterState {
    /// Nothing does until the buyer says that it can use what it bought. The provider gives up
    /// at that time.
    Pending { until_ms: u64 },
    /// Reserved quantity, since the buyer said so.
    Running { started_ms: u64 },
    /// The same, and reports stayed unsigned: the consumer places no new pods.
    Suspended { started_ms: u64 },
    /// The lease has ended; none: it was never used.
    Ended { started_ms: Option<u64>, ended_ms: u64 },
}

/// A receipt and both signatures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedReceipt {
    /// The receipt, as both signed it.
    pub receipt: Receipt,
    /// The receipt with the provider's signature.
    pub provider: Signed<Receipt>,
    /// The same bytes signed by the consumer.
    pub consumer: Signed<Receipt>,
}

/// A receipt with the provider's signature alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reported {
    receipt: Receipt,
    signed: Signed<Receipt>,
}

/// What becomes of a lease whose reports stay unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    Nothing,
    /// It has to be closed.
    Close,
}

impl Meter {
    /// Nothing accrues yet; the provider waits so long.
    pub(crate) fn pending(until_ms: u64) -> Self {
        Self { state: MeterState::Pending { until_ms }, signed: None, reported: None }
    }

    pub(crate) fn state(&self) -> MeterState {
        self.state
    }

    /// When the first window began, wall clock; none: nothing accrues.
    pub fn started_ms(&self) -> Option<u64> {
        match self.state {
            MeterState::Pending { .. } => None,
            MeterState::Running { started_ms } | MeterState::Suspended { started_ms } => {
                Some(started_ms)
            }
            MeterState::Ended { started_ms, .. } => started_ms,
        }
    }

    /// When the lease ended, wall clock.
    pub(super) fn ended_ms(&self) -> Option<u64> {
        match self.state {
            MeterState::Ended { ended_ms, .. } => Some(ended_ms),
            MeterState::Pending { .. }
            | MeterState::Running { .. }
            | MeterState::Suspended { .. } => None,
        }
    }

    /// The last receipt that both signed.
    pub fn signed(&self) -> Option<&SignedReceipt> {
        self.signed.as_ref()
    }

    pub(crate) fn last(&self) -> Option<&Receipt> {
        self.signed.as_ref().map(|signed| &signed.receipt)
    }

    /// Up to when both have signed, wall clock; zero: for nothing.
    pub(crate) fn metered_ms(&self) -> u64 {
        self.last().map_or(0, |last| last.to_ms)
    }

    /// The end of a lease that both have signed for to its end, wall clock.
    pub(crate) fn settled_ms(&self) -> Option<u64> {
        let ended_ms = self.ended_ms()?;
        self.last().is_some_and(|last| last.to_ms >= ended_ms).then_some(ended_ms)
    }

    /// The buyer can use what it bought. Whether that is news.
    pub(crate) fn start(&mut self, now_ms: u64) -> bool {
        let is_news = matches!(self.state, MeterState::Pending { .. });
        if is_news {
            self.state = MeterState::Running { started_ms: now_ms };
        }
        is_news
    }

    /// The lease has ended, at that time.
    pub(crate) fn end(&mut self, ended_ms: u64) {
        self.state = MeterState::Ended { started_ms: self.started_ms(), ended_ms };
    }

    /// Where the next window begins.
    fn next_from_ms(&self) -> Option<u64> {
        self.last().map(|last| last.to_ms).or(self.started_ms())
    }

    /// When a report is due, or an unsigned one has consequences, wall clock.
    pub(crate) fn deadline_ms(&self, agreements: &Agreements) -> Option<u64> {
        let (interval_ms, window_ms) = (interval_ms(agreements), unsigned_window_ms(agreements));
        if let Some(reported) = &self.reported {
            let Receipt { from_ms, to_ms, .. } = reported.receipt;
            // The buyer counts from the last signature, and a first report comes a window after that.
            let after = |windows: u64| {
                let since_report_ms = to_ms.saturating_add((windows - 1) * window_ms);
                since_report_ms.max(from_ms.saturating_add(windows * window_ms))
            };
            return match self.state {
                MeterState::Running { .. } => Some(after(limits::UNSIGNED_SUSPENDS)),
                MeterState::Suspended { .. } => Some(after(limits::UNSIGNED_CLOSES)),
                MeterState::Pending { .. } | MeterState::Ended { .. } => None,
            };
        }
        let from_ms = self.next_from_ms()?;
        match self.ended_ms() {
            Some(ended_ms) => (from_ms < ended_ms).then_some(ended_ms),
            None => Some(from_ms.saturating_add(interval_ms)),
        }
    }

    /// The time of [`deadline_ms`](Self::deadline_ms) may have come.
    pub(crate) fn on_deadline(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        agreements: &Agreements,
    ) -> Result<Overdue, CodecError> {
        if self.is_overdue(exchange.now_ms(), agreements) {
            return Ok(Overdue::Close);
        }
        if self.deadline_ms(agreements).is_none_or(|due_ms| due_ms > exchange.now_ms()) {
            return Ok(Overdue::Nothing);
        }
        if self.reported.is_none() {
            self.report(exchange, agreements)?;
            return Ok(Overdue::Nothing);
        }
        if let MeterState::Running { started_ms } = self.state {
            self.state = MeterState::Suspended { started_ms };
        }
        Ok(Overdue::Nothing)
    }

    /// Provider: whether the lease may be closed over reports that stay unsigned.
    pub(super) fn is_overdue(&self, now_ms: u64, agreements: &Agreements) -> bool {
        let suspended = matches!(self.state, MeterState::Suspended { .. });
        let due_ms = self.deadline_ms(agreements).filter(|_| suspended && self.reported.is_some());
        due_ms.is_some_and(|due_ms| due_ms <= now_ms)
    }

    /// Consumer: since when nothing is signed for, if that is longer than a provider has to bear,
    /// but for the skew of the clocks.
    pub(super) fn unsigned_from_ms(&self, now_ms: u64, agreements: &Agreements) -> Option<u64> {
        let bears_ms = limits::UNSIGNED_CLOSES * unsigned_window_ms(agreements);
        let is_over = |from_ms: &u64| now_ms.saturating_add(CLOCK_SKEW_MS) >= from_ms + bears_ms;
        self.next_from_ms().filter(is_over)
    }

    /// Provider: the buyer will not sign the last report of a lease that has ended. What both have
    /// signed before is all that is billed. Whether it was that report.
    pub(super) fn give_up(&mut self, about: Digest) -> bool {
        let MeterState::Ended { started_ms, .. } = self.state else { return false };
        let reported = self.reported.as_ref().map(|reported| &reported.receipt);
        if reported.and_then(payload_digest) != Some(about) {
            return false;
        }
        self.reported = None;
        let ended_ms = self.next_from_ms().unwrap_or_default();
        self.state = MeterState::Ended { started_ms, ended_ms };
        true
    }

    fn report(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        agreements: &Agreements,
    ) -> Result<(), CodecError> {
        let Some(receipt) = self.next_receipt(exchange, agreements) else { return Ok(()) };
        let signed = exchange.sign(&receipt)?;
        let body = Body::UsageReport { receipt: signed.clone() };
        self.reported = Some(Reported { receipt, signed });
        exchange.ask(Kind::Report, body)
    }

    /// From the last receipt to the last end of a window, or of the lease. None if it
    /// cannot be expressed.
    fn next_receipt(
        &self,
        exchange: &Exchange<'_, '_>,
        agreements: &Agreements,
    ) -> Option<Receipt> {
        let from_ms = self.next_from_ms()?;
        let passed_ms = exchange.now_ms().saturating_sub(from_ms);
        let whole_ms = passed_ms - passed_ms % interval_ms(agreements);
        let to_ms = self.ended_ms().unwrap_or(from_ms + whole_ms);
        let window = agreements.usage(from_ms, to_ms).ok()?;
        let last = self.last();
        let usage = last.map_or(Ok(window.clone()), |last| last.usage.checked_add(&window)).ok()?;
        Some(Receipt {
            contract: exchange.id().into(),
            provider: exchange.us(),
            consumer: exchange.peer(),
            index: last.map_or(0, |last| last.index + 1),
            from_ms,
            to_ms,
            amount: agreements.terms().price.total(&usage).ok()?,
            usage,
            previous: last.and_then(payload_digest),
        })
    }

    /// Provider: the consumer has countersigned.
    pub(crate) fn on_receipt(&mut self, exchange: &mut Exchange<'_, '_>, signed: &Signed<Receipt>) {
        let Some(Reported { receipt, signed: own }) = &self.reported else { return };
        let both =
            exchange.open_own(own).and_then(|own| Countersigned::join(own, exchange.open(signed)?));
        let Ok(both) = both else { return };
        let (receipt, provider) = (receipt.clone(), own.clone());
        let consumer = both.consumer().signed().clone();
        self.keep(SignedReceipt { receipt, provider, consumer });
        self.reported = None;
        exchange.answered(Kind::Report);
        if let MeterState::Suspended { started_ms } = self.state {
            self.state = MeterState::Running { started_ms };
        }
    }

    /// Consumer: the provider reports. This side's signature, under the same receipt if it came
    /// before; none: it is not what was used. `reclaimed_ms`: by notice it ends then.
    pub(crate) fn agree(
        &mut self,
        exchange: &Exchange<'_, '_>,
        agreements: &Agreements,
        report: &Verified<Receipt>,
        reclaimed_ms: Option<u64>,
    ) -> Option<Signed<Receipt>> {
        if let Some(known) = self.signed.as_ref().filter(|last| last.receipt == **report) {
            return Some(known.consumer.clone());
        }
        let ends_ms = reclaimed_ms.into_iter().chain(self.ended_ms());
        let signs_until_ms = ends_ms.map(exchange.rules().signs_until_ms).min();
        let is_within = signs_until_ms.is_none_or(|until_ms| report.to_ms <= until_ms);
        if !is_within || !self.agrees_to(exchange, agreements, report) {
            return None;
        }
        let consumer = exchange.countersign(report);
        self.keep(SignedReceipt {
            receipt: Receipt::clone(report),
            provider: report.signed().clone(),
            consumer: consumer.clone(),
        });
        Some(consumer)
    }

    /// Nothing before `Ready`, nothing after the contract or this side's own record of its end,
    /// each window once.
    fn agrees_to(
        &self,
        exchange: &Exchange<'_, '_>,
        agreements: &Agreements,
        report: &Receipt,
    ) -> bool {
        let starts_right = match (self.last(), self.started_ms()) {
            (Some(last), _) => report.from_ms == last.to_ms,
            (None, Some(ready_ms)) => report.from_ms.saturating_add(CLOCK_SKEW_MS) >= ready_ms,
            (None, None) => false,
        };
        let latest_ms = exchange.now_ms().saturating_add(CLOCK_SKEW_MS);
        exchange.side() == Side::Consumer
            && starts_right
            && report.contract == exchange.id().into()
            && (report.provider, report.consumer) == (exchange.peer(), exchange.us())
            && report.to_ms <= latest_ms.min(agreements.contract().not_after_ms)
            && self.is_continued_by(agreements, report)
    }

    /// Whether `next` follows the last receipt and adds what its window holds.
    fn is_continued_by(&self, agreements: &Agreements, next: &Receipt) -> bool {
        let none = Usage::default();
        let (index, before, previous) = match self.last() {
            Some(last) => (last.index + 1, &last.usage, payload_digest(last)),
            None => (0, &none, None),
        };
        let window = agreements.usage(next.from_ms, next.to_ms);
        let usage = window.and_then(|window| before.checked_add(&window));
        next.index == index
            && next.previous == previous
            && usage.as_ref() == Ok(&next.usage)
            && agreements.terms().price.total(&next.usage) == Ok(next.amount)
    }

    /// Keeps the next receipt in the place of the last.
    ///
    /// # Panics
    ///
    /// If it does not follow the last one, or bills less: receipts only grow.
    fn keep(&mut self, next: SignedReceipt) {
        let follows = self.last().is_none_or(|last| {
            next.receipt.index == last.index + 1 && next.receipt.usage.is_at_least(&last.usage)
        });
        assert!(follows, "receipt {} does not follow the last one", next.receipt.index);
        self.signed = Some(next);
    }
}

fn interval_ms(agreements: &Agreements) -> u64 {
    u64::from(agreements.terms().metering_interval_s) * 1_000
}

/// How long a window counts while reports stay unsigned: a provider chooses how long one is, and could
/// end without a credit otherwise by being away for a moment.
pub(super) fn unsigned_window_ms(agreements: &Agreements) -> u64 {
    interval_ms(agreements).max(limits::UNSIGNED_WINDOW_MS)
}

fn payload_digest(receipt: &Receipt) -> Option<Digest> {
    receipt.to_bytes().ok().map(|bytes| Digest::of(&bytes))
}
