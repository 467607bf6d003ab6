//! Whom the agent's bounded tables keep first: partners, then members, then strangers.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use mercato_broker::{Broker, Deal, Standing};
use mercato_protocol::bounded::Rank;
use mercato_protocol::id::{ClusterId, PublicKey};

use crate::agent::Agent;
use crate::federation::Federated;
use crate::peers::Peers;

/// Whether there is a contract with a cluster, or may be one: to be asked of many at once.
fn deals_with(broker: &Broker) -> impl Fn(&ClusterId) -> bool {
    let with: LazyCell<BTreeSet<ClusterId>, _> =
        LazyCell::new(|| broker.deals().map(Deal::peer).collect());
    move |cluster| with.contains(cluster)
}

/// Whom the owner trusts, or with whom there is a contract: to be asked of many at once.
pub(crate) fn partners(peers: &Peers, broker: &Broker) -> impl Fn(&ClusterId) -> bool {
    let deals = deals_with(broker);
    move |cluster| peers.standing(cluster) == Standing::Trusted || deals(cluster)
}

/// What clusters are worth by contracts and certificates: to be asked of many at once.
pub(crate) fn ranks(broker: &Broker, federated: &Federated) -> impl Fn(&ClusterId) -> Rank {
    let deals = deals_with(broker);
    move |cluster| {
        let is_member = || federated.memberships.values().any(|of| of.is_member(cluster));
        match () {
            () if deals(cluster) => Rank::Partner,
            () if is_member() => Rank::Member,
            () => Rank::Stranger,
        }
    }
}

impl Agent {
    /// What one cluster is worth.
    pub(crate) fn rank(&self, cluster: &ClusterId) -> Rank {
        let in_others = ranks(&self.broker, &self.federated)(cluster);
        match self.peers.standing(cluster) {
            Standing::Trusted => Rank::Partner,
            Standing::Stranger | Standing::Blocked => in_others,
        }
    }

    /// What the cluster is worth that signs with this key, or issues certificates by it.
    pub(crate) fn rank_of_key(&self, key: &PublicKey) -> Rank {
        let cluster = self.peers.cluster(key);
        let issues = || self.federated.memberships.values().any(|of| of.is_issuer(key));
        let rank = cluster.map_or(Rank::Stranger, |cluster| self.rank(&cluster));
        if rank == Rank::Stranger && issues() { Rank::Member } else { rank }
    }
}
