//! Changes of a running lease: longer or shorter, larger or smaller. The contract is made
//! anew and signed by both like the first one, and takes its place.
//!
//! The buyer drives: it asks until it is answered, and once it has signed it asks until it
//! hears that the change is done or refused. Whether there is room for more is decided where
//! it asks.

use std::sync::Arc;

use mercato_protocol::codec::{CodecError, Message as _};
use mercato_protocol::contract::{Amends, Contract, Party, Terms};
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::Digest;
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::{Answer, Body, State, TerminateReason};
use serde::{Deserialize, Serialize};

use crate::broker::orders::Verdict;
use crate::deal::conversation::{Kind, Turn};
use crate::deal::{Agreement, Deal, Side};
use crate::limits;

/// A change that was asked for and is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub(crate) number: u32,
    /// What the contract is to say.
    pub(crate) terms: Terms,
    pub(crate) step: Step,
}

/// How far it is. Times are wall clock, milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[allow(clippy::large_enum_variant, reason = "one for each deal at most")]
pub(crate) enum Step {
    /// Consumer: no answer until then.
    Asked { until_ms: u64 },
    /// The provider's owner is asked until then.
    Review { until_ms: u64 },
    /// Provider: signed, what it takes more is held. Consumer: signed as well, and in doubt.
    Agreed(Agreement),
    /// It came to nothing, then.
    Refused {
        reason: TerminateReason,
        text: String,
        #[serde(default)]
        at_ms: u64,
    },
}

impl Change {
    /// What the contract is to say.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// How far it is: `Requested`, `Review`, `Agreed` or `Terminated`.
    pub fn state(&self) -> State {
        match self.step {
            Step::Asked { .. } => State::Requested,
            Step::Review { .. } => State::Review,
            Step::Agreed(_) => State::Agreed,
            Step::Refused { .. } => State::Terminated,
        }
    }

    /// Why nothing came of it.
    pub fn refused(&self) -> Option<(TerminateReason, &str)> {
        match &self.step {
            Step::Refused { reason, text, .. } => Some((*reason, text)),
            Step::Asked { .. } | Step::Review { .. } | Step::Agreed(_) => None,
        }
    }

    /// When nothing came of it, wall clock; none: something may.
    pub fn refused_ms(&self) -> Option<u64> {
        match &self.step {
            Step::Refused { at_ms, .. } => Some(*at_ms),
            Step::Asked { .. } | Step::Review { .. } | Step::Agreed(_) => None,
        }
    }

    /// Counts the changes that were asked of this lease, from one.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The contract as it is to be, once the provider has signed it.
    fn agreement(&self) -> Option<&Agreement> {
        match &self.step {
            Step::Agreed(agreement) => Some(agreement),
            Step::Asked { .. } | Step::Review { .. } | Step::Refused { .. } => None,
        }
    }

    /// What the other side is told; none: it is being told.
    pub(crate) fn answer(&self) -> Option<Answer> {
        match &self.step {
            Step::Review { until_ms } => Some(Answer::Review { until_ms: *until_ms }),
            Step::Refused { reason, text, .. } => {
                Some(Answer::Refused { reason: *reason, text: text.clone() })
            }
            Step::Asked { .. } | Step::Agreed(_) => None,
        }
    }
}

impl Deal {
    /// The change that is under way, or the last one that came to nothing.
    pub fn change(&self) -> Option<&Change> {
        self.change.as_ref()
    }

    /// The change that is under way.
    pub(crate) fn open_change(&self) -> Option<&Change> {
        self.change.as_ref().filter(|change| change.refused().is_none())
    }

    /// Whether the provider's owner is asked about a change.
    pub(crate) fn is_change_asked(&self) -> bool {
        let asked = |change: &Change| change.state() == State::Review;
        self.side == Side::Provider && self.change.as_ref().is_some_and(asked)
    }

    /// Consumer: whether it has signed a change and does not know whether it stands.
    pub(crate) fn is_change_in_doubt(&self) -> bool {
        self.side == Side::Consumer && self.agreed_change().is_some()
    }

    pub(crate) fn agreed_change(&self) -> Option<&Agreement> {
        self.change.as_ref().and_then(Change::agreement)
    }

    /// The number of the last change that was made.
    pub(crate) fn changed(&self) -> u32 {
        let amends = self.agreement.as_ref().and_then(|agreement| agreement.contract.amends);
        amends.map_or(0, |amends| amends.number)
    }

    /// Buyer: asks for a change.
    pub(crate) fn ask_change(
        &mut self,
        turn: &mut Turn<'_>,
        terms: Terms,
    ) -> Result<(), CodecError> {
        let last = self.change.as_ref().map_or(0, |change| change.number);
        let number = self.changed().max(last) + 1;
        let step = Step::Asked { until_ms: turn.now.wall_ms + limits::REQUEST_MS };
        let body = Body::Amend { number, terms: terms.clone() };
        self.talk.answered(Kind::Withdrawal);
        self.change = Some(Change { number, terms, step });
        self.talk.ask(turn, Kind::Amend, body)
    }

    /// Provider: the buyer asks for a change, which was judged as if it were new.
    pub(crate) fn on_amend(
        &mut self,
        turn: &mut Turn<'_>,
        (number, terms): (u32, &Terms),
        verdict: Verdict,
    ) -> Result<(), CodecError> {
        if number <= self.changed() {
            return self.answer(turn, number, Answer::Done);
        }
        match &self.change {
            Some(known) if known.number > number => return Ok(()),
            Some(known) if known.number == number && known.terms == *terms => {
                return self.answer_change(turn, number);
            }
            Some(known) if known.number == number => {
                let text = "a change came twice, with two contents";
                return self.refuse_change(turn, TerminateReason::Conflict, text);
            }
            Some(_) | None => {}
        }
        let until_ms = turn.now.wall_ms.saturating_add(limits::REVIEW_MS);
        let (terms, step) = (terms.clone(), Step::Review { until_ms });
        self.talk.answered(Kind::Amendment);
        self.change = Some(Change { number, terms, step });
        match verdict {
            Verdict::Grant(_) => self.agree_change(turn),
            Verdict::Ask => self.answer(turn, number, Answer::Review { until_ms }),
            Verdict::Refuse(reason, text) => self.refuse_change(turn, reason, text),
        }
    }

    /// Provider: signs the contract as it is to be, and holds what it takes more, which the
    /// ledger has to spare.
    pub(crate) fn agree_change(&mut self, turn: &mut Turn<'_>) -> Result<(), CodecError> {
        let commit_by_ms = turn.now.wall_ms.saturating_add(limits::COMMIT_MS);
        let Some(contract) = self.next_contract(turn, commit_by_ms)? else { return Ok(()) };
        let Some(change) = &mut self.change else { return Ok(()) };
        let provider = turn.config.key.sign(turn.config.federation, &contract)?;
        change.step =
            Step::Agreed(Agreement { contract, provider: provider.clone(), consumer: None });
        let (number, answer) = (change.number, Answer::Agreed { contract: provider });
        self.talk.ask(turn, Kind::Amendment, Body::Amendment { number, answer })
    }

    /// The contract with the change that is under way: all else stays.
    fn next_contract(
        &self,
        turn: &Turn<'_>,
        commit_by_ms: u64,
    ) -> Result<Option<Contract>, CodecError> {
        let Some((agreement, change)) = self.agreement.as_ref().zip(self.change.as_ref()) else {
            return Ok(None);
        };
        let before = &agreement.contract;
        let previous = Digest::of(&before.to_bytes()?);
        let term_ms = change.terms.term_s.saturating_mul(1_000);
        // Either side may have changed its key since.
        let (ours, theirs) = (turn.config.key.public(), self.talk.key);
        let (provider, consumer) = match self.side {
            Side::Provider => (ours, theirs),
            Side::Consumer => (theirs, ours),
        };
        Ok(Some(Contract {
            provider: Party { key: provider, ..before.provider.clone() },
            consumer: Party { key: consumer, ..before.consumer.clone() },
            terms: change.terms.clone(),
            not_after_ms: before.not_before_ms.saturating_add(term_ms),
            commit_by_ms,
            amends: Some(Amends { number: change.number, previous, from_ms: commit_by_ms }),
            ..before.clone()
        }))
    }

    /// Either side hears what becomes of a change.
    pub(crate) fn on_amendment(
        &mut self,
        turn: &mut Turn<'_>,
        number: u32,
        answer: &Answer,
    ) -> Result<(), CodecError> {
        if let (Side::Provider, Answer::Refused { .. }) = (self.side, answer) {
            self.note_withdrawn(turn, number);
        }
        let Some(change) = self.change.as_mut().filter(|change| change.number == number) else {
            return Ok(());
        };
        match (self.side, answer) {
            (_, Answer::Refused { reason, text }) => {
                self.end_change(turn, *reason, text);
                self.talk.answered(Kind::Withdrawal);
                match self.side {
                    Side::Consumer => Ok(()),
                    // The buyer says it until it is heard.
                    Side::Provider => self.answer_change(turn, number),
                }
            }
            (Side::Consumer, Answer::Review { until_ms }) => {
                if change.state() == State::Requested {
                    let latest_ms = turn.now.wall_ms + limits::REVIEW_MS;
                    change.step = Step::Review { until_ms: latest_ms.min(*until_ms) };
                }
                Ok(())
            }
            (Side::Consumer, Answer::Agreed { contract }) => self.on_change_agreed(turn, contract),
            (Side::Consumer, Answer::Done) => {
                if change.agreement().is_some() {
                    self.make_change();
                }
                Ok(())
            }
            (Side::Provider, Answer::Review { .. } | Answer::Agreed { .. } | Answer::Done) => {
                Ok(())
            }
        }
    }

    fn on_change_agreed(
        &mut self,
        turn: &mut Turn<'_>,
        signed: &Signed<Contract>,
    ) -> Result<(), CodecError> {
        let Some(change) = &self.change else { return Ok(()) };
        let number = change.number;
        match &change.step {
            Step::Refused { .. } => return self.answer_change(turn, number),
            Step::Agreed(_) => return Ok(()),
            Step::Asked { .. } | Step::Review { .. } => {}
        }
        let now_ms = turn.now.wall_ms;
        let opened = self.open(turn, signed).ok();
        let expected =
            opened.as_ref().map(|it| self.next_contract(turn, it.commit_by_ms)).transpose()?;
        let in_time = |it: &Contract| {
            it.commit_by_ms.saturating_add(CLOCK_SKEW_MS) >= now_ms
                && it.commit_by_ms <= now_ms.saturating_add(limits::COMMIT_MS + CLOCK_SKEW_MS)
        };
        let right = |it: &Contract| in_time(it) && expected.flatten().is_some_and(|e| e == *it);
        let Some(contract) = opened.filter(|opened| right(opened)) else {
            let text = "the contract is not what was asked for";
            return self.refuse_change(turn, TerminateReason::TermsRefused, text);
        };
        let consumer = turn.config.key.countersign(turn.config.federation, &contract);
        if let Some(change) = &mut self.change {
            change.step = Step::Agreed(Agreement {
                provider: contract.signed().clone(),
                consumer: Some(consumer.clone()),
                contract: contract.into_value(),
            });
        }
        self.talk.answered(Kind::Amend);
        self.talk.ask(turn, Kind::Verification, Body::Verification { contract: consumer })
    }

    /// Provider: what is answered to a buyer's signature under a changed contract; none: it
    /// is under no such contract. Storing it is the commit point.
    pub(crate) fn on_change_signed(
        &mut self,
        turn: &Turn<'_>,
        signed: &Signed<Contract>,
    ) -> Option<Body> {
        let number = self.open(turn, signed).ok()?.amends?.number;
        let asked = self.change.as_ref().filter(|change| change.number == number);
        let own = asked.and_then(Change::agreement).filter(|_| self.stage.is_leased());
        let consumer = own.and_then(|own| self.countersigned(turn, &own.contract, signed));
        let answer = match consumer {
            Some(consumer) => {
                if let Some(Change { step: Step::Agreed(agreement), .. }) = &mut self.change {
                    agreement.consumer = Some(consumer);
                }
                self.make_change();
                Answer::Done
            }
            None if number <= self.changed() => Answer::Done,
            None => {
                let (reason, text) = (TerminateReason::Expired, "not this contract, or too late");
                if asked.is_some() {
                    self.end_change(turn, reason, text);
                }
                let known = self.change.as_ref().filter(|change| change.number == number);
                let refused = known.and_then(Change::answer);
                refused.unwrap_or(Answer::Refused { reason, text: text.to_owned() })
            }
        };
        Some(Body::Amendment { number, answer })
    }

    /// The changed contract takes the place of the one before.
    fn make_change(&mut self) {
        if let Some(Change { step: Step::Agreed(agreement), .. }) = self.change.take() {
            self.earlier.extend(self.agreement.replace(agreement).map(Arc::new));
        }
        self.talk.answered(Kind::Verification);
        self.talk.answered(Kind::Amendment);
    }

    /// Says again what became of a change.
    pub(crate) fn answer_change(
        &mut self,
        turn: &mut Turn<'_>,
        number: u32,
    ) -> Result<(), CodecError> {
        let known = self.change.as_ref().filter(|change| change.number == number);
        let answer = known.and_then(Change::answer);
        answer.map_or(Ok(()), |answer| self.answer(turn, number, answer))
    }

    fn answer(
        &mut self,
        turn: &mut Turn<'_>,
        number: u32,
        answer: Answer,
    ) -> Result<(), CodecError> {
        self.talk.say(turn, Body::Amendment { number, answer })
    }
}
