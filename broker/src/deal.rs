//! One negotiation and the lease that comes of it, as either side remembers it. What
//! moves it on is the seller's and the buyer's.

use mercato_protocol::contract::Contract;
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::{CloseReason, Request, State, TerminateReason};
use serde::{Deserialize, Serialize};

use crate::meter::Meter;
use crate::talk::Talk;

/// Which side of a deal this cluster is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// It sells.
    Provider,
    /// It buys.
    Consumer,
}

/// A negotiation and its lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deal {
    pub(crate) side: Side,
    pub(crate) talk: Talk,
    pub(crate) request: Request,
    pub(crate) stage: Stage,
    /// When the request was made or came, wall clock.
    pub(crate) opened_ms: u64,
    pub(crate) agreement: Option<Agreement>,
    pub(crate) meter: Meter,
    /// Consumer, in doubt: the owner wants it no longer.
    pub(crate) unwanted: Option<String>,
    /// Nothing of it is left in this cluster.
    pub(crate) drained: bool,
}

/// The contract and the signatures on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Agreement {
    /// What was signed.
    pub contract: Contract,
    /// By the provider.
    pub provider: Signed<Contract>,
    /// By the consumer, the same bytes; none until it is there.
    pub consumer: Option<Signed<Contract>>,
}

/// How far a deal is. Times are wall clock, milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Stage {
    /// Consumer: no answer yet.
    Requested {
        /// Given up then.
        until_ms: u64,
    },
    /// The provider's owner is asked.
    Review {
        /// It lapses then.
        until_ms: u64,
    },
    /// Provider: signed, the capacity is held. Consumer: signed as well, and in doubt
    /// until it hears that the provider has stored it.
    Agreed,
    /// The contract stands; it is being made ready.
    Pending {
        /// The provider gives up then.
        until_ms: u64,
    },
    /// In use, and billed.
    Active,
    /// Provider: reports stayed unsigned.
    Suspended,
    /// Over.
    Closed {
        /// Why.
        reason: CloseReason,
        /// The same for a person.
        text: String,
        /// When.
        at_ms: u64,
    },
    /// Came to nothing.
    Terminated {
        /// Why.
        reason: TerminateReason,
        /// The same for a person.
        text: String,
        /// When.
        at_ms: u64,
    },
}

impl Stage {
    /// As it is said to the other side.
    pub fn state(&self) -> State {
        match self {
            Self::Requested { .. } => State::Requested,
            Self::Review { .. } => State::Review,
            Self::Agreed => State::Agreed,
            Self::Pending { .. } => State::Pending,
            Self::Active => State::Active,
            Self::Suspended => State::Suspended,
            Self::Closed { .. } => State::Closed,
            Self::Terminated { .. } => State::Terminated,
        }
    }

    /// Whether both have signed and the lease has not ended.
    pub fn is_leased(&self) -> bool {
        matches!(self, Self::Pending { .. } | Self::Active | Self::Suspended)
    }
}

impl Deal {
    /// Of the negotiation and of the contract.
    pub fn id(&self) -> NegotiationId {
        self.talk.id
    }

    /// Which side this cluster is on.
    pub fn side(&self) -> Side {
        self.side
    }

    /// How far it is.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// What was asked for.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The contract, once the provider has signed it.
    pub fn agreement(&self) -> Option<&Agreement> {
        self.agreement.as_ref()
    }
}
