//! The agent's parts, to look at.

use std::collections::BTreeMap;

use mercato_broker::{Broker, Side};
use mercato_discovery::Directory;
use mercato_gossip::Gossip;
use mercato_offload::home::LeftOut;
use mercato_protocol::certificate::Certificate;
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::{ClusterId, ContractId, FederationId, PublicKey};
use mercato_protocol::identity::ClusterIdentity;
use mercato_protocol::time::Now;

use super::Agent;
use crate::federation::membership::view::{Joined, Listed};
use crate::lease::table::Leases;

/// What of all leases is where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed<'a> {
    /// Pods of this cluster that are elsewhere.
    pub elsewhere: usize,
    /// Pods of other clusters that are here.
    pub here: usize,
    /// How many pods each lease has, on whichever side.
    pub by_contract: BTreeMap<ContractId, usize>,
    /// Services that pods of this cluster elsewhere do without, since their namespaces have more than a
    /// provider takes: by namespace.
    pub left_out: BTreeMap<&'a str, &'a LeftOut>,
}

impl<'a> Placed<'a> {
    fn of(leases: &'a Leases) -> Self {
        let mut placed = Self { left_out: leases.left_out(), ..Self::default() };
        for (contract, side, pods) in leases.pods() {
            match side {
                Side::Consumer => placed.elsewhere += pods,
                Side::Provider => placed.here += pods,
            }
            placed.by_contract.insert(contract, pods);
        }
        placed
    }
}

impl Agent {
    /// Why the records cannot be written, if so. Then nothing that peers say in negotiations can
    /// be kept: the driver hands over none of it, and answers none.
    pub fn degraded(&self) -> Option<&str> {
        self.disk.failure()
    }

    /// The market, to look at.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Whom we know, to look at.
    pub fn directory(&self) -> &Directory {
        self.connections.directory()
    }

    /// What spreads, to look at.
    pub fn gossip(&self) -> &Gossip {
        &self.gossip
    }

    /// What is elsewhere of this cluster, and here of others.
    pub fn placed(&self) -> Placed<'_> {
        Placed::of(&self.leases)
    }

    /// The key that speaks for a cluster, if it was met or heard of.
    pub fn key(&self, cluster: &ClusterId) -> Option<PublicKey> {
        self.peers.key(cluster)
    }

    /// Who is connected, by key.
    pub fn connected(&self) -> &BTreeMap<PublicKey, ClusterIdentity> {
        self.peers.connected()
    }

    /// Of what this cluster shows to others: none while it belongs to no federation.
    pub fn certificates(&self) -> &[Signed<Certificate>] {
        self.federations.certificates()
    }

    /// The federations that this cluster goes by.
    pub fn federations(&self) -> Vec<Joined> {
        self.federations.joined()
    }

    /// Who belongs to a federation, as far as certificates say that are known; none: none is known.
    pub fn members(&self, federation: &FederationId, now: Now) -> Option<Vec<Listed>> {
        self.federations.members(now, federation, self.context())
    }
}
