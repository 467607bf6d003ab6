//! Orders, requests and contracts, as they are shown. Times are wall clock, in milliseconds.

use std::collections::BTreeMap;

use mercato_broker::Side;
use mercato_offload::home::leaving::Left;
use mercato_protocol::contract::Terms;
use mercato_protocol::id::{ClusterId, ContractId, NegotiationId};
use mercato_protocol::negotiation::State;
use mercato_protocol::price::{Money, Price};
use mercato_protocol::resources::Resources;
use serde::{Deserialize, Serialize};

/// An order, a request or a contract, on either side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deal {
    /// Of the negotiation, and of the contract that comes of it.
    pub(crate) id: NegotiationId,
    /// Which side this cluster is on.
    pub(crate) side: Side,
    /// The cluster on the other side.
    pub(crate) peer: ClusterId,
    /// What it calls itself, as far as that is known.
    pub(crate) peer_name: Option<String>,
    /// How far it is. At `Review` the provider's owner is asked, at `Offered` the buyer's.
    pub(crate) state: State,
    /// Why it is over, in the words of market protocol and owner, or why it is taken back, in its
    /// owner's; none: neither, or no word is said.
    pub(crate) reason: Option<String>,
    /// It came to nothing for a reason that passes: another request may be granted.
    pub(crate) passing: bool,
    /// Consumer: the round of firm offers that it belongs to; none: it was ordered.
    pub(crate) round: Option<NegotiationId>,
    /// Consumer: it was bought by itself, for pods of this namespace; none: somebody has ordered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) burst: Option<String>,
    /// What is bought, or offered, how.
    pub(crate) terms: Terms,
    /// What was asked for, where the provider offers or agreed to something else.
    pub(crate) asked: Option<Asked>,
    /// Consumer, until it is agreed: what the whole term may cost at most. An offer up to it is taken
    /// at once. None: no ceiling was set.
    #[serde(default)]
    pub(crate) limit: Option<Money>,
    /// A change that the buyer asked for, until it is done.
    pub(crate) change: Option<Change>,
    /// Whether the buyer disputes a usage report or the invoice.
    pub(crate) disputed: bool,
    /// What the buyer says to the provider's owner; may be empty.
    pub(crate) note: String,
    /// When it ends, or ended; before it is agreed, when it lapses.
    pub(crate) until_ms: Option<u64>,
    /// For the whole term; none when free.
    pub(crate) total: Option<Money>,
    /// What is to be paid so far: what both signed for, less the credits. None when free, or
    /// nothing is signed for yet.
    pub(crate) billed: Option<Money>,
    /// Taken off what both signed for, by the invoice; none: nothing is.
    pub(crate) credits: Option<Money>,
    /// Consumer: the virtual node. It is Ready when the contract is active.
    pub(crate) node: Option<String>,
    /// How many pods there are by it, on either side; none: there is no lease.
    #[serde(default)]
    pub(crate) pods: Option<usize>,
    /// Consumer, while that leaves: how many pods have still to go, by why they are there.
    #[serde(default)]
    pub(crate) left: Left,
    /// Provider: guest namespaces by home namespace.
    pub(crate) namespaces: BTreeMap<String, String>,
}

impl Deal {
    /// The contract that comes of the negotiation, or has come.
    pub(crate) fn contract(&self) -> ContractId {
        self.id.into()
    }
}

/// A change of a running contract that is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Change {
    /// What the contract is to say.
    pub(crate) terms: Terms,
    /// At `Review` the provider's owner is asked; at `Terminated` nothing came of it.
    pub(crate) state: State,
    /// Why nothing came of it.
    pub(crate) reason: Option<String>,
    /// What is another: `term 1h -> 4h (+3h), cpu 8 -> 16`.
    pub(crate) what: String,
    /// What the whole term would cost; none when free.
    pub(crate) total: Option<Money>,
    /// How much more that is than now, in millionths of the currency's unit; below zero: less.
    pub(crate) difference_micros: Option<i64>,
    /// When it lapses without an answer; none: it is being signed, or nothing came of it.
    pub(crate) until_ms: Option<u64>,
    /// When nothing came of it.
    pub(crate) ended_ms: Option<u64>,
}

/// What was asked for, beside what is offered for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Asked {
    pub(crate) quantity: Resources,
    pub(crate) price: Price,
    /// For the whole term; none when free.
    pub(crate) total: Option<Money>,
}
