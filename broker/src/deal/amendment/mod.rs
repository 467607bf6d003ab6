//! Changes of a running lease: longer or shorter, larger or smaller. The contract is made
//! anew and signed by both like the first one, and takes its place.
//!
//! The buyer drives: it asks until it is answered, and once it has signed it asks until it
//! hears that the change is done or refused. Whether there is room for more is decided where
//! it asks.

mod change;
mod refusal;

use mercato_protocol::codec::CodecError;
use mercato_protocol::contract::{Contract, Terms};
use mercato_protocol::envelope::Signed;
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::{Answer, Body, State, TerminateReason};

use super::agreement::{Agreement, Agreements};
use super::conversation::Kind;
use super::exchange::Exchange;
use super::order::Side;
use super::verdict::Verdict;
use crate::limits;

pub use change::Amendment;
use change::Progress;

/// The change of a lease that is under way, or the last one that came to nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amendments {
    last: Option<Amendment>,
}

/// What a buyer asks for, and what becomes of it if it is new.
pub(crate) struct Asked<'a> {
    pub(crate) number: u32,
    pub(crate) terms: &'a Terms,
    pub(crate) verdict: Verdict,
}

impl Amendments {
    pub(super) fn restored(last: Option<Amendment>) -> Self {
        Self { last }
    }

    /// The change that is under way, or the last one that came to nothing.
    pub(crate) fn last(&self) -> Option<&Amendment> {
        self.last.as_ref()
    }

    /// The change that is under way.
    pub(crate) fn open(&self) -> Option<&Amendment> {
        self.last.as_ref().filter(|last| last.refused().is_none())
    }

    /// The change about which the provider's owner is asked.
    pub(crate) fn in_review(&self) -> Option<&Amendment> {
        self.last.as_ref().filter(|last| last.state() == State::Review)
    }

    /// The contract of a change that the provider has signed.
    pub(crate) fn agreed(&self) -> Option<&Agreement> {
        self.last.as_ref().and_then(Amendment::agreement)
    }

    /// Whether this side has signed a change and does not know whether it stands: the consumer's
    /// doubt.
    pub(crate) fn is_in_doubt(&self, side: Side) -> bool {
        side == Side::Consumer && self.agreed().is_some()
    }

    fn numbered(&self, number: u32) -> Option<&Amendment> {
        self.last.as_ref().filter(|last| last.number == number)
    }

    /// Buyer: asks for a change.
    pub(crate) fn ask(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        agreements: &Agreements,
        terms: Terms,
    ) -> Result<(), CodecError> {
        let last = self.last.as_ref().map_or(0, |last| last.number);
        let number = agreements.number().max(last) + 1;
        let asked_ms = exchange.now_ms();
        let progress = Progress::Asked { until_ms: asked_ms + limits::REQUEST_MS };
        let body = Body::Amend { number, terms: terms.clone() };
        exchange.answered(Kind::Withdrawal);
        self.last = Some(Amendment { number, terms, asked_ms, progress });
        exchange.ask(Kind::Amend, body)
    }

    /// Provider: the buyer asks for a change, which was judged as if it were new.
    pub(crate) fn on_asked(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        agreements: &Agreements,
        asked: Asked<'_>,
    ) -> Result<(), CodecError> {
        let Asked { number, terms, verdict } = asked;
        if number <= agreements.number() {
            return send(exchange, number, Answer::Done);
        }
        match &self.last {
            Some(known) if known.number > number => return Ok(()),
            Some(known) if known.number == number && known.terms == *terms => {
                return self.send_answer(exchange, number);
            }
            Some(known) if known.number == number => {
                let text = "a change came twice, with two contents";
                return self.refuse(exchange, TerminateReason::Conflict, text);
            }
            Some(_) | None => {}
        }
        let asked_ms = exchange.now_ms();
        let until_ms = asked_ms.saturating_add(limits::REVIEW_MS);
        let (terms, progress) = (terms.clone(), Progress::Review { until_ms });
        exchange.answered(Kind::Amendment);
        self.last = Some(Amendment { number, terms, asked_ms, progress });
        match verdict {
            Verdict::Grant(_) => self.agree(exchange, agreements),
            Verdict::Ask => send(exchange, number, Answer::Review { until_ms }),
            Verdict::Refuse(reason, text) => self.refuse(exchange, reason, &text),
        }
    }

    /// Provider: signs the contract as it is to be, and holds what it takes more, which the
    /// ledger has to spare.
    pub(crate) fn agree(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        agreements: &Agreements,
    ) -> Result<(), CodecError> {
        let commit_by_ms = exchange.now_ms().saturating_add(limits::COMMIT_MS);
        let Some(last) = &mut self.last else { return Ok(()) };
        let contract = last.contract(exchange, agreements, commit_by_ms)?;
        let provider = exchange.sign(&contract)?;
        let (number, answer) = (last.number, Answer::Agreed { contract: provider.clone() });
        last.progress = Progress::Agreed(Agreement { contract, provider, consumer: None });
        exchange.ask(Kind::Amendment, Body::Amendment { number, answer })
    }

    /// Either side hears what becomes of a change.
    pub(crate) fn on_answer(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        agreements: &mut Agreements,
        number: u32,
        answer: &Answer,
    ) -> Result<(), CodecError> {
        let side = exchange.side();
        if let (Side::Provider, Answer::Refused { .. }) = (side, answer) {
            self.note_withdrawn(exchange.now_ms(), agreements, number);
        }
        let Some(last) = self.last.as_mut().filter(|last| last.number == number) else {
            return Ok(());
        };
        match (side, answer) {
            (_, Answer::Refused { reason, text }) => {
                self.end(exchange, *reason, text);
                exchange.answered(Kind::Withdrawal);
                match side {
                    Side::Consumer => Ok(()),
                    // The buyer says it until it is heard.
                    Side::Provider => self.send_answer(exchange, number),
                }
            }
            (Side::Consumer, Answer::Review { until_ms }) => {
                if last.state() == State::Requested {
                    let latest_ms = exchange.now_ms() + limits::REVIEW_MS;
                    last.progress = Progress::Review { until_ms: latest_ms.min(*until_ms) };
                }
                Ok(())
            }
            (Side::Consumer, Answer::Agreed { contract }) => {
                self.on_agreed(exchange, agreements, contract)
            }
            (Side::Consumer, Answer::Done) => {
                self.make(exchange, agreements);
                Ok(())
            }
            (Side::Provider, Answer::Review { .. } | Answer::Agreed { .. } | Answer::Done) => {
                Ok(())
            }
        }
    }

    fn on_agreed(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        agreements: &Agreements,
        signed: &Signed<Contract>,
    ) -> Result<(), CodecError> {
        let Some(last) = &mut self.last else { return Ok(()) };
        match &last.progress {
            Progress::Refused { .. } => {
                let number = last.number;
                return self.send_answer(exchange, number);
            }
            Progress::Agreed(_) => return Ok(()),
            Progress::Asked { .. } | Progress::Review { .. } => {}
        }
        let now_ms = exchange.now_ms();
        let opened = exchange.open(signed).ok();
        let expected = opened
            .as_ref()
            .map(|it| last.contract(exchange, agreements, it.commit_by_ms))
            .transpose()?;
        let in_time = |it: &Contract| {
            it.commit_by_ms.saturating_add(CLOCK_SKEW_MS) >= now_ms
                && it.commit_by_ms <= now_ms.saturating_add(limits::COMMIT_MS + CLOCK_SKEW_MS)
        };
        let right = |it: &Contract| in_time(it) && expected.as_ref() == Some(it);
        let Some(contract) = opened.filter(|opened| right(opened)) else {
            let text = "the contract is not what was asked for";
            return self.refuse(exchange, TerminateReason::TermsRefused, text);
        };
        let consumer = exchange.countersign(&contract);
        last.progress = Progress::Agreed(Agreement {
            provider: contract.signed().clone(),
            consumer: Some(consumer.clone()),
            contract: contract.into_value(),
        });
        exchange.answered(Kind::Amend);
        exchange.ask(Kind::Verification, Body::Verification { contract: consumer })
    }

    /// Provider: what is answered to a buyer's signature under a changed contract; none: it
    /// is under no such contract. Storing it is the commit point, as long as the lease runs.
    pub(crate) fn on_signed(
        &mut self,
        exchange: &mut Exchange<'_, '_>,
        agreements: &mut Agreements,
        signed: &Signed<Contract>,
        runs: bool,
    ) -> Option<Body> {
        let theirs = exchange.open(signed).ok()?;
        let number = theirs.amends?.number;
        let own = self.numbered(number).and_then(Amendment::agreement).filter(|_| runs);
        let is_signed = own.is_some_and(|own| own.contract == *theirs);
        let answer = if is_signed {
            if let Some(Amendment { progress: Progress::Agreed(agreement), .. }) = &mut self.last {
                agreement.consumer = Some(theirs.signed().clone());
            }
            self.make(exchange, agreements);
            Answer::Done
        } else if number <= agreements.number() {
            Answer::Done
        } else {
            let (reason, text) = (TerminateReason::Expired, "not this contract, or too late");
            if self.numbered(number).is_some() {
                self.end(exchange, reason, text);
            }
            let refused = self.numbered(number).and_then(Amendment::answer);
            refused.unwrap_or(Answer::Refused { reason, text: text.to_owned() })
        };
        Some(Body::Amendment { number, answer })
    }

    /// The changed contract takes the place of the one before, if both have signed it.
    fn make(&mut self, exchange: &mut Exchange<'_, '_>, agreements: &mut Agreements) {
        if self.agreed().is_none() {
            return;
        }
        if let Some(Amendment { progress: Progress::Agreed(agreement), .. }) = self.last.take() {
            agreements.replace(agreement);
        }
        exchange.answered(Kind::Verification);
        exchange.answered(Kind::Amendment);
    }

    /// Says again what became of a change.
    fn send_answer(&self, exchange: &mut Exchange<'_, '_>, number: u32) -> Result<(), CodecError> {
        let answer = self.numbered(number).and_then(Amendment::answer);
        answer.map_or(Ok(()), |answer| send(exchange, number, answer))
    }
}

fn send(exchange: &mut Exchange<'_, '_>, number: u32, answer: Answer) -> Result<(), CodecError> {
    exchange.send(Body::Amendment { number, answer })
}
