//! How a change comes to nothing: refused by either side, withdrawn by the buyer before either
//! has signed it, or not answered in time.

use mercato_protocol::codec::CodecError;
use mercato_protocol::id::ContractId;
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::{Body, State, TerminateReason};
use mercato_protocol::time::Now;

use crate::broker::Broker;
use crate::broker::command::{Refusal, Reply};
use crate::broker::effect::Effect;
use crate::deal::amendment::{Change, Step};
use crate::deal::conversation::{Kind, Turn, shortened};
use crate::deal::{Deal, Side};

impl Broker {
    /// Buyer: what it asked for is wanted no longer. What it has signed is in doubt until the
    /// provider's word.
    pub(crate) fn withdraw(
        &mut self,
        now: Now,
        contract: ContractId,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        if self.degraded {
            return Err(Refusal::Degraded);
        }
        let deal = self.bought(contract)?;
        let waits = |change: &Change| matches!(change.state(), State::Requested | State::Review);
        deal.change.as_ref().filter(|change| waits(change)).ok_or(Refusal::NoChange(contract))?;
        self.edit(now, contract, effects, Deal::withdraw_change)?;
        Ok(Reply::Done)
    }
}

impl Deal {
    /// Nothing comes of the change that is under way, and the other side is told once: the
    /// buyer asks until it knows.
    pub(crate) fn refuse_change(
        &mut self,
        turn: &mut Turn<'_>,
        reason: TerminateReason,
        text: &str,
    ) -> Result<(), CodecError> {
        self.end_change(turn, reason, text);
        let number = self.change.as_ref().map(|change| change.number);
        number.map_or(Ok(()), |number| self.answer_change(turn, number))
    }

    /// As [`refuse_change`](Self::refuse_change), without a word.
    pub(crate) fn end_change(&mut self, turn: &Turn<'_>, reason: TerminateReason, text: &str) {
        if let Some(change) = self.change.as_mut().filter(|change| change.refused().is_none()) {
            let at_ms = turn.now.wall_ms;
            change.step = Step::Refused { reason, text: shortened(text), at_ms };
            for kind in [Kind::Amend, Kind::Amendment, Kind::Verification] {
                self.talk.answered(kind);
            }
        }
    }

    /// Buyer: the change is wanted no longer. The provider is told until it has heard.
    pub(crate) fn withdraw_change(&mut self, turn: &mut Turn<'_>) -> Result<(), CodecError> {
        self.end_change(turn, TerminateReason::Withdrawn, "");
        let withdrawn = self.change.as_ref().and_then(|it| Some((it.number, it.answer()?)));
        withdrawn.map_or(Ok(()), |(number, answer)| {
            self.talk.ask(turn, Kind::Withdrawal, Body::Amendment { number, answer })
        })
    }

    /// Provider: a change was withdrawn before it was heard of; it may still come.
    pub(crate) fn note_withdrawn(&mut self, turn: &Turn<'_>, number: u32) {
        let is_new = self.change.as_ref().is_none_or(|known| known.number < number);
        if is_new && number > self.changed() && self.agreement.is_some() {
            let (reason, at_ms) = (TerminateReason::Withdrawn, turn.now.wall_ms);
            let step = Step::Refused { reason, text: String::new(), at_ms };
            self.change = Some(Change { number, terms: self.terms().clone(), step });
        }
    }

    /// When the change that is under way lapses, wall clock.
    pub fn change_deadline_ms(&self) -> Option<u64> {
        let change = self.change.as_ref()?;
        let skew_ms = if self.side == Side::Consumer { CLOCK_SKEW_MS } else { 0 };
        match &change.step {
            Step::Asked { until_ms } => Some(*until_ms),
            Step::Review { until_ms } => Some(until_ms.saturating_add(skew_ms)),
            Step::Agreed(agreement) => {
                Some(agreement.contract.commit_by_ms).filter(|_| self.side == Side::Provider)
            }
            Step::Refused { .. } => None,
        }
    }

    /// [`change_deadline_ms`](Self::change_deadline_ms) may have come; whether it had.
    pub(crate) fn on_change_deadline(&mut self, turn: &mut Turn<'_>) -> Result<bool, CodecError> {
        let due = self.change_deadline_ms().is_some_and(|at_ms| at_ms <= turn.now.wall_ms);
        if due {
            self.refuse_change(turn, TerminateReason::Expired, "not answered in time")?;
        }
        Ok(due)
    }
}
