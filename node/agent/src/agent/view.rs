//! The agent's parts, to look at.

use std::collections::BTreeMap;

use mercato_broker::{Broker, Side};
use mercato_discovery::Directory;
use mercato_gossip::Gossip;
use mercato_protocol::certificate::Certificate;
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::{ClusterId, FederationId, PublicKey};
use mercato_protocol::identity::ClusterIdentity;
use mercato_protocol::time::Now;

use super::Agent;
use crate::federation::membership::view::{Joined, Listed};

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

    /// Pods of this cluster that are elsewhere, and those of others that are here.
    pub fn pods(&self) -> (usize, usize) {
        (self.leases.pods(Side::Consumer), self.leases.pods(Side::Provider))
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

    /// Who belongs to a federation, as far as certificates were seen or issued here; none: it
    /// is not known.
    pub fn members(&self, federation: &FederationId, now: Now) -> Option<Vec<Listed>> {
        self.federations.members(now, federation, self.context())
    }
}
