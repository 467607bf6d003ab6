//! Who is connected, whom the owner blocks, and who is needed: those have room in every table, and
//! others give way.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::PublicKey;

use crate::limits;

/// A connection that is up.
#[derive(Debug)]
struct Link {
    /// Whether this cluster has dialled the other.
    dialled: bool,
    /// When it came up, monotonic.
    since_ms: u64,
}

/// The peers that something holds on to.
#[derive(Debug, Default)]
pub(crate) struct Links {
    connected: BTreeMap<PublicKey, Link>,
    blocked: BTreeSet<PublicKey>,
    kept: BTreeSet<PublicKey>,
    /// Those that nobody needs any more, and until when they are dialled again if they break off;
    /// then we part with them if we dialled.
    released: BTreeMap<PublicKey, u64>,
}

impl Links {
    pub(crate) fn connect(&mut self, now_ms: u64, peer: PublicKey, dialled: bool) {
        let link = self.connected.entry(peer).or_insert(Link { dialled, since_ms: now_ms });
        link.dialled = dialled;
        if let Some(until_ms) = self.released.get_mut(&peer) {
            *until_ms = now_ms + limits::LINGER_MS;
        }
    }

    /// Says how long the connection lasted, in ms.
    pub(crate) fn disconnect(&mut self, now_ms: u64, peer: PublicKey) -> u64 {
        let link = self.connected.remove(&peer);
        if let Some(until_ms) = self.released.get_mut(&peer) {
            *until_ms = now_ms + limits::OWED_MS;
        }
        link.map_or(0, |link| now_ms - link.since_ms)
    }

    pub(crate) fn block(&mut self, peer: PublicKey) {
        self.blocked.insert(peer);
    }

    pub(crate) fn unblock(&mut self, peer: PublicKey) {
        self.blocked.remove(&peer);
    }

    /// Something needs it. Whether that is new.
    pub(crate) fn keep(&mut self, peer: PublicKey) -> bool {
        self.released.remove(&peer);
        self.kept.insert(peer)
    }

    /// Nothing needs it any more; or soon something else will. Whether that is new.
    pub(crate) fn release(&mut self, now_ms: u64, peer: PublicKey) -> bool {
        let was_kept = self.kept.remove(&peer);
        if was_kept {
            let for_ms = if self.is_connected(&peer) { limits::LINGER_MS } else { limits::OWED_MS };
            self.released.insert(peer, now_ms + for_ms);
        }
        was_kept
    }

    /// The key speaks for nobody any more, so that nothing can need it.
    pub(crate) fn give_up(&mut self, peer: &PublicKey) {
        self.kept.remove(peer);
    }

    /// Those that were released long enough ago; of them those that we dialled.
    pub(crate) fn part_due(&mut self, now_ms: u64) -> Vec<PublicKey> {
        let due = self.released.extract_if(.., |_, part_ms| *part_ms <= now_ms);
        let dialled = |peer: &PublicKey| self.connected.get(peer).is_some_and(|link| link.dialled);
        due.map(|(peer, _)| peer).filter(dialled).collect()
    }

    /// When the next of those that were released is due.
    pub(crate) fn next_parting_ms(&self) -> Option<u64> {
        self.released.values().copied().min()
    }

    pub(crate) fn is_connected(&self, peer: &PublicKey) -> bool {
        self.connected.contains_key(peer)
    }

    pub(crate) fn is_blocked(&self, peer: &PublicKey) -> bool {
        self.blocked.contains(peer)
    }

    /// Whether a lease or a negotiation needs it.
    pub(crate) fn is_kept(&self, peer: &PublicKey) -> bool {
        self.kept.contains(peer)
    }

    pub(crate) fn is_released(&self, peer: &PublicKey) -> bool {
        self.released.contains_key(peer)
    }

    /// Whether it is connected or kept.
    pub(crate) fn is_needed(&self, peer: &PublicKey) -> bool {
        self.is_connected(peer) || self.is_kept(peer)
    }

    /// The same, or we may owe it a last word: others give way.
    pub(crate) fn has_room(&self, peer: Option<PublicKey>) -> bool {
        peer.is_some_and(|peer| self.is_needed(&peer) || self.is_released(&peer))
    }

    /// How many have room in any case.
    pub(crate) fn reserved(&self) -> usize {
        self.connected.len() + self.kept.len() + self.released.len()
    }

    /// The number of peers that are connected.
    pub(crate) fn len(&self) -> usize {
        self.connected.len()
    }

    /// Those whose connection we dialled.
    pub(crate) fn dialled(&self) -> impl Iterator<Item = &PublicKey> {
        self.connected.iter().filter(|(_, link)| link.dialled).map(|(peer, _)| peer)
    }

    /// How many neighbours are of our own choice: we dialled, and nothing needs them.
    pub(crate) fn chosen(&self) -> usize {
        self.dialled().filter(|peer| !self.is_kept(peer)).count()
    }

    /// How many of our own choice may go, where there are enough without them.
    pub(crate) fn spare(&self) -> usize {
        let spare = self.chosen().saturating_sub(limits::CHOSEN);
        spare.min(self.len().saturating_sub(limits::NEIGHBOURS))
    }

    /// The longest pause between dials to this one, in ms: shorter where leases need it.
    pub(crate) fn longest_pause_ms(&self, peer: Option<PublicKey>) -> u64 {
        match peer {
            Some(peer) if self.is_kept(&peer) => limits::BACKOFF_MAX_KEPT_MS,
            Some(_) | None => limits::BACKOFF_MAX_MS,
        }
    }
}
