//! Metering: cumulative reports by the provider, countersigned by the consumer.
//!
//! Reserved quantity times time is billed, from the provider's hearing `Ready` to the
//! end of the lease. One report is under way at a time; the next covers all that has
//! passed since. Settling what is owed is left to others.

use mercato_protocol::codec::{CodecError, Message as _};
use mercato_protocol::envelope::{Countersigned, Signed, Verified};
use mercato_protocol::id::Digest;
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::{Body, CloseReason, DisputeReason, Message};
use mercato_protocol::price::{PriceError, Usage};
use mercato_protocol::receipt::Receipt;
use serde::{Deserialize, Serialize};

use crate::deal::conversation::{Kind, Turn};
use crate::deal::{Deal, Side, Stage};
use crate::limits;

/// What was used of one lease, as far as it was reported and signed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meter {
    /// When the buyer said that it can use it, wall clock by this side: before it nothing
    /// accrues.
    pub(crate) started_ms: Option<u64>,
    /// When the lease ended, wall clock by this side.
    pub(crate) ended_ms: Option<u64>,
    /// The last receipt that both signed.
    pub(crate) signed: Option<SignedReceipt>,
    /// Provider: reported, not signed by the buyer yet.
    pub(crate) reported: Option<Reported>,
}

/// A receipt and both signatures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedReceipt {
    /// What was signed.
    pub receipt: Receipt,
    /// By the provider.
    pub provider: Signed<Receipt>,
    /// By the consumer.
    pub consumer: Signed<Receipt>,
}

/// A receipt with the provider's signature alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reported {
    receipt: Receipt,
    signed: Signed<Receipt>,
}

impl Meter {
    /// When the first window began, wall clock; none: nothing accrues.
    pub fn started_ms(&self) -> Option<u64> {
        self.started_ms
    }

    /// The last receipt that both signed.
    pub fn signed(&self) -> Option<&SignedReceipt> {
        self.signed.as_ref()
    }

    /// Where the next window begins.
    fn next_from_ms(&self) -> Option<u64> {
        let last = self.signed.as_ref().map(|last| last.receipt.to_ms);
        last.or(self.started_ms)
    }
}

fn payload_digest(receipt: &Receipt) -> Option<Digest> {
    receipt.to_bytes().ok().map(|bytes| Digest::of(&bytes))
}

impl Deal {
    /// Reserved quantity times time between two moments, by the contract in force at each.
    pub(crate) fn usage(&self, from_ms: u64, to_ms: u64) -> Result<Usage, PriceError> {
        let contracts = || self.contracts();
        let begins = contracts().skip(1).map(|later| later.amends.map_or(0, |it| it.from_ms));
        let mut from_ms = from_ms;
        let mut sum = Usage::default();
        for (contract, end_ms) in contracts().zip(begins.chain([to_ms])) {
            let end_ms = end_ms.clamp(from_ms, to_ms.max(from_ms));
            sum = sum.checked_add(&Usage::of(&contract.terms.quantity, end_ms - from_ms)?)?;
            from_ms = end_ms;
        }
        Ok(sum)
    }

    /// Whether `next` follows the last receipt and adds what its window holds.
    fn is_continued_by(&self, next: &Receipt) -> bool {
        let none = Usage::default();
        let (index, before, previous) = match &self.meter.signed {
            Some(last) => {
                (last.receipt.index + 1, &last.receipt.usage, payload_digest(&last.receipt))
            }
            None => (0, &none, None),
        };
        let window = self.usage(next.from_ms, next.to_ms);
        let usage = window.and_then(|window| before.checked_add(&window));
        let usage_is_right = usage.as_ref() == Ok(&next.usage);
        next.index == index
            && next.previous == previous
            && usage_is_right
            && self.terms().price.total(&next.usage) == Ok(next.amount)
    }

    fn interval_ms(&self) -> u64 {
        u64::from(self.terms().metering_interval_s) * 1_000
    }

    /// When a report is due, or an unsigned one has consequences, wall clock.
    pub(crate) fn meter_deadline_ms(&self) -> Option<u64> {
        if let Some(reported) = &self.meter.reported {
            let after = |windows: u64| {
                reported.receipt.to_ms.saturating_add((windows - 1) * self.interval_ms())
            };
            return match self.stage {
                Stage::Active => Some(after(limits::UNSIGNED_SUSPENDS)),
                Stage::Suspended => Some(after(limits::UNSIGNED_CLOSES)),
                Stage::Requested { .. }
                | Stage::Review { .. }
                | Stage::Offered
                | Stage::Agreed
                | Stage::Pending { .. }
                | Stage::Closed { .. }
                | Stage::Terminated { .. } => None,
            };
        }
        let from_ms = self.meter.next_from_ms()?;
        match self.meter.ended_ms {
            Some(ended_ms) => (from_ms < ended_ms).then_some(ended_ms),
            None => Some(from_ms.saturating_add(self.interval_ms())),
        }
    }

    /// [`meter_deadline_ms`](Self::meter_deadline_ms) may have come.
    pub(crate) fn on_meter_deadline(&mut self, turn: &mut Turn<'_>) -> Result<(), CodecError> {
        if self.meter_deadline_ms().is_none_or(|due_ms| due_ms > turn.now.wall_ms) {
            return Ok(());
        }
        if self.meter.reported.is_none() {
            return self.report(turn);
        }
        if self.stage == Stage::Active {
            self.stage = Stage::Suspended;
            return Ok(());
        }
        self.close(turn, CloseReason::Unsigned, "usage reports stayed unsigned")
    }

    fn report(&mut self, turn: &mut Turn<'_>) -> Result<(), CodecError> {
        let Some(receipt) = self.next_receipt(turn) else { return Ok(()) };
        let signed = turn.config.key.sign(turn.config.federation, &receipt)?;
        let body = Body::UsageReport { receipt: signed.clone() };
        self.meter.reported = Some(Reported { receipt, signed });
        self.talk.ask(turn, Kind::Report, body)
    }

    /// From the last receipt to the last end of a window, or of the lease. None if it
    /// cannot be expressed.
    fn next_receipt(&self, turn: &Turn<'_>) -> Option<Receipt> {
        let from_ms = self.meter.next_from_ms()?;
        let passed_ms = turn.now.wall_ms.saturating_sub(from_ms);
        let whole_ms = passed_ms - passed_ms % self.interval_ms();
        let to_ms = self.meter.ended_ms.unwrap_or(from_ms + whole_ms);
        let window = self.usage(from_ms, to_ms).ok()?;
        let last = self.meter.signed.as_ref().map(|last| &last.receipt);
        let usage = last.map_or(Ok(window.clone()), |last| last.usage.checked_add(&window)).ok()?;
        Some(Receipt {
            contract: self.id(),
            provider: turn.config.cluster(),
            consumer: self.talk.peer,
            index: last.map_or(0, |last| last.index + 1),
            from_ms,
            to_ms,
            amount: self.terms().price.total(&usage).ok()?,
            usage,
            previous: last.and_then(payload_digest),
        })
    }

    /// Provider: the consumer has countersigned.
    pub(crate) fn on_receipt(&mut self, turn: &Turn<'_>, signed: &Signed<Receipt>) {
        let Some(Reported { receipt, signed: own }) = &self.meter.reported else { return };
        let both = Self::open_own(turn, own)
            .and_then(|own| Countersigned::join(own, self.open(turn, signed)?));
        let Ok(both) = both else { return };
        self.meter.signed = Some(SignedReceipt {
            receipt: receipt.clone(),
            provider: own.clone(),
            consumer: both.consumer().signed().clone(),
        });
        self.meter.reported = None;
        self.talk.answered(Kind::Report);
        if self.stage == Stage::Suspended {
            self.stage = Stage::Active;
        }
    }

    /// Consumer: the provider reports. What it cannot agree to stays unsigned.
    pub(crate) fn on_report(
        &mut self,
        turn: &mut Turn<'_>,
        message: &Verified<Message>,
        signed: &Signed<Receipt>,
    ) -> Result<(), CodecError> {
        let Ok(report) = self.open(turn, signed) else { return Ok(()) };
        self.talk.answered(Kind::Ready);
        let known = self.meter.signed.as_ref().filter(|last| last.receipt == *report);
        let consumer = match known {
            Some(last) => last.consumer.clone(),
            None if self.agrees_to(turn, &report) => {
                let consumer = turn.config.key.countersign(turn.config.federation, &report);
                self.meter.signed = Some(SignedReceipt {
                    provider: report.signed().clone(),
                    consumer: consumer.clone(),
                    receipt: report.into_value(),
                });
                consumer
            }
            // What is in doubt may be in it: it is reported again.
            None if self.is_change_in_doubt() => return Ok(()),
            None => {
                tracing::warn!(contract = %self.id(), index = report.index, "usage report refused");
                let about = Digest::of(report.payload());
                return self.dispute(turn, about, DisputeReason::Usage, "not what was used");
            }
        };
        self.talk.reply(turn, message.digest(), Body::UsageReceipt { receipt: consumer })
    }

    /// Nothing before `Ready`, nothing after the contract, each window once.
    fn agrees_to(&self, turn: &Turn<'_>, report: &Receipt) -> bool {
        let Some(agreement) = &self.agreement else { return false };
        let starts_right = match (&self.meter.signed, self.meter.started_ms) {
            (Some(last), _) => report.from_ms == last.receipt.to_ms,
            (None, Some(ready_ms)) => report.from_ms.saturating_add(CLOCK_SKEW_MS) >= ready_ms,
            (None, None) => false,
        };
        let latest_ms = turn.now.wall_ms.saturating_add(CLOCK_SKEW_MS);
        self.side == Side::Consumer
            && starts_right
            && report.contract == self.id()
            && (report.provider, report.consumer) == (self.talk.peer, turn.config.cluster())
            && report.to_ms <= latest_ms.min(agreement.contract.not_after_ms)
            && self.is_continued_by(report)
    }
}
