//! What the owner can ask for, and the answers.

use mercato_protocol::codec::CodecError;
use mercato_protocol::id::{ClusterId, ContractId, NegotiationId, PublicKey};
use mercato_protocol::negotiation::TerminateReason;
use mercato_protocol::resources::{Resource, Resources};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::catalogue::{BuyPolicy, Demand, NotPlaced, Standing};
use crate::sale::{SharePolicy, Shortage};
use crate::syntax::PriceChange;

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
    /// A peer is of this country, as rules by jurisdiction take it; none: nobody says so here.
    Country(ClusterId, Option<String>),
    /// Buy what matches best, from a trusted provider.
    Order {
        /// What is to be bought, and how it is chosen.
        demand: Demand,
        /// A word to the provider's owner; may be empty.
        note: String,
        /// Under this id, so that asking again buys nothing more; none: under a new one.
        id: Option<NegotiationId>,
    },
    /// Ask several providers at once for a firm offer; nothing is ordered yet.
    Rfq {
        /// What is asked for, and how offers are chosen.
        demand: Demand,
        /// A word to the providers' owners; may be empty.
        note: String,
    },
    /// Take a firm offer. The others of its round are let go.
    Take(NegotiationId),
    /// Answer a request with a firm offer at another price or quantity.
    Counter {
        /// The request that is answered.
        request: NegotiationId,
        /// These lines of its price are others; none: as asked for.
        price: Option<PriceChange>,
        /// So much is offered; none: as asked for.
        quantity: Option<Resources>,
        /// Held so long, in seconds, but no longer than the request waits; none: for
        /// [`HOLD_MS`](crate::limits::HOLD_MS).
        hold_s: Option<u64>,
    },
    /// Grant a request, or a change.
    Accept(NegotiationId),
    /// Buyer: extend or resize a running lease. Its provider is asked.
    Amend {
        /// The contract that is to change.
        contract: ContractId,
        /// So much from now on; none: as it is.
        quantity: Option<Resources>,
        /// So long from its beginning, in seconds; none: as it is.
        term_s: Option<u64>,
    },
    /// Buyer: the change that was asked for is wanted no longer.
    Withdraw(ContractId),
    /// Deny a request, or a change.
    Deny {
        /// The request, or the contract whose change is asked for.
        request: NegotiationId,
        /// Told to the buyer; may be empty.
        text: String,
    },
    /// Provider: take back what was sold, with notice. Less notice than the contract promises
    /// is a credit on the invoice.
    Reclaim {
        /// The contract under which it was sold.
        contract: ContractId,
        /// In seconds; none: as the contract promises.
        notice_s: Option<u64>,
        /// Told to the buyer; may be empty.
        text: String,
    },
    /// End an order or a lease, on either side.
    Cancel {
        /// The order, or the contract, that is to end.
        deal: NegotiationId,
        /// Told to the other side; may be empty.
        text: String,
    },
    /// This daemon is about to stop in good order: withdraw the advertisement. Leases
    /// run on.
    Stop,
}

/// What became of a command that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reply {
    /// It was done, and that is all.
    Done,
    /// An order was sent to a provider.
    Ordered {
        /// Its id, and that of the contract to come.
        id: NegotiationId,
        /// The provider that was chosen.
        provider: ClusterId,
    },
    /// A round of firm offers was opened.
    Asked {
        /// Its id; that of each offer is its own.
        round: NegotiationId,
        /// How many providers were asked for an offer.
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
        /// The name that it gives itself.
        name: String,
        /// The key that signed its advertisement.
        key: PublicKey,
    },
    /// No offer matches what was asked for.
    #[error("{}", nothing_matches(*.seen))]
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
    /// Another change of the contract is under way.
    #[error("another change of {0:.8} is not answered yet")]
    ChangeOpen(ContractId),
    /// There is no change of the contract that could be withdrawn.
    #[error("no change of {0:.8} waits for an answer")]
    NoChange(ContractId),
    /// Only the side that bought can do it.
    #[error("{0:.8} was sold by this cluster: only its consumer can change it")]
    NotConsumer(ContractId),
    /// The peer is blocked by this owner.
    #[error("{0:.8} is blocked")]
    Blocked(ClusterId),
    /// The policy, or the demand, cannot be.
    #[error("{0}")]
    Invalid(String),
    /// What would have to be remembered is above the bound of one record.
    #[error("it cannot be kept: a record of {0} bytes is too large")]
    TooLarge(usize),
    /// The records cannot be written.
    #[error("read-only: cannot write to the data folder; no new contracts")]
    Degraded,
    /// The request came to nothing before.
    #[error("it came to nothing: {0:?}")]
    Over(TerminateReason),
}

impl From<CodecError> for Refusal {
    fn from(error: CodecError) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<NotPlaced> for Refusal {
    fn from(why: NotPlaced) -> Self {
        match why {
            NotPlaced::TooMany => Self::TooMany,
            NotPlaced::NoCountry(wrong) => Self::Invalid(wrong.to_owned()),
        }
    }
}

impl From<Shortage> for Refusal {
    fn from(shortage: Shortage) -> Self {
        match shortage {
            Shortage::NotShared => {
                Self::Invalid("what was asked for is not shared any more".to_owned())
            }
            Shortage::Of(resource) => Self::Short(resource),
        }
    }
}

fn nothing_matches(seen: usize) -> String {
    match seen {
        0 => "there are no offers".to_owned(),
        1 => "1 offer, and it does not match".to_owned(),
        _ => format!("{seen} offers, and none matches"),
    }
}
