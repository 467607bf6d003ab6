//! What can happen to the broker.

use std::collections::BTreeMap;

use mercato_protocol::ad::Ad;
use mercato_protocol::envelope::Verified;
use mercato_protocol::gossip::Withdraw;
use mercato_protocol::id::{ClusterId, ContractId, PublicKey};
use mercato_protocol::negotiation::Message;

use super::command::Command;
use crate::burst::{PodDemand, Stir};
use crate::catalogue::Membership;
use crate::sale::Inventory;

/// What happened, as the caller tells it.
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
    /// What guests reach of the Internet can, or cannot, be kept to what their contracts say.
    Egress(bool),
    /// The records cannot be written (`true`): until they can nothing new is promised, no word of a
    /// peer is taken, and nothing is due.
    Degraded(bool),
    /// Which pods of this cluster find no room and could run elsewhere, and its virtual nodes: in the
    /// place of what was said before.
    Pending(Box<PodDemand>),
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
    /// A cluster closes its connection, by what this one has seen itself; it is not connected any more next.
    HungUp(ClusterId),
    /// A cluster that was connected is not any more.
    Disconnected(ClusterId),
    /// A peer says something in a negotiation.
    Message(Box<Verified<Message>>),
    /// Consumer: what was bought can be used, the virtual node is ready.
    Usable(ContractId),
    /// Provider: what was sold cannot be set up.
    Unprovidable(ContractId, String),
    /// Nothing of the lease is left in this cluster ([`Desired::Drained`] is reached).
    ///
    /// [`Desired::Drained`]: crate::Desired::Drained
    CleanedUp(ContractId),
    /// The owner wants something; answered by [`Effect::Reply`] with the same number.
    ///
    /// [`Effect::Reply`]: crate::Effect::Reply
    Command(u64, Box<Command>),
}

impl Input {
    /// How much it matters to what is bought by itself.
    pub(super) fn stirs(&self) -> Stir {
        match self {
            Self::Pending(_)
            | Self::Message(_)
            | Self::Usable(_)
            | Self::Unprovidable(..)
            | Self::CleanedUp(_)
            | Self::Degraded(_)
            | Self::Command(..) => Stir::Now,
            Self::Ad(_) | Self::Withdrawn(_) | Self::Membership(_) | Self::Keys(..) => Stir::Offers,
            Self::Tick
            | Self::Inventory(_)
            | Self::Addresses(_)
            | Self::RoundTrips(_)
            | Self::Isolation(_)
            | Self::Egress(_)
            | Self::Connected(_)
            | Self::HungUp(_)
            | Self::Disconnected(_) => Stir::Nothing,
        }
    }
}
