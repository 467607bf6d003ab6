//! Which of those who are connected are neighbours in gossip. There are more connections than a
//! neighbourhood has places: those that we dialled and partners come before members, and members
//! before strangers.

use mercato_broker::Standing;
use mercato_gossip::Input;
use mercato_gossip::limits::NEIGHBOURS;
use mercato_protocol::bounded::{Bounded, Rank, Room};
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::time::Now;

use crate::context::Context;
use crate::federation::Federations;
use crate::request::Request;

/// Those who are neighbours, whether we dialled them.
#[derive(Debug)]
pub(crate) struct Neighbours(Bounded<PublicKey, Neighbour>);

#[derive(Debug)]
struct Neighbour {
    cluster: ClusterId,
    dialled: bool,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self(Bounded::new(Room::of(NEIGHBOURS)))
    }
}

impl Neighbours {
    /// A peer that is connected becomes a neighbour, if there is a place for it.
    pub(crate) fn enter(
        &mut self,
        peer: PublicKey,
        cluster: ClusterId,
        dialled: bool,
        federations: &Federations,
        context: Context<'_>,
    ) -> Vec<Request> {
        let rank = federations.ranks(context.broker);
        let is_trusted = |of: &ClusterId| context.peers.standing(of) == Standing::Trusted;
        let worth = match dialled || is_trusted(&cluster) {
            true => Rank::Partner,
            false => rank(&cluster),
        };
        // Nobody leaves for one who matters no more.
        let rank = |key: &PublicKey, of: &Neighbour| match () {
            () if *key == peer => worth,
            () if of.dialled || is_trusted(&of.cluster) => Rank::Kept,
            () if rank(&of.cluster) >= worth => Rank::Kept,
            () => rank(&of.cluster),
        };
        let Ok(left) = self.0.put(peer, Neighbour { cluster, dialled }, rank) else {
            return Vec::new();
        };
        let left = left.into_iter().map(|(key, _)| Input::Disconnected(key));
        left.chain([Input::Connected(peer)]).map(Request::Gossip).collect()
    }

    /// It is none any more; who matters most of those that had no place has one now.
    pub(crate) fn leave(
        &mut self,
        now: Now,
        peer: PublicKey,
        federations: &Federations,
        context: Context<'_>,
    ) -> Vec<Request> {
        if self.0.remove(&peer).is_none() {
            return Vec::new();
        }
        let mut out = vec![Request::Gossip(Input::Disconnected(peer))];
        let (peers, connected) = (context.peers, context.peers.connected());
        if self.0.len() + 1 < NEIGHBOURS || connected.len() <= self.0.len() {
            return out;
        }
        let waits = |key: &PublicKey| {
            *key != peer && !self.0.contains_key(key) && !context.gossip.is_banned(now, key)
        };
        let waiting = connected.iter().filter(|(key, _)| waits(key));
        let waiting = waiting.map(|(key, owner)| (*key, owner.cluster_id()));
        let waiting = waiting.filter(|(_, of)| peers.standing(of) != Standing::Blocked);
        let next = waiting.max_by_key(|(_, cluster)| federations.rank(cluster, context));
        if let Some((next, cluster)) = next {
            out.extend(self.enter(next, cluster, false, federations, context));
        }
        out
    }
}
