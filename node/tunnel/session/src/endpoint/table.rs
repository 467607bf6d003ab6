//! The peers of a gateway, found by number, by key, and by our indexes of their sessions.

use std::collections::BTreeMap;

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
        self.peers.insert(index, peer);
        Some(index)
    }

    /// Removes a peer, and gives the indexes of its sessions.
    pub(super) fn remove(&mut self, index: PeerIndex) -> Vec<u32> {
        let Some(peer) = self.peers.remove(&index) else { return Vec::new() };
        self.by_key.remove(&peer.key());
        self.by_session.retain(|_, of| *of != index);
        peer.session_indexes().collect()
    }

    pub(super) fn get(&mut self, index: PeerIndex) -> Option<&mut Peer> {
        self.peers.get_mut(&index)
    }

    pub(super) fn by_key(&mut self, key: &PublicKey) -> Option<(PeerIndex, &mut Peer)> {
        let index = *self.by_key.get(key)?;
        Some((index, self.peers.get_mut(&index)?))
    }

    pub(super) fn by_session(&mut self, own_index: u32) -> Option<(PeerIndex, &mut Peer)> {
        let index = *self.by_session.get(&own_index)?;
        Some((index, self.peers.get_mut(&index)?))
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

    /// Makes a peer be found by all indexes that it has now.
    pub(super) fn remember_indexes(&mut self, index: PeerIndex) {
        self.forget_ended_indexes(index);
        let Some(peer) = self.peers.get(&index) else { return };
        self.by_session.extend(peer.all_indexes().map(|own_index| (own_index, index)));
    }

    /// Makes it be found no more by those that it has lost.
    pub(super) fn forget_ended_indexes(&mut self, index: PeerIndex) {
        let Some(peer) = self.peers.get(&index) else { return };
        let has = |own_index| peer.all_indexes().any(|of_peer| of_peer == own_index);
        self.by_session.retain(|own_index, of| *of != index || has(*own_index));
    }

    pub(super) fn due(&self, mono_ms: u64) -> Vec<PeerIndex> {
        let due = |(index, peer): (&PeerIndex, &Peer)| {
            peer.wakeup_ms().filter(|at_ms| *at_ms <= mono_ms).map(|_| *index)
        };
        self.peers.iter().filter_map(due).collect()
    }

    pub(super) fn wakeup_ms(&self) -> Option<u64> {
        self.peers.values().filter_map(Peer::wakeup_ms).min()
    }
}
