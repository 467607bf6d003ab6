//! Who is connected: the key of each neighbour, at a small number.

use mercato_protocol::id::PublicKey;

use crate::index::NeighbourIndex;
use crate::table::Table;

/// The neighbours of one cluster, and its own key.
#[derive(Debug)]
pub(crate) struct Neighbours {
    /// The key that this cluster publishes with.
    pub(crate) me: PublicKey,
    pub(crate) keys: Table<NeighbourIndex, PublicKey>,
}

impl Neighbours {
    /// Nobody is connected yet. The seed hides where keys fall.
    pub(crate) fn new(me: PublicKey, seed: u64) -> Self {
        Self { me, keys: Table::new(seed) }
    }

    pub(crate) fn key(&self, peer: NeighbourIndex) -> Option<PublicKey> {
        self.keys.get(peer).copied()
    }

    /// Whether a publisher is a neighbour, or this cluster itself.
    pub(crate) fn include(&self, publisher: &PublicKey) -> bool {
        *publisher == self.me || self.keys.find(publisher).is_some()
    }
}
