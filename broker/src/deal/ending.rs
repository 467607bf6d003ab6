//! What a lease comes to, by who ended it, when, and what this side has on record. Why the other
//! side says that it ended is for people: nothing here follows from it. What is taken off a bill
//! in money is the settlement's.

use mercato_protocol::invoice::Notice;
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::CloseReason;
use serde::{Deserialize, Serialize};

use super::order::Side;

/// Who ended a lease and when, as this side knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    /// Who closed it first: this side, or the other one by a word that is surely its own.
    pub by: Side,
    /// When this side closed it or heard of it, wall clock, milliseconds.
    pub at_ms: u64,
    /// Why, in the other side's words: for people. No rule reads it, and a simulation plants one
    /// that does.
    pub said: Option<CloseReason>,
}

/// What one side has on record of a lease that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The side whose records these are.
    pub side: Side,
    /// How far the lease was then.
    pub stage: Stage,
    /// What was heard of its being made ready.
    pub provisioned: Provisioned,
    /// Until when it was to be ready, wall clock, milliseconds.
    pub ready_by_ms: u64,
    /// The end of the contract in force, wall clock; a change in doubt does not count.
    pub not_after_ms: u64,
    /// The notice that the capacity is taken back, from when it counts for this side.
    pub notice: Option<Notice>,
    /// The notice that the contract promises, in milliseconds.
    pub promised_ms: u64,
    /// Whether so many windows are unsigned that the lease may be closed over it, and the buyer
    /// could have signed them: at the provider it was asked to; at the buyer it refused one, or
    /// the two were not connected.
    pub unsigned: bool,
    /// Whether more was withheld than a buyer has to bear. Nothing counts that yet.
    pub withheld: bool,
}

/// How far a lease was when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It was not in use: the buyer had not said that it was ready, or was not answered.
    Pending,
    /// It was in use and billed, be it taken back soon.
    Running,
    /// The same, and reports had stayed unsigned.
    Suspended,
}

/// What a buyer has heard of what it bought being made ready at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provisioned {
    /// This version of the protocol has no word for it.
    Wordless,
    /// Nothing was heard of it.
    Unheard,
    /// The provider said so at that time, wall clock, milliseconds.
    Heard(u64),
}

/// Why a lease ended, by the records of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndCause {
    /// The term of the contract is over.
    Expired,
    /// The consumer has cancelled the contract.
    Cancelled,
    /// The provider has ended it early.
    EndedByProvider,
    /// The provider took the capacity back, and the time that its notice names has come.
    Reclaimed,
    /// Usage reports stayed without the consumer's signature for too long.
    Unsigned,
    /// What was sold was not ready in time, or could not be provided.
    ProvisioningFailed,
    /// The consumer did not get what it bought.
    NotDelivered,
}

/// What becomes of the bill of a lease that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Bill {
    /// Nothing is to pay, and nothing is billed.
    Nothing,
    /// All that both have signed for is to pay.
    Whole,
    /// The same less what the missing notice would have cost.
    LessNotice {
        /// So much of the notice promised was not given, in milliseconds, be it more than was
        /// left of the term.
        missing_ms: u64,
    },
}

/// What one side remembers of the other for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mark {
    /// It did as was agreed.
    Good,
    /// It did not do as agreed.
    Bad,
}

/// What a lease comes to in the eyes of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ending {
    /// The side that ended it.
    pub by: Side,
    /// Why the lease has ended.
    pub cause: EndCause,
    /// What becomes of the bill.
    pub bill: Bill,
    /// What this side thinks of the other for it; none: it says nothing of it.
    pub mark: Option<Mark>,
}

/// What a lease comes to. The first row that holds decides.
pub fn ending(closing: Closing, facts: &Facts) -> Ending {
    let Closing { by, at_ms, .. } = closing;
    let is_near = |end_ms: u64| at_ms.saturating_add(CLOCK_SKEW_MS) >= end_ms;
    if is_near(facts.not_after_ms) {
        return settled(by, EndCause::Expired, Bill::Whole, Some(Mark::Good));
    }
    if let Some(notice) = facts.notice.filter(|notice| is_near(notice.until_ms)) {
        return reclaimed(by, notice, facts);
    }
    match by {
        Side::Provider => by_provider(at_ms, facts),
        Side::Consumer => by_consumer(at_ms, facts),
    }
}

/// Taken back at the time that the notice names: what it gave counts, however short.
fn reclaimed(by: Side, notice: Notice, facts: &Facts) -> Ending {
    let given_ms = notice.until_ms.saturating_sub(notice.given_ms);
    let missing_ms = facts.promised_ms.saturating_sub(given_ms);
    let mark = if missing_ms == 0 { Mark::Good } else { Mark::Bad };
    let mark = (facts.side == Side::Consumer).then_some(mark);
    settled(by, EndCause::Reclaimed, Bill::less(missing_ms), mark)
}

fn by_provider(at_ms: u64, facts: &Facts) -> Ending {
    let settled = |cause, bill, mark| settled(Side::Provider, cause, bill, mark);
    let is_buyer = facts.side == Side::Consumer;
    if facts.stage == Stage::Pending {
        let nearly_ms = facts.ready_by_ms.saturating_sub(CLOCK_SKEW_MS);
        let was_late = match facts.provisioned {
            Provisioned::Wordless => false,
            Provisioned::Unheard => true,
            Provisioned::Heard(heard_ms) => heard_ms > nearly_ms,
        };
        let mark = (is_buyer && (was_late || at_ms < nearly_ms)).then_some(Mark::Bad);
        return settled(EndCause::ProvisioningFailed, Bill::Nothing, mark);
    }
    if facts.unsigned {
        return settled(EndCause::Unsigned, Bill::Whole, (!is_buyer).then_some(Mark::Bad));
    }
    // Whatever notice was given, its time has not come: it gave nothing.
    let bill = Bill::less(facts.promised_ms);
    settled(EndCause::EndedByProvider, bill, is_buyer.then_some(Mark::Bad))
}

fn by_consumer(at_ms: u64, facts: &Facts) -> Ending {
    let settled = |cause, bill, mark| settled(Side::Consumer, cause, bill, mark);
    let is_buyer = facts.side == Side::Consumer;
    let never_ready = facts.stage == Stage::Pending
        && facts.provisioned == Provisioned::Unheard
        && at_ms >= facts.ready_by_ms;
    if is_buyer && never_ready {
        return settled(EndCause::NotDelivered, Bill::Nothing, Some(Mark::Bad));
    }
    if is_buyer && facts.withheld {
        return settled(EndCause::NotDelivered, Bill::Whole, Some(Mark::Bad));
    }
    settled(EndCause::Cancelled, Bill::Whole, None)
}

/// How this cluster settles what has ended. It is a value so that a simulation can put a wrong rule
/// in the place of one; a daemon has [`RULES`].
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// What a lease comes to.
    pub ending: fn(Closing, &Facts) -> Ending,
    /// Up to when a buyer signs for usage, wall clock, where its own record has that the lease ended
    /// then, or is to end by notice.
    pub signs_until_ms: fn(u64) -> u64,
}

/// The rules of the market.
pub const RULES: Rules = Rules { ending, signs_until_ms };

/// To the end, but for the skew of the clocks.
fn signs_until_ms(end_ms: u64) -> u64 {
    end_ms.saturating_add(CLOCK_SKEW_MS)
}

fn settled(by: Side, cause: EndCause, bill: Bill, mark: Option<Mark>) -> Ending {
    Ending { by, cause, bill, mark }
}

impl Bill {
    /// All but what so much of the notice would have cost.
    fn less(missing_ms: u64) -> Self {
        match missing_ms {
            0 => Self::Whole,
            missing_ms => Self::LessNotice { missing_ms },
        }
    }
}

impl EndCause {
    /// The word of the protocol for it. Older peers have none for what was not delivered.
    pub fn word(self) -> CloseReason {
        match self {
            Self::Expired => CloseReason::Expired,
            Self::Cancelled | Self::NotDelivered => CloseReason::Cancelled,
            Self::EndedByProvider => CloseReason::EndedByProvider,
            Self::Reclaimed => CloseReason::Reclaimed,
            Self::Unsigned => CloseReason::Unsigned,
            Self::ProvisioningFailed => CloseReason::ProvisioningFailed,
        }
    }
}

impl Ending {
    /// As an earlier release kept it, which went by the word alone. `missing_ms`: of the notice
    /// promised, so much was not given.
    pub(super) fn of_word(side: Side, word: CloseReason, missing_ms: u64) -> Self {
        let is_buyer = side == Side::Consumer;
        let short = Bill::less(missing_ms);
        let reclaimed = if short == Bill::Whole { Mark::Good } else { Mark::Bad };
        let bad_at = |judges: bool| judges.then_some(Mark::Bad);
        let (by, cause, bill, mark) = match word {
            CloseReason::Expired => {
                (Side::Provider, EndCause::Expired, Bill::Whole, Some(Mark::Good))
            }
            CloseReason::Cancelled => {
                (Side::Consumer, EndCause::Cancelled, Bill::Whole, Some(Mark::Good))
            }
            CloseReason::Reclaimed => {
                (Side::Provider, EndCause::Reclaimed, short, is_buyer.then_some(reclaimed))
            }
            CloseReason::EndedByProvider => {
                (Side::Provider, EndCause::EndedByProvider, short, bad_at(is_buyer))
            }
            CloseReason::Unsigned => {
                (Side::Provider, EndCause::Unsigned, Bill::Whole, bad_at(!is_buyer))
            }
            CloseReason::ProvisioningFailed => {
                (Side::Provider, EndCause::ProvisioningFailed, Bill::Nothing, bad_at(is_buyer))
            }
            CloseReason::Breach => {
                (Side::Provider, EndCause::EndedByProvider, Bill::Whole, Some(Mark::Bad))
            }
        };
        Self { by, cause, bill, mark }
    }
}
