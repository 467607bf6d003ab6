//! Who may say what at which stage of a deal, and what becomes of it otherwise: the rules of a
//! negotiation as data. It is looked up once, in front of whatever a word does, and docs/wire.md
//! has the same table. What a word does where it is taken is in the phases.

use mercato_protocol::negotiation::{Body, State};

use super::order::Side;

/// One word, as one side may say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The number of the word, as on the wire.
    pub number: u8,
    /// The word as docs/wire.md calls it.
    pub name: &'static str,
    /// Who may say it; from the other side it means nothing.
    pub by: Side,
    /// Where it is taken, by the state of whoever hears it.
    pub taken: &'static [State],
    /// What becomes of it elsewhere.
    pub otherwise: Otherwise,
}

/// What becomes of a word that is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// It changes nothing, and nobody answers.
    Ignored,
    /// It is answered with how the deal stands.
    Answered,
    /// The same again is ignored; another content ends what is open.
    Conflict,
    /// It is refused, with the reason.
    Refused,
}

/// What becomes of a word that was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It does what it is for.
    Taken,
    /// It comes where it is not taken.
    Not(Otherwise),
}

use Otherwise::{Answered, Conflict, Ignored, Refused};
use Side::{Consumer, Provider};
use State::{
    Active, Agreed, Closed, Offered, Pending, Reclaiming, Requested, Review, Suspended, Terminated,
};

/// A negotiation, and that it came to nothing.
const OPEN: &[State] = &[Requested, Review, Offered, Agreed, Terminated];
/// A lease, and that it has ended.
const LEASED: &[State] = &[Pending, Active, Suspended, Reclaiming, Closed];
/// The same without the time before its first use.
const USED: &[State] = &[Active, Suspended, Reclaiming, Closed];
const RUNNING: &[State] = &[Pending, Active, Suspended, Reclaiming];
const SIGNED: &[State] = &[Offered, Agreed, Pending, Active, Suspended, Reclaiming, Closed];
const FROM_AGREED: &[State] = &[Agreed, Pending, Active, Suspended, Reclaiming, Closed];
const ANY: &[State] = &[
    Requested, Review, Offered, Agreed, Pending, Active, Suspended, Reclaiming, Closed, Terminated,
];

/// All words: by number, the buyer's first where both have one.
pub const WORDS: &[Word] = &[
    word(0, "request", Consumer, &[], Conflict),
    word(1, "review", Provider, &[Requested, Terminated], Ignored),
    word(2, "agreement", Provider, &[Requested, Review, Offered, Terminated], Ignored),
    word(3, "verification", Consumer, SIGNED, Answered),
    word(4, "finalized", Provider, &[Agreed], Ignored),
    word(5, "terminate", Consumer, OPEN, Answered),
    word(5, "terminate", Provider, OPEN, Answered),
    word(6, "status query", Consumer, ANY, Answered),
    word(6, "status query", Provider, ANY, Answered),
    word(7, "status", Consumer, ANY, Ignored),
    word(7, "status", Provider, ANY, Ignored),
    word(8, "ready", Consumer, &[Pending], Answered),
    word(9, "usage report", Provider, USED, Ignored),
    word(10, "usage receipt", Consumer, LEASED, Ignored),
    word(11, "close", Consumer, LEASED, Answered),
    word(11, "close", Provider, FROM_AGREED, Answered),
    word(12, "rfq", Consumer, &[], Conflict),
    word(13, "offer", Provider, &[Requested, Review, Terminated], Ignored),
    word(14, "amend", Consumer, &[Active], Refused),
    word(15, "amendment", Consumer, USED, Ignored),
    word(15, "amendment", Provider, USED, Ignored),
    word(16, "reclaim notice", Provider, RUNNING, Answered),
    word(17, "invoice", Provider, &[Closed], Ignored),
    word(18, "invoice receipt", Consumer, &[Closed], Ignored),
    word(19, "dispute", Consumer, LEASED, Ignored),
    word(20, "take", Consumer, &[Offered, Agreed], Answered),
];

const fn word(
    number: u8,
    name: &'static str,
    by: Side,
    taken: &'static [State],
    otherwise: Otherwise,
) -> Word {
    Word { number, name, by, taken, otherwise }
}

/// What becomes of what that side says to one whose deal is in that state.
pub(crate) fn fate(by: Side, body: &Body, state: State) -> Fate {
    let number = number(body);
    match WORDS.iter().find(|word| word.number == number && word.by == by) {
        Some(word) if word.taken.contains(&state) => Fate::Taken,
        Some(word) => Fate::Not(word.otherwise),
        None => Fate::Not(Ignored),
    }
}

/// The number of a word, as on the wire.
fn number(body: &Body) -> u8 {
    match body {
        Body::Request(_) => 0,
        Body::Review { .. } => 1,
        Body::Agreement { .. } => 2,
        Body::Verification { .. } => 3,
        Body::Finalized => 4,
        Body::Terminate { .. } => 5,
        Body::StatusQuery => 6,
        Body::Status { .. } => 7,
        Body::Ready => 8,
        Body::UsageReport { .. } => 9,
        Body::UsageReceipt { .. } => 10,
        Body::Close { .. } => 11,
        Body::Rfq(_) => 12,
        Body::Offer { .. } => 13,
        Body::Amend { .. } => 14,
        Body::Amendment { .. } => 15,
        Body::ReclaimNotice { .. } => 16,
        Body::Invoice { .. } => 17,
        Body::InvoiceReceipt { .. } => 18,
        Body::Dispute { .. } => 19,
        Body::Take => 20,
    }
}
