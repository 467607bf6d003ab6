//! How far a deal is, from the request to the end of its lease.

use mercato_protocol::negotiation::{CloseReason, State, TerminateReason};
use serde::{Deserialize, Serialize};

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
    /// A firm offer: signed by the provider, which holds the capacity until `commit_by`.
    Offered,
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
            Self::Offered => State::Offered,
            Self::Agreed => State::Agreed,
            Self::Pending { .. } => State::Pending,
            Self::Active => State::Active,
            Self::Suspended => State::Suspended,
            Self::Closed { .. } => State::Closed,
            Self::Terminated { .. } => State::Terminated,
        }
    }

    /// Why a lease ended, and when; none: it has not, or came to nothing.
    pub(crate) fn closed(&self) -> Option<(CloseReason, u64)> {
        match self {
            Self::Closed { reason, at_ms, .. } => Some((*reason, *at_ms)),
            Self::Requested { .. }
            | Self::Review { .. }
            | Self::Offered
            | Self::Agreed
            | Self::Pending { .. }
            | Self::Active
            | Self::Suspended
            | Self::Terminated { .. } => None,
        }
    }

    /// Whether the provider has signed and waits for the buyer's signature.
    pub fn is_signed_once(&self) -> bool {
        matches!(self, Self::Offered | Self::Agreed)
    }

    /// Whether both have signed and the lease has not ended.
    pub fn is_leased(&self) -> bool {
        matches!(self, Self::Pending { .. } | Self::Active | Self::Suspended)
    }
}
