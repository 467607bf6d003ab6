//! What goes into the agent.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use mercato_broker::{Command, Inventory, PodDemand};
use mercato_discovery::{DialFailure, Report};
use mercato_gossip::Opened;
use mercato_offload::{guest, home};
use mercato_protocol::certificate::Certificate;
use mercato_protocol::envelope::{Signed, Verified};
use mercato_protocol::id::{ClusterId, ContractId, FederationId, PublicKey};
use mercato_protocol::identity::ClusterIdentity;
use mercato_protocol::join::JoinReply;
use mercato_protocol::negotiation;

use crate::effect::Frame;
use crate::federation::ask::Ask;

/// What happened outside the agent.
#[derive(Clone, Debug)]
pub enum Input {
    /// The time of [`Agent::wakeup`](crate::Agent::wakeup) has come. Also the first input
    /// after a restore: the answer says again all that the records imply.
    Tick,
    /// A source of sightings speaks.
    Sighted(Report),
    /// What came of an attempt: the answer to [`crate::Effect::Dial`].
    Dialled {
        /// The number that the dial was given.
        attempt: u64,
        /// The proven key, or why there is none.
        result: Result<PublicKey, DialFailure>,
    },
    /// A connection with a peer is up, and both have said hello. Said again when another
    /// connection has replaced it: what was under way may be lost.
    Connected {
        /// Who, by the hello's identity document, whose key the connection proved.
        peer: ClusterIdentity,
        /// Whether this cluster opened the connection.
        dialled: bool,
    },
    /// The peer closes the last connection with it, as this side sees: said before it is gone.
    HungUp(PublicKey),
    /// The last connection with a peer is gone.
    Disconnected(PublicKey),
    /// A peer, by the key that the connection has proven, has not been heard for so long, in ms, though
    /// it is connected; none: it is heard again, over the same connection.
    Silent(PublicKey, Option<u64>),
    /// What a neighbour in gossip says.
    Gossip {
        /// The key that the connection has proven.
        peer: PublicKey,
        /// What it says, with signatures checked.
        message: Opened,
    },
    /// A word that was to be said once was not taken by its peer before the connection ended that
    /// carried it.
    Unsaid {
        /// The key of that peer.
        peer: PublicKey,
        /// The message as it was signed.
        message: Signed<negotiation::Message>,
    },
    /// What is for the broker alone.
    Broker(BrokerInput),
    /// What happened in this cluster's federations.
    Federation(FederationInput),
    /// What is known of the network that tunnels are part of.
    Tunnel(TunnelInput),
    /// What happened to the lease of this contract.
    Lease(ContractId, LeaseInput),
}

/// What is for the broker alone, from outside: what else it hears, other parts of the agent say.
#[derive(Clone, Debug)]
pub enum BrokerInput {
    /// The owner wants something; answered by [`crate::Effect::Reply`] with the same number.
    Command(u64, Box<Command>),
    /// A peer's word in a negotiation, opened by the key of the connection.
    Message(Box<Verified<negotiation::Message>>),
    /// Where this daemon can be dialled, now: multiaddresses.
    Addresses(Vec<String>),
    /// What the cluster has, now.
    Inventory(Inventory),
    /// How far away whom is, now: the last round trip by key, in microseconds.
    RoundTrips(BTreeMap<PublicKey, u64>),
    /// Guests can, or cannot, be kept apart on this cluster's network.
    Isolation(bool),
    /// What guests reach of the Internet can, or cannot, be kept to what their contracts say.
    Egress(bool),
    /// Which pods of the cluster find no room and could run elsewhere, and its virtual nodes, now.
    Pending(Box<PodDemand>),
}

/// What happened to a lease.
#[derive(Clone, Debug)]
pub enum LeaseInput {
    /// How its part in this cluster is.
    News(LeaseNews),
    /// A frame on its workload stream. Only the other party of the contract is listened to.
    Frame {
        /// The key that the connection has proven.
        peer: PublicKey,
        /// The frame, from either side. Its bodies are kept by digest outside.
        frame: Frame,
    },
    /// How it is with the tunnel to the other side.
    Tunnel(TunnelNews),
    /// What home's API server says of its pods and objects. Frames and links are inputs of their own.
    Home(home::Input),
    /// What the provider's API server says of its guests, likewise.
    Guest(guest::Input),
}

/// What is known of the network that tunnels are part of. Nothing is, at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TunnelInput {
    /// The pool that ranges are given of; none: there is to be no tunnel.
    Pool(Option<IpNet>),
    /// Blocks of this cluster's pod network with pods that others may know.
    Own(BTreeSet<IpNet>),
    /// By which ranges this cluster's pods are known inside the tunnel to it, by its own word.
    Peer(ClusterId, BTreeSet<IpNet>),
}

/// How it is with the tunnel to the other side of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TunnelNews {
    /// There is none, and none is to be expected soon.
    Off,
    /// That is not known yet.
    #[default]
    Awaited,
    /// Both sides know each other's gateways, and this one's carries packets for the ranges of the
    /// lease ([`crate::LeaseDesire::ranges`]).
    Carries,
}

/// What happened in this cluster's federations.
#[derive(Clone, Debug)]
pub enum FederationInput {
    /// A question; it is answered by [`crate::Effect::Federation`] with the same number.
    Ask(u64, Ask),
    /// The registrar's answer to [`crate::Effect::Join`]; none: it did not give one.
    Joined(FederationId, Option<Box<JoinReply>>),
    /// A connected peer shows its certificates.
    Papers {
        /// The key that the connection has proven.
        peer: PublicKey,
        /// Of each federation its own first, then its registrar's.
        certificates: Vec<Signed<Certificate>>,
    },
}

/// How a lease's part in this cluster is, against its latest [`crate::LeaseDesire`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseNews {
    /// Consumer: the virtual node is ready.
    Ready,
    /// Provider: it cannot be set up, and why.
    Failed(String),
    /// Nothing of it is left: the node and its pods (consumer, once [`crate::Phase::Draining`]), the
    /// guest namespaces (provider, once [`crate::Phase::Ended`]).
    Removed,
}

impl From<BrokerInput> for mercato_broker::Input {
    fn from(input: BrokerInput) -> Self {
        match input {
            BrokerInput::Command(reply_to, command) => Self::Command(reply_to, command),
            BrokerInput::Message(message) => Self::Message(message),
            BrokerInput::Addresses(addresses) => Self::Addresses(addresses),
            BrokerInput::Inventory(inventory) => Self::Inventory(inventory),
            BrokerInput::RoundTrips(trips) => Self::RoundTrips(trips),
            BrokerInput::Isolation(enforced) => Self::Isolation(enforced),
            BrokerInput::Egress(enforced) => Self::Egress(enforced),
            BrokerInput::Pending(demand) => Self::Pending(demand),
        }
    }
}
