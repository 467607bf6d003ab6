//! The peers of a gateway, found by number, by key, by our indexes of their sessions, and by when
//! something becomes due.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rand::Rng;

use super::peer::Peer;
use crate::keys::PublicKey;
use crate::limits;
use crate::peer_index::PeerIndex;

/// The peers of a gateway.
#[derive(Default)]
pub(super) struct PeerTable {
    peers: BTreeMap<PeerIndex, Peer>,
    by_key: BTreeMap<PublicKey, PeerIndex>,
    by_session: BTreeMap<u32, PeerIndex>,
    /// When something becomes due, of each peer of which something does.
    due: BTreeSet<(u64, PeerIndex)>,
    /// Where each peer is, or may be.
    places: BTreeSet<(IpAddr, PeerIndex)>,
    next: u32,
}

impl PeerTable {
    /// None if there is no room.
    pub(super) fn add(&mut self, peer: Peer) -> Option<PeerIndex> {
        if self.peers.len() >= limits::PEERS {
            return None;
        }
        let index = PeerIndex::new(self.next);
        self.next += 1;
        self.by_key.insert(peer.key(), index);
        self.due.extend(peer.wakeup_ms().map(|at_ms| (at_ms, index)));
        self.places.extend(peer.places().map(|at| (at, index)));
        self.peers.insert(index, peer);
        Some(index)
    }

    /// Removes a peer, and gives the indexes of its sessions.
    pub(super) fn remove(&mut self, index: PeerIndex) -> Vec<u32> {
        let Some(peer) = self.peers.remove(&index) else { return Vec::new() };
        self.by_key.remove(&peer.key());
        for own_index in peer.all_indexes() {
            self.by_session.remove(&own_index);
        }
        peer.wakeup_ms().map(|at_ms| self.due.remove(&(at_ms, index)));
        for at in peer.places() {
            self.places.remove(&(at, index));
        }
        peer.session_indexes().collect()
    }

    /// Changes a peer. By what it is found, and when, follows. None if there is no such peer.
    pub(super) fn with<R>(
        &mut self,
        index: PeerIndex,
        change: impl FnOnce(&mut Peer) -> R,
    ) -> Option<R> {
        let peer = self.peers.get_mut(&index)?;
        let (due_ms, indexes) = (peer.wakeup_ms(), peer.all_indexes().collect::<Vec<_>>());
        let places: Vec<_> = peer.places().collect();
        let result = change(peer);
        if !peer.places().eq(places.iter().copied()) {
            for at in places {
                self.places.remove(&(at, index));
            }
            self.places.extend(peer.places().map(|at| (at, index)));
        }
        if peer.wakeup_ms() != due_ms {
            due_ms.map(|at_ms| self.due.remove(&(at_ms, index)));
            self.due.extend(peer.wakeup_ms().map(|at_ms| (at_ms, index)));
        }
        for ended in indexes.iter().filter(|before| peer.all_indexes().all(|of| of != **before)) {
            self.by_session.remove(ended);
        }
        self.by_session.extend(peer.all_indexes().map(|own_index| (own_index, index)));
        Some(result)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values()
    }

    /// Whether a peer is at this address, or may be.
    pub(super) fn knows(&self, address: IpAddr) -> bool {
        let at = self.places.range((address, PeerIndex::new(0))..).next();
        at.is_some_and(|(at, _)| *at == address)
    }

    pub(super) fn by_key(&self, key: &PublicKey) -> Option<PeerIndex> {
        self.by_key.get(key).copied()
    }

    pub(super) fn by_session(&self, own_index: u32) -> Option<PeerIndex> {
        self.by_session.get(&own_index).copied()
    }

    /// A random index of ours that no session has, with its low four bits zero.
    pub(super) fn free_index<R: Rng>(&self, rng: &mut R) -> u32 {
        let shards = limits::SHARDS as u32;
        loop {
            let index = rng.next_u32() & !(shards - 1);
            if !self.by_session.contains_key(&index) {
                return index;
            }
        }
    }

    /// Peers of which something is due.
    pub(super) fn due(&self, mono_ms: u64) -> Vec<PeerIndex> {
        let due = self.due.iter().take_while(|(at_ms, _)| *at_ms <= mono_ms);
        due.map(|(_, index)| *index).collect()
    }

    pub(super) fn wakeup_ms(&self) -> Option<u64> {
        self.due.first().map(|(at_ms, _)| *at_ms)
    }
}
