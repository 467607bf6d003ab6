//! The connected peers, shared by the handle and the swarm's task.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ipnet::IpNet;
use libp2p::Multiaddr;
use mercato_discovery::Address;
use mercato_protocol::id::PublicKey;

use crate::address;
use crate::gossip::Queue;
use crate::protocols::Protocol;

/// A connected peer, for display.
#[derive(Clone, Debug)]
pub struct PeerInfo {
    /// Who.
    pub peer: PublicKey,
    /// The other end of its first connection.
    pub address: Option<Address>,
    /// Whether we dialled.
    pub dialled: bool,
    /// The last round trip, once there was one.
    pub rtt: Option<Duration>,
    /// How long it has been connected.
    pub connected_for: Duration,
}

/// Counts as one inbound stream for as long as it lives.
#[derive(Clone, Debug)]
pub(crate) struct Permit(#[expect(dead_code, reason = "it is counted")] Arc<()>);

pub(crate) struct Peers {
    table: Mutex<Table>,
    streams_per_peer: usize,
    /// Addresses of this machine that no peer is told: those of tunnels.
    hidden: Option<IpNet>,
}

#[derive(Default)]
struct Table {
    connected: BTreeMap<PublicKey, Peer>,
    granted: BTreeMap<PublicKey, usize>,
    local: Vec<Address>,
    /// Those of the cluster's pods, as its nodes give them out.
    of_pods: Vec<IpNet>,
}

struct Peer {
    address: Option<Address>,
    /// Where it can be dialled again.
    listens_at: Option<Address>,
    dialled: bool,
    since: Instant,
    rtt: Option<Duration>,
    gossip: Arc<Queue>,
    /// For what the two clusters say to each other,
    words: Arc<()>,
    /// and for leases.
    streams: Arc<()>,
}

impl Peers {
    pub(crate) fn new(streams_per_peer: usize, hidden: Option<IpNet>) -> Self {
        Self { table: Mutex::default(), streams_per_peer, hidden }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue of the new neighbour's gossip.
    pub(crate) fn connect(
        &self,
        peer: PublicKey,
        address: Option<Address>,
        dialled: bool,
    ) -> Arc<Queue> {
        let gossip = Arc::new(Queue::default());
        let since = Instant::now();
        let (words, streams) = (Arc::new(()), Arc::new(()));
        let entry = Peer {
            listens_at: address.clone().filter(|_| dialled),
            address,
            dialled,
            since,
            rtt: None,
            gossip: gossip.clone(),
            words,
            streams,
        };
        self.table().connected.insert(peer, entry);
        gossip
    }

    pub(crate) fn disconnect(&self, peer: PublicKey) {
        if let Some(peer) = self.table().connected.remove(&peer) {
            peer.gossip.close();
        }
    }

    /// Whether this is the queue of the peer's gossip.
    pub(crate) fn gossips(&self, peer: PublicKey, queue: &Arc<Queue>) -> bool {
        let table = self.table();
        table.connected.get(&peer).is_some_and(|peer| Arc::ptr_eq(&peer.gossip, queue))
    }

    /// Lets all that is queued go out, and nothing after it.
    pub(crate) fn close_gossip(&self) {
        self.table().connected.values().for_each(|peer| peer.gossip.close());
    }

    /// Whether the peer is connected. No more than `most` bytes wait for it.
    pub(crate) fn send_gossip(&self, peer: PublicKey, frame: Bytes, most: usize) -> bool {
        let Some(gossip) = self.table().connected.get(&peer).map(|peer| peer.gossip.clone()) else {
            return false;
        };
        let dropped = gossip.push(frame, most);
        if dropped > 0 {
            tracing::debug!(peer = %peer.short(), dropped, "a slow neighbour loses gossip");
        }
        true
    }

    pub(crate) fn measure(&self, peer: PublicKey, rtt: Duration) {
        if let Some(peer) = self.table().connected.get_mut(&peer) {
            peer.rtt = Some(rtt);
        }
    }

    pub(crate) fn grant(&self, peer: PublicKey, streams: Option<usize>) {
        let mut table = self.table();
        match streams {
            Some(streams) => table.granted.insert(peer, streams),
            None => table.granted.remove(&peer),
        };
    }

    /// It says where it listens; where we have reached it is better known.
    pub(crate) fn listens(&self, peer: PublicKey, own: &[Multiaddr]) {
        if let Some(peer) = self.table().connected.get_mut(&peer).filter(|peer| !peer.dialled) {
            let from = peer.address.as_ref();
            peer.listens_at = from.and_then(|from| address::listens_at(own, from));
        }
    }

    /// Where the peer can be dialled again.
    pub(crate) fn listens_at(&self, peer: PublicKey) -> Option<Address> {
        self.table().connected.get(&peer)?.listens_at.clone()
    }

    /// Where the peer was reached, or has come from.
    pub(crate) fn address(&self, peer: PublicKey) -> Option<Address> {
        self.table().connected.get(&peer)?.address.clone()
    }

    /// A permit for one more inbound stream, if the peer may have one. However many streams of
    /// leases there are, those of them that are over among them: its words are heard.
    pub(crate) fn permit(&self, peer: PublicKey, protocol: Protocol) -> Option<Permit> {
        let table = self.table();
        let of_leases = table.granted.get(&peer).copied().unwrap_or(self.streams_per_peer);
        let Peer { words, streams, .. } = table.connected.get(&peer)?;
        let (streams, granted) = match protocol {
            Protocol::Market | Protocol::Negotiation | Protocol::Tunnel | Protocol::Pulse => {
                (words, self.streams_per_peer)
            }
            Protocol::Workload | Protocol::Kubelet | Protocol::LongKubelet => (streams, of_leases),
        };
        let has_room = Arc::strong_count(streams) <= granted;
        has_room.then(|| Permit(streams.clone()))
    }

    pub(crate) fn listening(&self, address: Address, on: bool) {
        let local = &mut self.table().local;
        local.retain(|other| *other != address);
        if on {
            local.push(address);
        }
    }

    pub(crate) fn local(&self) -> Vec<Address> {
        self.table().local.clone()
    }

    /// No peer is told of addresses in these ranges.
    pub(crate) fn hide(&self, of_pods: Vec<IpNet>) {
        self.table().of_pods = of_pods;
    }

    /// Where we listen, as far as peers are told. Other clusters number their pods as this one does, so
    /// that these lead elsewhere; a machine that has no other address is reached by them or not at all.
    pub(crate) fn told(&self) -> Vec<Address> {
        let table = self.table();
        let is_in = |one: &Address, range: &IpNet| address::is_in(one, *range);
        let local = table.local.iter();
        let local: Vec<&Address> =
            local.filter(|one| !self.hidden.is_some_and(|range| is_in(one, &range))).collect();
        let is_of_pods = |one: &Address| table.of_pods.iter().any(|range| is_in(one, range));
        let others = local.iter().filter(|one| !is_of_pods(one));
        let has_others = others.clone().any(|one| one.is_for_others());
        match has_others {
            true => others.map(|one| (*one).clone()).collect(),
            false => local.into_iter().cloned().collect(),
        }
    }

    pub(crate) fn snapshot(&self) -> Vec<PeerInfo> {
        let info = |(key, peer): (&PublicKey, &Peer)| PeerInfo {
            peer: *key,
            address: peer.address.clone(),
            dialled: peer.dialled,
            rtt: peer.rtt,
            connected_for: peer.since.elapsed(),
        };
        self.table().connected.iter().map(info).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(peers: &Peers) -> Vec<String> {
        peers.told().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_of_pods_and_of_tunnels_are_told_to_nobody() {
        let peers = Peers::new(8, Some("10.200.0.0/13".parse().unwrap()));
        let all = ["127.0.0.1", "10.42.0.0", "10.42.0.1", "10.201.0.1", "192.0.2.7"];
        for ip in all {
            peers.listening(format!("/ip4/{ip}/tcp/7474").parse().unwrap(), true);
        }
        assert_eq!(told(&peers).len(), 4);
        peers.hide(vec!["10.42.0.0/24".parse().unwrap()]);
        assert_eq!(told(&peers), ["/ip4/127.0.0.1/tcp/7474", "/ip4/192.0.2.7/tcp/7474"]);
        // A daemon in a pod of the pod network has no other.
        peers.listening("/ip4/192.0.2.7/tcp/7474".parse().unwrap(), false);
        assert!(told(&peers).contains(&"/ip4/10.42.0.1/tcp/7474".to_owned()));
    }
}
