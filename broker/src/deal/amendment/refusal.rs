//! How a change comes to nothing: refused by either side, withdrawn by the buyer before either
//! has signed it, or not answered in time.

use mercato_protocol::codec::CodecError;
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::{Body, TerminateReason};

use super::{Amendment, Amendments, Progress};
use crate::deal::agreement::Agreements;
use crate::deal::conversation::{Kind, shortened};
use crate::deal::exchange::Exchange;
use crate::deal::order::Side;

impl Amendments {
    /// Nothing comes of the change that is under way, and the other side is told once: the
    /// buyer asks until it knows.
    pub(crate) fn refuse(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        reason: TerminateReason,
        text: &str,
    ) -> Result<(), CodecError> {
        self.end(exchange, reason, text);
        let number = self.last.as_ref().map(|last| last.number);
        number.map_or(Ok(()), |number| self.send_answer(exchange, number))
    }

    /// As [`refuse`](Self::refuse), without a word.
    pub(crate) fn end(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        reason: TerminateReason,
        text: &str,
    ) {
        if let Some(last) = self.last.as_mut().filter(|last| last.refused().is_none()) {
            let at_ms = exchange.now_ms();
            last.progress = Progress::Refused { reason, text: shortened(text), at_ms };
            for kind in [Kind::Amend, Kind::Amendment, Kind::Verification] {
                exchange.answered(kind);
            }
        }
    }

    /// Buyer: the change is wanted no longer. The provider is told until it has heard.
    pub(crate) fn withdraw(&mut self, exchange: &mut Exchange<'_, '_>) -> Result<(), CodecError> {
        self.end(exchange, TerminateReason::Withdrawn, "");
        let withdrawn = self.last.as_ref().and_then(|it| Some((it.number, it.answer()?)));
        withdrawn.map_or(Ok(()), |(number, answer)| {
            exchange.ask(Kind::Withdrawal, Body::Amendment { number, answer })
        })
    }

    /// Provider: a change was withdrawn before it was heard of; it may still come.
    pub(super) fn note_withdrawn(&mut self, at_ms: u64, agreements: &Agreements, number: u32) {
        let is_new = self.last.as_ref().is_none_or(|known| known.number < number);
        if is_new && number > agreements.number() {
            let (reason, text) = (TerminateReason::Withdrawn, String::new());
            let progress = Progress::Refused { reason, text, at_ms };
            let terms = agreements.terms().clone();
            self.last = Some(Amendment { number, terms, asked_ms: at_ms, progress });
        }
    }

    /// When the change that is under way lapses, wall clock.
    pub(crate) fn deadline_ms(&self, side: Side) -> Option<u64> {
        let skew_ms = if side == Side::Consumer { CLOCK_SKEW_MS } else { 0 };
        match &self.last.as_ref()?.progress {
            Progress::Asked { until_ms } => Some(*until_ms),
            Progress::Review { until_ms } => Some(until_ms.saturating_add(skew_ms)),
            Progress::Agreed(agreement) => {
                Some(agreement.contract.commit_by_ms).filter(|_| side == Side::Provider)
            }
            Progress::Refused { .. } => None,
        }
    }

    /// [`deadline_ms`](Self::deadline_ms) may have come; whether it had.
    pub(crate) fn on_deadline(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
    ) -> Result<bool, CodecError> {
        let due_ms = self.deadline_ms(exchange.side());
        let is_due = due_ms.is_some_and(|at_ms| at_ms <= exchange.now_ms());
        if is_due {
            self.refuse(exchange, TerminateReason::Expired, "not answered in time")?;
        }
        Ok(is_due)
    }
}
