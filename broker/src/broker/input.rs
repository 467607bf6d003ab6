//! What can happen to the broker.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::ad::Ad;
use mercato_protocol::certificate::Certificate;
use mercato_protocol::envelope::{Signed, Verified};
use mercato_protocol::gossip::Withdraw;
use mercato_protocol::gpu::GpuPool;
use mercato_protocol::id::{ClusterId, ContractId, FederationId, PublicKey};
use mercato_protocol::negotiation::Message;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::Platform;
use mercato_protocol::text::Slug;

use crate::broker::command::Command;

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// A deadline came. Any other input serves as well.
    Tick,
    /// What the cluster has, now: replaces what was said before.
    Inventory(Inventory),
    /// Where this daemon can be dialled, now: multiaddresses.
    Addresses(Vec<String>),
    /// How far away whom is, now: the last round trip by key, in microseconds.
    RoundTrips(BTreeMap<PublicKey, u64>),
    /// Guests can, or cannot, be kept apart on this cluster's network.
    Isolation(bool),
    /// The records cannot be written (`true`): nothing new is promised until they can.
    Degraded(bool),
    /// Whom a joined federation certifies, and who is proven a fraud: in the place of what was
    /// said before.
    Membership(Membership),
    /// Whose keys they are that speak, or spoke, for a cluster: the latest last. What it signed
    /// with an earlier one stands; what it signs now, it signs with the latest.
    Keys(ClusterId, Vec<PublicKey>),
    /// An advertisement came. One of this cluster's own tells how high its numbers went.
    Ad(Box<Ad>),
    /// A provider offers nothing any more.
    Withdrawn(Verified<Withdraw>),
    /// A cluster is connected, perhaps anew: what it was told before may be lost.
    Connected(ClusterId),
    /// A peer says something in a negotiation.
    Message(Box<Verified<Message>>),
    /// Consumer: what was bought can be used, the virtual node is ready.
    Usable(ContractId),
    /// Provider: what was sold cannot be set up.
    Unprovidable(ContractId, String),
    /// Nothing of the lease is left in this cluster ([`Desired::Drained`] is reached).
    ///
    /// [`Desired::Drained`]: crate::broker::effect::Desired::Drained
    Drained(ContractId),
    /// The owner wants something; answered by [`Effect::Reply`] with the same number.
    ///
    /// [`Effect::Reply`]: crate::broker::effect::Effect::Reply
    Command(u64, Command),
}

/// What certificates and proofs say of clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// What this cluster shows to others.
    pub own: Vec<Signed<Certificate>>,
    /// As good as trusted by the owner, unless the owner says otherwise.
    pub certified: BTreeMap<ClusterId, Vec<Affiliation>>,
    /// Blocked for new deals, whatever the owner says.
    pub barred: BTreeSet<ClusterId>,
}

/// That a cluster belongs to a federation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affiliation {
    /// Which.
    pub federation: FederationId,
    /// What that calls itself.
    pub name: Slug,
    /// Whose cluster it is there.
    pub organisation: Option<Slug>,
    /// Whether it may sell.
    pub sells: bool,
    /// Whether it may buy.
    pub buys: bool,
}

/// What the cluster has, and what home itself asks of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Nodes of one shape each.
    pub pools: Vec<PoolInventory>,
}

/// Nodes of one platform and one kind of GPU, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolInventory {
    /// Processor and operating system.
    pub platform: Platform,
    /// What pods may ask for in all.
    pub allocatable: Resources,
    /// What home's own pods ask for. Guests are not in it: the ledger knows them.
    pub requested: Resources,
    /// The largest single pod that fits now.
    pub largest_pod: Resources,
    /// The GPUs, their count over all nodes.
    pub gpus: Vec<GpuPool>,
}
