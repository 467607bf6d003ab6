//! The vocabulary: what can be asked, what is answered. Ids are whole here; to complete
//! what a person types is the command line's. Times are wall clock, in milliseconds.

use mercato_agent::{Joined, Listed, Papers};
use mercato_broker::syntax::PriceChange;
use mercato_broker::{
    Demand, Market, SharePolicy, Standing, Statement, StorageClass, Unknown, Unsold,
};
use mercato_protocol::ad::Attribute;
use mercato_protocol::ad::Pool;
use mercato_protocol::certificate::{RevocationList, Role};
use mercato_protocol::envelope::Signed;
use mercato_protocol::federation::Root;
use mercato_protocol::id::{ClusterId, ContractId, FederationId, NegotiationId, PublicKey};
use mercato_protocol::price::Price;
use mercato_protocol::resources::Resources;
use mercato_protocol::text::{Line, Slug};
use serde::{Deserialize, Serialize};

use super::deal::Deal;
use super::devices::Devices;
use super::event::Event;
use super::offload::{Leaving, Offload};
use super::status::Status;
use super::tunnel::TunnelState;
use crate::doctor::Finding;

/// What the owner can ask of a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Request {
    /// Who this is, and how it is. Answered by [`Answer::Status`].
    Status,
    /// Who is known. Answered by [`Answer::Peers`].
    Peers,
    /// Think this of a cluster.
    Judge(ClusterId, Standing),
    /// A cluster is of this country, for rules by jurisdiction; none: the owner says so no longer.
    Place(ClusterId, Option<String>),
    /// Connect to whoever is there, until the daemon ends: `HOST:PORT` or a multiaddr.
    AddPeer(String),
    /// Connect no longer to whoever is there.
    RemovePeer(String),
    /// Dial whoever is there. Answered by [`Answer::Pong`].
    Ping(String),
    /// What suits a demand, the best first. Answered by [`Answer::Offers`].
    Browse {
        /// What is wanted; what is left out does not matter.
        #[serde(default)]
        demand: Demand,
        /// Why the rest does not suit, too.
        #[serde(default)]
        explain: bool,
    },
    /// Whoever offers something. Answered by [`Answer::Providers`].
    Providers,
    /// What this cluster offers. Answered by [`Answer::Share`].
    Share,
    /// Offer this from now on; none: nothing.
    SetShare(Option<SharePolicy>),
    /// Buy from whoever suits best. Answered by [`Answer::Ordered`].
    Order {
        demand: Demand,
        /// A word to the provider's owner; may be empty.
        note: Line,
    },
    /// Ask several providers at once for firm offers. Answered by [`Answer::Asked`].
    Rfq {
        demand: Demand,
        /// A word to the providers' owners; may be empty.
        note: Line,
    },
    /// Take a firm offer. Answered by [`Answer::Ordered`].
    Take(NegotiationId),
    /// Answer a request with a firm offer.
    Counter {
        request: NegotiationId,
        /// These lines of its price are others; none: as asked for.
        price: Option<PriceChange>,
        /// So much; none: as asked for.
        quantity: Option<Resources>,
        /// Held so long, in seconds, but no longer than the request waits; none: four hours.
        hold_s: Option<u64>,
    },
    /// Provider: take back what was sold, with notice.
    Reclaim {
        contract: ContractId,
        /// In seconds; none: as the contract promises.
        notice_s: Option<u64>,
        /// Told to the buyer; may be empty.
        text: Line,
    },
    /// Buyer: extend or resize a running contract. Its provider is asked; what comes of it
    /// is in the [`Deal`].
    Amend {
        contract: ContractId,
        /// So much from now on; none: as it is.
        quantity: Option<Resources>,
        /// So long from its beginning, in seconds; none: as it is.
        term_s: Option<u64>,
    },
    /// Buyer: the change that was asked for is wanted no longer.
    Withdraw(ContractId),
    /// Orders, requests and contracts, on both sides, running and remembered. Answered by
    /// [`Answer::Deals`].
    Deals,
    /// Grant a request as it was made.
    Accept(NegotiationId),
    /// Deny a request, with a word to the consumer.
    Deny(NegotiationId, Line),
    /// End an order or a contract, on either side.
    Cancel(NegotiationId, Line),
    /// What is billed so far. Answered by [`Answer::Statement`].
    Statement(ContractId),
    /// The federations that this cluster goes by. Answered by [`Answer::Federations`].
    Federations,
    /// What a domain announces. Answered by [`Answer::Announced`].
    Lookup(String),
    /// Go by these papers: as a member, if they have a certificate.
    Enter(Papers),
    /// Join a federation by a registrar's token.
    Join(String),
    /// Go by a federation's certificates no longer.
    Leave(FederationId),
    /// Registrar: let one cluster join. Answered by [`Answer::Token`].
    Token {
        federation: FederationId,
        /// Whose cluster it is; none: the registrar's organisation, or nobody's.
        organisation: Option<Slug>,
        /// What the cluster may do, ascending.
        roles: Vec<Role>,
        /// What the registrar vouches for, ascending.
        attributes: Vec<Attribute>,
        /// How long the token is good, in seconds; a day at most.
        for_s: u64,
    },
    /// Who belongs to a federation. Answered by [`Answer::Members`].
    Members(FederationId),
    /// Registrar: a cluster is to belong no longer.
    Revoke(FederationId, ClusterId),
    /// Go by this list, which the root has signed, and let others hear it.
    Publish(FederationId, Signed<RevocationList>),
    /// Let the pods of a namespace leave home.
    Offload(Offload),
    /// Keep them at home; those elsewhere are ended there. Answered by [`Answer::Stranded`], if there are
    /// any.
    Unoffload(String),
    /// What stands in the way, or may. Answered by [`Answer::Findings`].
    Doctor,
    /// Put a new key in the place of this cluster's, and start again with it.
    RotateKey,
    /// The whole state, the key included. Answered by [`Answer::State`].
    Export,
    /// What happened after the event of this number; zero: all that is remembered.
    /// Answered by [`Answer::Events`].
    Events(u64),
}

/// What a daemon answers to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[allow(clippy::large_enum_variant, reason = "one at a time, and moved once")]
pub(crate) enum Answer {
    /// What was asked for is done.
    Done,
    /// It is done; these pods wait for a virtual node, and nobody makes them again without that.
    Stranded(Vec<String>),
    /// The pods of the namespace may leave; what becomes of them.
    Leaving(Leaving),
    /// Who this is, and how it is.
    Status(Status),
    /// The clusters and addresses that are known.
    Peers(Vec<Peer>),
    /// Who answered at an address.
    Pong(Pong),
    /// The offers that suit a demand.
    Offers(Market),
    /// The clusters that offer something.
    Providers(Vec<Provider>),
    /// What this cluster shares, and has on sale.
    Share(Share),
    /// The order was sent to a provider.
    Ordered {
        /// Its id, and that of the contract to come.
        id: NegotiationId,
        provider: ClusterId,
    },
    /// Several providers were asked for firm offers.
    Asked {
        /// The round that their offers belong to.
        round: NegotiationId,
        /// How many providers were asked.
        providers: usize,
    },
    /// Orders, requests and contracts on both sides.
    Deals(Vec<Deal>),
    /// The federations that this cluster goes by.
    Federations(Vec<Joined>),
    /// The federation that a domain announces.
    Announced(Announced),
    /// Hand this to one who may join.
    Token(Token),
    /// Who belongs to a federation.
    Members(Vec<Listed>),
    /// What is billed so far.
    Statement(Statement),
    /// What stands in the way, or may.
    Findings(Vec<Finding>),
    /// The whole state, the key included, in base64.
    State(String),
    /// What happened, the newest event last.
    Events(Vec<Event>),
}

/// A cluster, or an address, that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Peer {
    /// Which cluster; none: that is not known yet.
    pub(crate) cluster: Option<ClusterId>,
    /// Its key, claimed or proven.
    pub(crate) key: Option<PublicKey>,
    pub(crate) name: Option<String>,
    /// What the owner thinks of it.
    pub(crate) standing: Standing,
    /// Of which country the owner says that it is; none: it has not said so.
    pub(crate) jurisdiction: Option<String>,
    /// Who says that it is there, in the order in which that is believed.
    pub(crate) found: Vec<Found>,
    /// Where it may be dialled, as multiaddresses.
    pub(crate) addresses: Vec<String>,
    /// The other end of the connection, as a multiaddress; none: not connected.
    pub(crate) connected: Option<String>,
    /// The last round trip, in microseconds.
    pub(crate) rtt_us: Option<u64>,
    /// How far its clock was ahead of ours when it connected, in ms; below zero: behind.
    pub(crate) ahead_ms: Option<i64>,
    /// The tunnel to it; none: there is no lease with it in force.
    pub(crate) tunnel: Option<TunnelState>,
}

/// A cluster that offers something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Provider {
    pub(crate) cluster: ClusterId,
    /// The key that signs for it.
    pub(crate) key: PublicKey,
    pub(crate) name: String,
    /// What the owner thinks of it.
    pub(crate) standing: Standing,
}

/// Who says that somebody is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Found {
    /// The list of this cluster's owner.
    List,
    /// The records of a federation's domain.
    Dns,
    /// The local network, by multicast DNS.
    Mdns,
    /// Another peer, or itself: it dialled us.
    Peer,
}

/// Who answered at an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pong {
    /// The key that was proven.
    pub(crate) key: PublicKey,
    /// Which cluster; none: that is not known yet.
    pub(crate) cluster: Option<ClusterId>,
    pub(crate) name: Option<String>,
    /// The last round trip, in microseconds; none: none was measured yet.
    pub(crate) rtt_us: Option<u64>,
}

/// What this cluster shares, and has on sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Share {
    /// What its owner said; none: nothing is shared.
    pub(crate) policy: Option<SharePolicy>,
    /// It was said in the MarketPolicy, and can be changed only there.
    pub(crate) ruled: bool,
    /// What that comes to. Empty in spite of a policy: there is no capacity for it, or
    /// guests cannot be kept apart.
    pub(crate) on_sale: Vec<OnSale>,
    /// Devices that are not for sale, whatever the policy says.
    #[serde(default)]
    pub(crate) unsold: Vec<Unsold>,
    /// Whether the class of storage that is shared is there.
    #[serde(default)]
    pub(crate) storage: StorageClass,
    /// Whether what guests reach of the Internet can be kept to what their contracts say, so that it
    /// can be sold.
    #[serde(default)]
    pub(crate) enforces_egress: bool,
    /// GPUs of the nodes that are for sale, or would be if they were shared.
    #[serde(default)]
    pub(crate) devices: Vec<Devices>,
    /// Names in it, and in what may be bought, that match nothing known here.
    #[serde(default)]
    pub(crate) unknown: Vec<Unknown>,
}

/// One pool that is for sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OnSale {
    pub(crate) pool: Pool,
    /// How much of it nobody has bought, exactly.
    pub(crate) free: Resources,
    pub(crate) price: Price,
}

/// A federation that DNS tells of. Nothing of it is believed until the owner has compared the
/// fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Announced {
    /// The domain that tells of it.
    pub(crate) domain: String,
    pub(crate) name: Slug,
    /// The fingerprint of the federation.
    pub(crate) id: FederationId,
    /// The first root document of the federation.
    pub(crate) root: Signed<Root>,
    /// Where its peers are, as multiaddresses, those to be tried first at the front.
    pub(crate) peers: Vec<String>,
}

/// What lets one cluster join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Token {
    /// The token as it is handed on: `mercato-join-…`
    pub(crate) token: String,
    /// Until when it is good.
    pub(crate) expires_ms: u64,
}
