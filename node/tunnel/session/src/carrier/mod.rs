//! What carries between one [endpoint](Endpoint) and the shards of a gateway: what the shards saw
//! goes to the endpoint, and its effects, each performed in this place alone, to the shards. The
//! [data path](DataPath) of each shard does what it is ordered, and keeps what waits for a session.
//!
//! Shards may run on threads of their own, so there are two parts: the carrier is with the
//! endpoint, a data path is with each shard, and whoever has both gives the one's orders to the
//! others, in their order.

mod addresses;
mod data_path;
mod handshakes;
mod order;
mod outlet;
mod tables;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_protocol::id::ClusterId;
use mercato_protocol::time::Now;

use self::handshakes::Handshakes;
use self::tables::Tables;
use crate::activity::Activity;
use crate::address_table::{Change, Refused};
use crate::endpoint::{Config, Effect, Endpoint, Ignored, Link, NoRoom, PeerConfig, PeerState};
use crate::limits;
use crate::peer_index::PeerIndex;
use crate::via::Via;

pub use self::addresses::Addresses;
pub use self::data_path::DataPath;
pub use self::order::{Order, Say};
pub use self::outlet::{Outbox, Outlet};

/// The endpoint of a gateway, and what is to be carried to it.
pub struct Carrier {
    endpoint: Endpoint,
    handshakes: Handshakes,
    tables: Tables,
    /// What the shards saw of each peer, and the endpoint was not told yet.
    seen: BTreeMap<PeerIndex, Activity>,
    /// Peers by which leases are in force, and until when the endpoint was told that they are.
    watched: BTreeMap<PeerIndex, u64>,
}

/// The shards of a gateway, as a carrier sees them.
pub trait Shards {
    /// Lets each of them do this, after all that was ordered before.
    fn order(&mut self, order: Order);

    /// Lets the first of them say this, after all that was ordered before.
    fn say(&mut self, say: Say);

    /// Takes note of a link that has come up, or gone down: that to a gateway of this cluster, whose
    /// secret was shown in the handshake.
    fn link(&mut self, peer: PeerIndex, link: Link, cluster: ClusterId);

    /// Takes note of a datagram that had no effect.
    fn ignored(&mut self, from: Via, why: Ignored);
}

impl Carrier {
    /// A gateway without peers; `seed` is 32 random bytes for it alone.
    pub fn new(config: Config, seed: [u8; 32]) -> Self {
        let mut endpoint = Endpoint::new(config, seed);
        let tables = Tables::new(endpoint.table_seed());
        let (seen, watched) = (BTreeMap::new(), BTreeMap::new());
        Self { endpoint, handshakes: Handshakes::default(), tables, seen, watched }
    }

    /// Adds a peer; one with this key that is there already gets the new claims. Sessions by the
    /// secret of a cluster whose claim is gone are over, at the latest when the
    /// [next change](Carrier::apply) is made.
    ///
    /// # Errors
    /// When there are [`limits::PEERS`] already.
    pub fn add_peer(&mut self, now: Now, config: PeerConfig) -> Result<PeerIndex, NoRoom> {
        self.endpoint.add_peer(now, config)
    }

    /// Forgets a peer, its sessions and its keys.
    pub fn remove_peer<S: Shards>(&mut self, peer: PeerIndex, shards: &mut S) {
        self.seen.remove(&peer);
        self.watched.remove(&peer);
        self.endpoint.remove_peer(peer);
        self.perform(shards);
        shards.order(Order::RemovePeer(peer));
    }

    /// Changes which addresses exist for whom, in all shards at once. Peers by which packets go are
    /// connected. Gives the changes that were refused, by their place, and why; the others are made.
    pub fn apply<S: Shards>(
        &mut self,
        now: Now,
        changes: impl IntoIterator<Item = Change>,
        shards: &mut S,
    ) -> Vec<(usize, Refused)> {
        // What comes by a session that is over is of no lease that there is from now on.
        self.perform(shards);
        let (mut refused, mut places, mut resolved) = (Vec::new(), Vec::new(), Vec::new());
        for (place, change) in changes.into_iter().enumerate() {
            match change.resolve(|key| self.endpoint.peer(key)) {
                Ok(change) => {
                    places.push(place);
                    resolved.push(change);
                }
                Err(why) => refused.push((place, why)),
            }
        }
        let active = resolved.iter().filter_map(|change| match change {
            Change::Link { active, .. } => Some(*active),
            Change::RemoveLink(_)
            | Change::Lease { .. }
            | Change::RemoveLease(_)
            | Change::AddLocal(_)
            | Change::RemoveLocal { .. }
            | Change::AddRemote(_)
            | Change::RemoveRemote { .. }
            | Change::AddRemoteRange(_)
            | Change::RemoveRemoteRange { .. }
            | Change::AddGroup { .. }
            | Change::RemoveGroup { .. }
            | Change::AddMember { .. }
            | Change::RemoveMember { .. }
            | Change::AddGone(_)
            | Change::RemoveGone(_) => None,
        });
        let active: Vec<PeerIndex> = active.collect();
        let of_table = self.tables.apply(now.mono_ms, resolved);
        refused.extend(of_table.into_iter().map(|(nth, why)| (places[nth], why)));
        refused.sort_unstable_by_key(|(place, _)| *place);
        shards.order(Order::Table(Arc::clone(self.tables.active())));
        active.into_iter().for_each(|peer| self.endpoint.connect(now, peer));
        self.watch(now);
        self.perform(shards);
        refused
    }

    /// Lets the endpoint watch the peers by which leases are in force, and no others.
    fn watch(&mut self, now: Now) {
        let watched = self.tables.active().ends_by_gateway();
        for peer in self.watched.keys().filter(|peer| !watched.contains_key(peer)) {
            self.endpoint.watch(now, *peer, None);
        }
        for (peer, end_ms) in &watched {
            if self.watched.get(peer) != Some(end_ms) {
                self.endpoint.watch(now, *peer, Some(*end_ms));
            }
        }
        self.watched = watched;
    }

    /// What is known of each peer.
    pub fn peers(&self, now: Now) -> Vec<PeerState> {
        self.endpoint.states(now)
    }

    /// Begins a handshake with a peer, unless one is under way or there is a young session.
    pub fn connect<S: Shards>(&mut self, now: Now, peer: PeerIndex, shards: &mut S) {
        self.endpoint.connect(now, peer);
        self.perform(shards);
    }

    /// Takes a datagram that is no sealed packet, to be looked at in its turn. Of more than are
    /// looked at soon, some are lost: says whether this one is not.
    pub fn take_datagram(&mut self, via: Via, datagram: &[u8]) -> bool {
        let is_known = self.endpoint.knows(via.to.ip());
        self.handshakes.push(via, datagram, is_known)
    }

    /// Whether datagrams wait that were taken.
    pub fn has_datagrams(&self) -> bool {
        !self.handshakes.is_empty()
    }

    /// Looks at datagrams that were taken: at [`limits::HANDSHAKES_A_TURN`], so that a shard on
    /// the same thread goes on to carry packets.
    pub fn handle_datagrams<S: Shards>(&mut self, now: Now, shards: &mut S) {
        for _ in 0..limits::HANDSHAKES_A_TURN {
            let Some((via, datagram)) = self.handshakes.pop() else { break };
            if let Err(why) = self.endpoint.handle_datagram(now, via, &datagram) {
                shards.ignored(via, why);
            }
        }
        self.perform(shards);
    }

    /// Takes what a shard saw of a peer, for the next [carry](Carrier::carry).
    pub fn note(&mut self, now: Now, peer: PeerIndex, activity: Activity) {
        if let Some(before) = self.seen.entry(peer).or_default().add(activity) {
            self.endpoint.handle_activity(now, peer, before);
        }
    }

    /// Whether the endpoint was not told yet of something that shards saw.
    pub fn has_notes(&self) -> bool {
        !self.seen.is_empty()
    }

    /// Carries what shards saw to the endpoint, lets it do what is due, and performs its effects.
    /// Says whether there were any.
    pub fn carry<S: Shards>(&mut self, now: Now, shards: &mut S) -> bool {
        for (peer, activity) in std::mem::take(&mut self.seen) {
            self.endpoint.handle_activity(now, peer, activity);
        }
        self.endpoint.handle_timeout(now);
        if self.tables.drop_ms().is_some_and(|at_ms| at_ms <= now.mono_ms) {
            // Nothing is changed, but for what is over.
            let _ = self.tables.apply(now.mono_ms, Vec::new());
            shards.order(Order::Table(Arc::clone(self.tables.active())));
        }
        self.perform(shards)
    }

    /// When [`Carrier::carry`] is to be called at the latest, on the monotonic clock.
    pub fn wakeup_ms(&self) -> Option<u64> {
        [self.endpoint.wakeup_ms(), self.tables.drop_ms()].into_iter().flatten().min()
    }

    /// How many initiations were looked at with the private key, ever: what a flood costs.
    pub fn examined_initiations(&self) -> u64 {
        self.endpoint.examined_initiations()
    }

    fn perform<S: Shards>(&mut self, shards: &mut S) -> bool {
        let effects: Vec<Effect> = std::iter::from_fn(|| self.endpoint.poll_effect()).collect();
        let is_any = !effects.is_empty();
        // Whoever hears of a session may use it at once, with any shard: before anything is said,
        // all shards have its keys.
        let (keys, others): (Vec<_>, Vec<_>) =
            effects.into_iter().partition(|effect| matches!(effect, Effect::Install(..)));
        for effect in keys.into_iter().chain(others) {
            match effect {
                Effect::Install(peer, keys) => shards.order(Order::Install(peer, keys)),
                Effect::SealWith(peer, index) => shards.order(Order::SealWith(peer, index)),
                Effect::RemoveSession(index) => shards.order(Order::RemoveSession(index)),
                Effect::Address(peer, via) => shards.order(Order::Address(peer, via)),
                Effect::Path(peer, path) => shards.order(Order::Path(peer, path)),
                Effect::Send(via, datagram) => shards.say(Say::Datagram(via, datagram)),
                Effect::Control(peer, control) => shards.say(Say::Control(peer, control)),
                Effect::Challenge(peer, via, number) => {
                    shards.say(Say::Challenge(peer, via, number));
                }
                Effect::Link(peer, link, cluster) => shards.link(peer, link, cluster),
            }
        }
        is_any
    }
}
