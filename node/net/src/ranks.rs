//! What peers are worth to the cluster, as far as connections are concerned, and who is refused
//! for a while. Who that is the agent says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mercato_protocol::bounded::{Bounded, Rank};
use mercato_protocol::id::PublicKey;

use crate::limits;

/// Shared by the handle, which is told, and the swarm, which asks.
#[derive(Clone, Debug)]
pub(crate) struct Ranks(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    known: Arc<BTreeMap<PublicKey, Rank>>,
    /// Known since that was told.
    also: BTreeMap<PublicKey, Rank>,
    /// Until when.
    refused: Bounded<PublicKey, Instant>,
}

impl Default for Ranks {
    fn default() -> Self {
        let refused = Bounded::new(limits::REFUSED);
        let (known, also) = (Arc::default(), BTreeMap::new());
        Self(Arc::new(Mutex::new(Table { known, also, refused })))
    }
}

impl Ranks {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are known, and no others.
    pub(crate) fn set(&self, known: Arc<BTreeMap<PublicKey, Rank>>) {
        let mut table = self.table();
        (table.known, table.also) = (known, BTreeMap::new());
    }

    /// This one is known, too.
    pub(crate) fn add(&self, peer: PublicKey, rank: Rank) {
        self.table().also.insert(peer, rank);
    }

    pub(crate) fn of(&self, peer: &PublicKey) -> Rank {
        let table = self.table();
        let rank = table.also.get(peer).or_else(|| table.known.get(peer));
        rank.copied().unwrap_or(Rank::Stranger)
    }

    /// The peer may not connect for so long.
    pub(crate) fn refuse(&self, peer: PublicKey, time: Duration) {
        let now = Instant::now();
        let rank = |_: &PublicKey, until: &Instant| match *until > now {
            true => Rank::Stranger,
            false => Rank::Over,
        };
        // The oldest leaves: there is always room.
        let _ = self.table().refused.put(peer, now + time, rank);
    }

    pub(crate) fn is_refused(&self, peer: &PublicKey) -> bool {
        let table = self.table();
        table.refused.get(peer).is_some_and(|until| *until > Instant::now())
    }
}
