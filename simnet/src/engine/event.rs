//! What can be yet to happen in a run.

use mercato_agent::{Input, Work};
use mercato_discovery::Address;
use mercato_protocol::id::{ContractId, PublicKey};

use crate::engine::gateway::Step;
use crate::engine::parcel::{Parcel, Word};

/// What is yet to happen, at a place.
pub(crate) enum Event {
    Packet(Parcel),
    Untaken(Box<Word>),
    Wake {
        at: usize,
        run: u32,
    },
    Written {
        at: usize,
        run: u32,
    },
    Watch {
        at: usize,
    },
    Advance {
        at: usize,
    },
    /// A write or a question arrives at an API server.
    Work {
        at: usize,
        run: u32,
        contract: ContractId,
        work: Work,
    },
    Answer {
        at: usize,
        run: u32,
        input: Box<Input>,
    },
    Gateway {
        at: usize,
        run: u32,
        step: Box<Step>,
    },
    Dialled(Dial),
    Lost {
        at: usize,
        peer: usize,
        connection: u64,
        by_peer: bool,
    },
    Start {
        at: usize,
    },
    Cut(usize, usize),
    Mend(usize, usize),
    DiskFine {
        at: usize,
    },
    ClockBack {
        at: usize,
        by_ms: i64,
    },
    Begin(usize),
    End(usize),
    Workload,
}

/// A dial that is under way.
pub(crate) struct Dial {
    pub(crate) at: usize,
    pub(crate) run: u32,
    pub(crate) attempt: u64,
    /// Who is to be there, if that is known.
    pub(crate) peer: Option<PublicKey>,
    pub(crate) to: Vec<Address>,
}

impl Event {
    /// A number for its kind, and the place where it happens.
    pub(crate) fn outline(&self) -> (u64, usize) {
        match self {
            Self::Packet(parcel) => (0, parcel.to),
            Self::Wake { at, .. } => (1, *at),
            Self::Written { at, .. } => (2, *at),
            Self::Watch { at } => (3, *at),
            Self::Advance { at } => (4, *at),
            Self::Work { at, .. } => (5, *at),
            Self::Answer { at, .. } => (6, *at),
            Self::Dialled(dial) => (7, dial.at),
            Self::Lost { at, .. } => (8, *at),
            Self::Start { at } => (9, *at),
            Self::Cut(a, _) => (10, *a),
            Self::Mend(a, _) => (11, *a),
            Self::DiskFine { at } => (12, *at),
            Self::ClockBack { at, .. } => (13, *at),
            Self::Begin(nth) => (14, *nth),
            Self::End(nth) => (15, *nth),
            Self::Workload => (16, 0),
            Self::Untaken(word) => (17, word.from),
            Self::Gateway { at, .. } => (18, *at),
        }
    }
}
