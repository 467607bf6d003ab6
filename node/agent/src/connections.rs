//! Which connections there are to be: with whom a negotiation or a lease is, and where providers
//! say that they are. Dialling, and whom to meet otherwise, is the directory's.

use std::collections::BTreeMap;

use mercato_broker::{Broker, Deal};
use mercato_discovery::limits::OWED_MS;
use mercato_discovery::{
    Address, Directory, Effect as Wanted, Input, Report, Sighting, SightingId, Source,
};
use mercato_protocol::ad::Ad;
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::negotiation::State;
use mercato_protocol::time::Now;

use crate::effect::Effect;
use crate::lease::table::Leases;
use crate::peers::Peers;

/// The directory, and what the other parts need of it.
pub(crate) struct Connections {
    own: PublicKey,
    directory: Directory,
}

impl Connections {
    pub(crate) fn new(own: PublicKey, directory: Directory) -> Self {
        Self { own, directory }
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) fn handle(&mut self, now: Now, input: Input, out: &mut Vec<Effect>) {
        for effect in self.directory.handle(now, input) {
            match effect {
                Wanted::Dial { attempt, peer, addresses } => {
                    out.push(Effect::Dial { attempt, peer, addresses });
                }
                Wanted::HangUp(peer) => out.push(Effect::HangUp(peer)),
                // Nothing else is kept by sighting.
                Wanted::Forget(_) => {}
            }
        }
    }

    /// Has nobody connected with this key (`true`), or no longer.
    pub(crate) fn block(&mut self, now: Now, key: PublicKey, blocked: bool, out: &mut Vec<Effect>) {
        let input = if blocked { Input::Block(key) } else { Input::Unblock(key) };
        self.handle(now, input, out);
        out.push(Effect::Block(key, blocked));
    }

    /// Keeps the connection with this cluster, as long as a negotiation or a lease needs it.
    /// Of a lease that is over nothing is left to say but what home asks for.
    pub(crate) fn keep_connected(
        &mut self,
        now: Now,
        cluster: ClusterId,
        broker: &Broker,
        leases: &Leases,
        peers: &Peers,
        out: &mut Vec<Effect>,
    ) {
        let with_it = || broker.current_deals().filter(|deal| deal.peer() == cluster);
        // After a restart only the deals may know it.
        let key = peers.key(&cluster).or_else(|| with_it().next().map(Deal::peer_key));
        let Some(key) = key else { return };
        if !with_it().any(Deal::needs_peer) && !leases.need(&cluster) {
            return self.handle(now, Input::Release(key), out);
        }
        self.handle(now, Input::Keep(key), out);
        // Of many providers the directory keeps a few.
        let lacks = !self.directory.knows(&key);
        if let Some(ad) = broker.ad(&cluster).filter(|ad| lacks && ad.key == key) {
            self.sight(now, ad, out);
        }
    }

    /// What closed a moment before the restart may have said its last word in vain. Says with
    /// whom that was.
    pub(crate) fn reconnect_recent(
        &mut self,
        now: Now,
        broker: &Broker,
        peers: &Peers,
        out: &mut Vec<Effect>,
    ) -> Vec<ClusterId> {
        let lately = |deal: &&Deal| {
            let end = deal.end().filter(|_| deal.state() == State::Closed);
            end.is_some_and(|end| end.at_ms.saturating_add(OWED_MS) > now.wall_ms)
        };
        let closed = broker.current_deals().filter(lately);
        let closed: BTreeMap<_, _> = closed.map(|deal| (deal.peer(), deal.peer_key())).collect();
        for (cluster, key) in &closed {
            let key = peers.key(cluster).unwrap_or(*key);
            self.handle(now, Input::Keep(key), out);
            self.handle(now, Input::Release(key), out);
        }
        closed.into_keys().collect()
    }

    /// A provider may be dialled where its advertisement says.
    pub(crate) fn sight(&mut self, now: Now, ad: &Ad, out: &mut Vec<Effect>) {
        if ad.key == self.own || !self.directory.listens_to(now, &ad.key) {
            return;
        }
        let addresses = ad.body.addresses.iter();
        let addresses: Vec<Address> = addresses.filter_map(|at| at.parse().ok()).collect();
        if addresses.is_empty() {
            return;
        }
        let id = SightingId { source: Source::Peer(ad.key), instance: String::new() };
        let sighting = Sighting { id, peer: Some(ad.key), addresses };
        self.handle(now, Input::Report(Report::Seen(sighting)), out);
    }
}
