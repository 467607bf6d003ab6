//! What the owner can ask for, and the answers.

use mercato_protocol::id::{ClusterId, ContractId, NegotiationId, PublicKey};
use mercato_protocol::negotiation::TerminateReason;
use mercato_protocol::price::Price;
use mercato_protocol::resources::{Resource, Resources};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::demand::Demand;
use crate::policy::{BuyPolicy, SharePolicy};
use crate::trust::Standing;

/// What the owner wants. What only looks (browse, requests, contracts) is a method of
/// [`Broker`](crate::Broker).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Command {
    /// Share this from now on; none: nothing. Leases that run are not touched.
    Share(Option<SharePolicy>),
    /// Buy only so from now on; none: anything. What was bought stays.
    Buy(Option<BuyPolicy>),
    /// Think this of a peer.
    Peer(ClusterId, Standing),
    /// Buy.
    Order {
        /// What.
        demand: Demand,
        /// A word to the provider's owner; may be empty.
        note: String,
        /// Under this id, so that asking again buys nothing more; none: under a new one.
        id: Option<NegotiationId>,
    },
    /// Ask several providers at once for a firm offer; nothing is ordered yet.
    Rfq {
        /// What.
        demand: Demand,
        /// A word to the providers' owners; may be empty.
        note: String,
    },
    /// Take a firm offer. The others of its round are let go.
    Take(NegotiationId),
    /// Answer a request with a firm offer at another price or quantity, which is held for
    /// [`COMMIT_MS`](crate::limits::COMMIT_MS).
    Counter {
        /// Which request.
        request: NegotiationId,
        /// At this price; none: as asked for.
        price: Option<Price>,
        /// So much; none: as asked for.
        quantity: Option<Resources>,
    },
    /// Grant a request, or a change.
    Accept(NegotiationId),
    /// Buyer: extend or resize a running lease. Its provider is asked.
    Amend {
        /// Which.
        contract: ContractId,
        /// So much from now on; none: as it is.
        quantity: Option<Resources>,
        /// So long from its beginning, in seconds; none: as it is.
        term_s: Option<u64>,
    },
    /// Deny a request, or a change.
    Deny {
        /// Which.
        request: NegotiationId,
        /// Told to the buyer; may be empty.
        text: String,
    },
    /// Provider: take back what was sold, with notice. Less notice than the contract promises
    /// is a credit on the invoice.
    Reclaim {
        /// Which.
        contract: ContractId,
        /// In seconds; none: as the contract promises.
        notice_s: Option<u64>,
        /// Told to the buyer; may be empty.
        text: String,
    },
    /// End an order or a lease, on either side.
    Cancel {
        /// Which.
        deal: NegotiationId,
        /// Told to the other side; may be empty.
        text: String,
    },
    /// This daemon is about to stop in good order: withdraw the advertisement. Leases
    /// run on.
    Stop,
}

/// It was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reply {
    /// It was.
    Done,
    /// An order was sent.
    Ordered {
        /// Its id, and that of the contract to come.
        id: NegotiationId,
        /// To whom.
        provider: ClusterId,
    },
    /// A round of firm offers was opened.
    Asked {
        /// Its id; that of each offer is its own.
        round: NegotiationId,
        /// How many were asked.
        providers: usize,
    },
}

/// Why it was not done.
#[derive(Clone, Debug, Error, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// What suits is offered only by those whom the owner has not accepted.
    #[error("{name:?} is not trusted yet; its fingerprint is {provider}")]
    Untrusted {
        /// The best of them; its id is the fingerprint.
        provider: ClusterId,
        /// What it calls itself.
        name: String,
        /// The key that signed its advertisement.
        key: PublicKey,
    },
    /// No offer suits.
    #[error("none of {seen} offers suits")]
    NoMatch {
        /// How many offers were looked at.
        seen: usize,
    },
    /// There is no such order, request or lease, or it is over.
    #[error("{0:.8} is not known, or no longer waits for this")]
    Unknown(NegotiationId),
    /// Another offer of the same round was taken before.
    #[error("{0:.8} of the same round was taken")]
    Taken(NegotiationId),
    /// Not enough is left of it.
    #[error("not enough {0} is left")]
    Short(Resource),
    /// Too much is open at once.
    #[error("too much is open at once")]
    TooMany,
    /// The peer is blocked.
    #[error("{0:.8} is blocked")]
    Blocked(ClusterId),
    /// The policy, or the demand, cannot be.
    #[error("{0}")]
    Invalid(String),
    /// The records cannot be written.
    #[error("nothing new is promised or kept: the records cannot be written")]
    Degraded,
    /// The request came to nothing before.
    #[error("it came to nothing: {0:?}")]
    Over(TerminateReason),
}
