//! What comes out of the agent.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use mercato_broker::{Refusal, Reply, Side};
use mercato_discovery::Address;
use mercato_offload::address::{GuestAddress, MappedRange};
use mercato_offload::body::Way;
use mercato_offload::forge::Content;
use mercato_offload::home::{Granted, Write};
use mercato_offload::key::{Item, ObjectKey, PodId};
use mercato_offload::message::{self, ToGuest, ToHome};
use mercato_offload::placement::spec::{Leaving, LeavingWhy};
use mercato_protocol::bounded::Rank;
use mercato_protocol::contract::Contract;
use mercato_protocol::envelope::Signed;
use mercato_protocol::gate::GuestUid;
use mercato_protocol::id::{ContractId, FederationId, PublicKey};
use mercato_protocol::join::JoinRequest;
use mercato_protocol::negotiation;

use crate::ahead::LeasesAhead;
use crate::federation::ask::Answer;
use crate::notice::Notice;
use crate::record::Change;

/// What is to be done. Whatever follows a [`Effect::Persist`] waits until that is on disk:
/// [`Gate`](crate::Gate).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Keep, or forget, a record.
    Persist(Change),
    /// Try these addresses, and report [`crate::Input::Dialled`].
    Dial {
        /// To be named in the answer.
        attempt: u64,
        /// Who has to be there; anybody, if nobody is known to.
        peer: Option<PublicKey>,
        /// Where, the best first; never empty.
        addresses: Vec<Address>,
    },
    /// Close the connections with this peer: it speaks for nobody, or nothing needs it.
    HangUp(PublicKey),
    /// Close and refuse this peer's connections (`true`), or no longer.
    Block(PublicKey, bool),
    /// Close this peer's connections, and let it open none for so many milliseconds.
    Refuse(PublicKey, u64),
    /// What the connections of these peers are worth, and of no others: strangers have few places,
    /// and leave for whoever is worth more.
    Ranks(Arc<BTreeMap<PublicKey, Rank>>),
    /// What those of one peer more are worth.
    Rank(PublicKey, Rank),
    /// Tell a neighbour. May get lost.
    Gossip {
        /// The key of a neighbour in gossip.
        peer: PublicKey,
        /// What it is told, signed where that is needed.
        message: mercato_protocol::gossip::Message,
    },
    /// Say this in a negotiation to a connected peer, until it has taken it or the connection
    /// ends: then [`crate::Input::Unsaid`].
    Negotiation {
        /// The key of the peer to say it to.
        peer: PublicKey,
        /// The message, as this cluster signed it.
        message: Signed<negotiation::Message>,
        /// Nothing but [`crate::Input::Unsaid`] has it said again. Other words are said at each
        /// connection, until they are answered.
        once: bool,
    },
    /// Send a frame on the workload stream of a lease, with the bodies that its statements
    /// name, as far as they are here and fit. May get lost, it is said again.
    Workload {
        /// The key that speaks for the other side.
        peer: PublicKey,
        /// The contract of that lease.
        contract: ContractId,
        /// The frame, whose bodies are kept outside.
        frame: Frame,
    },
    /// How a lease is to be in this cluster from now on. Level-triggered, one for each
    /// contract, said again after every restore.
    Lease(Box<LeaseDesire>),
    /// Nothing of this lease is left in the cluster: stop following it there. The other side may
    /// still be told so.
    Forget(ContractId),
    /// Nothing is said of this lease any more: what was begun to say it ends.
    CloseStreams(ContractId),
    /// Work of a lease at the API server of this cluster.
    Work(ContractId, Work),
    /// Consumer: carry packets for this pod of a lease to the provider, and answer with
    /// [`mercato_offload::home::Input::Carried`].
    Carry(ContractId, PodId, IpAddr),
    /// Consumer: the provider brings packets of the second family to the pod of this address, or no
    /// longer: carry them too, or not, and answer with
    /// [`mercato_offload::home::Input::SecondCarried`].
    CarrySecond(ContractId, PodId, IpAddr, bool),
    /// Provider: bring packets to a guest of a lease by this address, and answer with
    /// [`mercato_offload::guest::Input::Mapped`].
    Map(ContractId, GuestAddress),
    /// Carry packets for this pod of a lease, or bring them to it, no longer.
    Unmap(ContractId, PodId),
    /// By which ranges this cluster's own pods are known inside tunnels. Level-triggered, said again
    /// after every restore once the pool is known.
    OwnRanges(OwnRanges),
    /// The answer to a command.
    Reply(u64, Result<Reply, Refusal>),
    /// The answer to what was asked about federations.
    Federation(u64, Box<Answer>),
    /// Ask this registrar, who may have to be dialled first, and report [`crate::FederationInput::Joined`].
    Join {
        /// The federation that is to be joined.
        federation: FederationId,
        /// Who has to be there.
        registrar: PublicKey,
        /// Where it may be, beside where it is known to be.
        addresses: Vec<Address>,
        /// The question, as the registrar takes it.
        request: Box<JoinRequest>,
    },
    /// Say hello to every connected peer again, since there are other certificates to show;
    /// what the peers show in turn is [`crate::FederationInput::Papers`].
    Introduce,
    /// Something worth a line in the log and in `mercato events`.
    Notice(Notice),
}

impl Effect {
    /// Whether the part of the agent that has the leases has gone on with it.
    pub fn is_of_leases(&self) -> bool {
        self.leases() != LeasesAhead::NONE
    }

    /// Which leases have gone on with it.
    pub(crate) fn leases(&self) -> LeasesAhead {
        match self {
            Self::Persist(change) => change.leases(),
            Self::Lease(desire) => LeasesAhead::one(desire.contract.id),
            Self::Workload { contract, .. }
            | Self::Forget(contract)
            | Self::CloseStreams(contract)
            | Self::Work(contract, _)
            | Self::Carry(contract, ..)
            | Self::CarrySecond(contract, ..)
            | Self::Map(contract, _)
            | Self::Unmap(contract, _) => LeasesAhead::one(*contract),
            Self::OwnRanges(_) => LeasesAhead::All,
            Self::Dial { .. }
            | Self::HangUp(_)
            | Self::Block(..)
            | Self::Refuse(..)
            | Self::Ranks(_)
            | Self::Rank(..)
            | Self::Gossip { .. }
            | Self::Negotiation { .. }
            | Self::Reply(..)
            | Self::Federation(..)
            | Self::Join { .. }
            | Self::Introduce
            | Self::Notice(_) => LeasesAhead::NONE,
        }
    }
}

/// A frame on the workload stream of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// From home to the provider.
    ToGuest(message::Frame<ToGuest>),
    /// From the provider to home.
    ToHome(message::Frame<ToHome>),
}

impl Frame {
    /// Which way the bodies go that come with it.
    pub fn way(&self) -> Way {
        match self {
            Self::ToGuest(_) => Way::ToGuest,
            Self::ToHome(_) => Way::ToHome,
        }
    }
}

/// How a lease is to be in this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseDesire {
    /// Which side this cluster is on: the consumer shows a virtual node and follows its
    /// pods, the provider keeps guest namespaces and follows what is in them.
    pub side: Side,
    /// The contract as both signed it.
    pub contract: Contract,
    /// The key that speaks for the other side now: it may have changed it since.
    pub peer: PublicKey,
    /// What the other side calls itself, as far as that is known.
    pub peer_name: Option<String>,
    /// Of which country certificates say that the other side is, if of one.
    pub country: Option<String>,
    /// Whether the other side is connected, and heard.
    pub reachable: bool,
    /// Since when it is not, by the wall clock in ms: since its last word, as far as that is known.
    pub away_since_ms: Option<u64>,
    /// The other side is connected, and does not take what it is told under the lease.
    pub stuck: bool,
    /// How far the lease is.
    pub phase: Phase,
    /// When it ends, and from when on home prepares for that.
    pub ends: Leaving,
    /// Provider: guest namespaces by home namespace. They have to be there before any
    /// [`Work`] that comes after this is done.
    pub namespaces: BTreeMap<String, String>,
    /// Of the other side's pods, those that this cluster's may call or be called by: consumer, the
    /// range that the guests' addresses are of; provider, those of the consumer's own pods.
    pub ranges: Vec<MappedRange>,
    /// Consumer: by which ranges guests know this cluster's own pods, and guests of other leases.
    pub own: Vec<MappedRange>,
    /// Consumer: it was bought by itself for pods without room.
    pub is_burst: bool,
}

impl LeaseDesire {
    /// Consumer: the end of the lease, where it is so near that home prepares for it.
    pub fn leaving(&self, wall_ms: u64) -> Option<Leaving> {
        let why = match self.phase {
            Phase::Open | Phase::Suspended => self.ends.why.clone(),
            Phase::Draining | Phase::Ended => LeavingWhy::Ended,
        };
        Some(Leaving { why, ..self.ends }).filter(|leaving| leaving.is_begun(wall_ms))
    }
}

/// By which addresses this cluster's own pods are known inside tunnels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnRanges {
    /// The one of its nodes, of which each has one address; none while there is no pool.
    pub nodes: Option<IpNet>,
    /// Blocks of its pod network.
    pub blocks: Vec<MappedRange>,
    /// Where its pods are that run in other clusters, if they do so by several leases: as much as a
    /// peer takes beside the others.
    pub leases: Vec<IpNet>,
}

/// How far a lease is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Set up, and open to pods, at home until it is [`LeaseDesire::leaving`].
    Open,
    /// As it is. Consumer: no new pods.
    Suspended,
    /// Being ended in good order. Consumer: no new pods, those there are evicted; then the
    /// node is removed. Provider: the session removes the guests.
    Draining,
    /// Provider: no guest is left; the namespaces are removed.
    Ended,
}

/// Work of a lease at the API server of this cluster, by the side that it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// As the consumer, at home.
    Home(HomeWork),
    /// As the provider, whose guests they are.
    Guest(GuestWork),
}

/// Work at home's API server; what comes of it is a [`crate::LeaseInput::Home`]. The words are those
/// of [`mercato_offload::home::Effect`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HomeWork {
    /// Tell of this object, now and whenever it changes.
    Watch(ObjectKey),
    /// Tell of this object no longer.
    Unwatch(ObjectKey),
    /// Ask for this pod by name.
    Confirm(PodId),
    /// Write this to the pod at home.
    Write(PodId, Write),
    /// Tell the owner of this object that the provider refuses it.
    ObjectRefused(ObjectKey, message::Refusal),
    /// This came of what home wishes for a claim.
    Claim(ObjectKey, Granted),
    /// Tell the owner of this pod what the kubelet over there says of it.
    Event(PodId, message::PodEvent),
}

/// Work at the provider's API server; what comes of it is a [`crate::LeaseInput::Guest`]. The words
/// are those of [`mercato_offload::guest::Effect`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestWork {
    /// Make the guest object of this body, which came this way, or update it.
    Apply(Item, Content),
    /// The same of a pod that is on record as made.
    Make(PodId, Content),
    /// Update this pod, never make it.
    Update(PodId, Content),
    /// Delete, with the grace in seconds or its own.
    Delete(Item, Option<u32>),
    /// Take our finalizer off this pod.
    Release(PodId),
    /// Ask for this by name; a pod that was made under this uid is known by it.
    Confirm(Item, Option<GuestUid>),
}
