//! Which of those who are connected are neighbours in gossip, and who is hung up on. There are
//! more connections than a neighbourhood has places: those that we dialled and partners come
//! before members, and members before strangers.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_broker::{Broker, Deal, Standing};
use mercato_gossip::limits::{KNOWN_PUBLISHERS, NEIGHBOURS, SHUN_MS};
use mercato_protocol::bounded::{Bounded, Rank, Room};
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::negotiation::State;
use mercato_protocol::time::Now;

use crate::agent::Agent;
use crate::effect::Effect;
use crate::rank::ranks;

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

/// Whether a contract with its cluster is in force.
pub(crate) fn is_bound(deal: &Deal) -> bool {
    match deal.state() {
        State::Pending | State::Active | State::Suspended | State::Reclaiming => true,
        State::Unknown
        | State::Requested
        | State::Review
        | State::Agreed
        | State::Offered
        | State::Closed
        | State::Terminated => false,
    }
}

/// With whom contracts are in force, by key.
fn bound(broker: &Broker) -> impl Iterator<Item = PublicKey> {
    broker.deals().filter(|deal| is_bound(deal)).map(Deal::peer_key)
}

impl Agent {
    /// A peer that is connected becomes a neighbour, if there is a place for it.
    pub(crate) fn enter_gossip(
        &mut self,
        now: Now,
        (peer, cluster): (PublicKey, ClusterId),
        dialled: bool,
        out: &mut Vec<Effect>,
    ) {
        let worth = self.worth(&cluster, dialled);
        let left = {
            let (peers, rank) = (&self.peers, ranks(&self.broker, &self.federated));
            // Nobody leaves for one who matters no more.
            let rank = |key: &PublicKey, of: &Neighbour| match () {
                () if *key == peer => worth,
                () if of.dialled || peers.standing(&of.cluster) == Standing::Trusted => Rank::Kept,
                () if rank(&of.cluster) >= worth => Rank::Kept,
                () => rank(&of.cluster),
            };
            self.neighbours.0.put(peer, Neighbour { cluster, dialled }, rank)
        };
        let Ok(left) = left else { return };
        for (key, _) in left {
            self.spread(now, mercato_gossip::Input::Disconnected(key), out);
        }
        self.spread(now, mercato_gossip::Input::Connected(peer), out);
    }

    /// It is none any more; who matters most of those that had no place has one now.
    pub(crate) fn leave_gossip(&mut self, now: Now, peer: PublicKey, out: &mut Vec<Effect>) {
        if self.neighbours.0.remove(&peer).is_none() {
            return;
        }
        self.spread(now, mercato_gossip::Input::Disconnected(peer), out);
        let connected = self.peers.connected();
        if self.neighbours.0.len() + 1 < NEIGHBOURS || connected.len() <= self.neighbours.0.len() {
            return;
        }
        let waits = |key: &PublicKey| {
            *key != peer && !self.neighbours.0.contains_key(key) && !self.gossip.shuns(now, key)
        };
        let waiting = connected.iter().filter(|(key, _)| waits(key));
        let waiting = waiting.map(|(key, owner)| (*key, owner.cluster_id()));
        let waiting = waiting.filter(|(_, of)| self.peers.standing(of) != Standing::Blocked);
        let next = waiting.max_by_key(|(_, cluster)| self.rank(cluster));
        if let Some(next) = next {
            self.enter_gossip(now, next, false, out);
        }
    }

    fn worth(&self, cluster: &ClusterId, dialled: bool) -> Rank {
        if dialled { Rank::Partner } else { self.rank(cluster) }
    }

    /// Gossip takes nothing more from this neighbour. It is hung up on, and refused for as long,
    /// unless a contract needs it: then it is not listened to in gossip alone.
    pub(crate) fn on_shunned(&mut self, now: Now, peer: PublicKey, out: &mut Vec<Effect>) {
        let cluster = self.peers.connected().get(&peer).map(|owner| owner.cluster_id());
        if !cluster.is_some_and(|cluster| self.is_bound_to(&cluster)) {
            out.push(Effect::Refuse(peer, SHUN_MS));
        }
        self.leave_gossip(now, peer, out);
    }

    /// Whether a contract with this cluster is in force, or what is left of one is to be told.
    pub(crate) fn is_bound_to(&self, cluster: &ClusterId) -> bool {
        let mut deals = self.broker.deals();
        let mut leases = self.leases.values();
        deals.any(|deal| deal.peer() == *cluster && is_bound(deal))
            || leases.any(|lease| lease.peer().cluster == *cluster && !lease.is_retired())
    }

    /// Tells gossip which publishers are known, and the network what whose connections are worth,
    /// once for all that changed it.
    pub(crate) fn tell_known(&mut self, now: Now, out: &mut Vec<Effect>) {
        let also_known = std::mem::take(&mut self.also_known);
        if !std::mem::take(&mut self.known_changed) {
            for publisher in also_known {
                Arc::make_mut(&mut self.told_ranks).insert(publisher, Rank::Partner);
                out.push(Effect::Rank(publisher, Rank::Partner));
                self.spread(now, mercato_gossip::Input::AlsoKnown(publisher), out);
            }
            return;
        }
        let mut known = self.peers.trusted();
        known.extend(bound(&self.broker));
        let mut worth: BTreeMap<PublicKey, Rank> =
            known.iter().map(|key| (*key, Rank::Partner)).collect();
        for membership in self.federated.memberships.values() {
            for member in membership.members() {
                worth.entry(member.key).or_insert(Rank::Member);
            }
            // Partners come first, where there are too many.
            for publisher in membership.publishers() {
                if known.len() >= KNOWN_PUBLISHERS {
                    break;
                }
                known.insert(publisher);
            }
        }
        if *self.told_ranks != worth {
            self.told_ranks = Arc::new(worth);
            out.push(Effect::Ranks(Arc::clone(&self.told_ranks)));
        }
        self.spread(now, mercato_gossip::Input::Known(known.into()), out);
    }
}
