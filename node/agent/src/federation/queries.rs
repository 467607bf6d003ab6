//! What others may know of federations: who is a member, what a cluster is worth by that, and what
//! people look at.

use mercato_broker::{Broker, Standing};
use mercato_protocol::bounded::Rank;
use mercato_protocol::certificate::Certificate;
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::{ClusterId, FederationId, PublicKey};
use mercato_protocol::time::Now;

use super::Federations;
use super::membership::Membership;
use super::membership::view::{Joined, Listed};
use crate::context::{Context, deals_with};

impl Federations {
    /// Of what this cluster shows to others: none while it belongs to no federation.
    pub(crate) fn certificates(&self) -> &[Signed<Certificate>] {
        &self.told.own
    }

    pub(crate) fn memberships(&self) -> impl Iterator<Item = &Membership> {
        self.memberships.values()
    }

    pub(crate) fn is_member(&self, cluster: &ClusterId) -> bool {
        self.memberships().any(|of| of.is_member(cluster))
    }

    /// How this cluster stands in each federation.
    pub(crate) fn joined(&self) -> Vec<Joined> {
        self.memberships().map(|of| of.joined(&self.config)).collect()
    }

    /// Who belongs to a federation; none: it is not known.
    pub(crate) fn members(
        &self,
        now: Now,
        federation: &FederationId,
        context: Context<'_>,
    ) -> Option<Vec<Listed>> {
        let of = self.memberships.get(federation)?;
        let us = self.config.identity.open_identity(now).ok();
        let owners = context.peers.connected().values().chain(&us);
        let names = owners.map(|owner| (owner.cluster_id(), owner.name.clone())).collect();
        Some(of.listed(now, &names))
    }

    /// What clusters are worth by contracts and certificates: to be asked of many at once.
    pub(crate) fn ranks(&self, broker: &Broker) -> impl Fn(&ClusterId) -> Rank {
        let deals = deals_with(broker);
        move |cluster| match () {
            () if deals(cluster) => Rank::Partner,
            () if self.is_member(cluster) => Rank::Member,
            () => Rank::Stranger,
        }
    }

    /// What one cluster is worth.
    pub(crate) fn rank(&self, cluster: &ClusterId, context: Context<'_>) -> Rank {
        match context.peers.standing(cluster) {
            Standing::Trusted => Rank::Partner,
            Standing::Stranger | Standing::Blocked => self.ranks(context.broker)(cluster),
        }
    }

    /// What the cluster is worth that signs with this key, or issues certificates by it.
    pub(crate) fn rank_of_key(&self, key: &PublicKey, context: Context<'_>) -> Rank {
        let cluster = context.peers.cluster(key);
        let issues = || self.memberships().any(|of| of.is_issuer(key));
        let rank = cluster.map_or(Rank::Stranger, |cluster| self.rank(&cluster, context));
        if rank == Rank::Stranger && issues() { Rank::Member } else { rank }
    }
}
