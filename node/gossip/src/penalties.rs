//! What counts against neighbours, and who is banned for it.

use mercato_protocol::bounded::{Bounded, Rank};
use mercato_protocol::id::PublicKey;
use mercato_protocol::time::Now;

use crate::bucket::Bucket;
use crate::effect::Effect;
use crate::index::NeighbourIndex;
use crate::limits;
use crate::step::Step;
use crate::table::Column;

/// The points of each neighbour, and when bans end.
#[derive(Debug)]
pub(crate) struct Penalties {
    points: Column<NeighbourIndex, Bucket>,
    /// When the ban of each key ends, monotonic.
    banned: Bounded<PublicKey, u64>,
}

impl Default for Penalties {
    fn default() -> Self {
        Self { points: Column::default(), banned: Bounded::new(limits::BANNED) }
    }
}

impl Penalties {
    pub(crate) fn is_banned(&self, now: Now, peer: &PublicKey) -> bool {
        self.banned.get(peer).is_some_and(|until_ms| *until_ms > now.mono_ms)
    }

    /// Nothing counts against a new neighbour.
    pub(crate) fn join(&mut self, peer: NeighbourIndex) {
        self.points.set(peer, Bucket::default());
    }

    pub(crate) fn leave(&mut self, peer: NeighbourIndex) {
        self.points.take(peer);
    }

    /// Counts points against a neighbour, and bans it once those are too many; says whether
    /// they are.
    pub(crate) fn penalize(
        &mut self,
        step: &mut Step<'_>,
        peer: NeighbourIndex,
        points: u64,
    ) -> bool {
        let now_ms = step.now.mono_ms;
        let Some(bucket) = self.points.get_mut(peer) else { return false };
        if points == 0 || within_budget(bucket, now_ms, points) {
            return false;
        }
        let Some(key) = step.neighbours.key(peer) else { return false };
        let rank = |_: &PublicKey, until_ms: &u64| match *until_ms > now_ms {
            true => Rank::Stranger,
            false => Rank::Over,
        };
        // All are banned for as long: the oldest, which leaves, would be the first to end.
        let _ = self.banned.put(key, now_ms + limits::BAN_MS, rank);
        step.effects.push(Effect::Banned(key));
        true
    }
}

fn within_budget(bucket: &mut Bucket, now_ms: u64, points: u64) -> bool {
    bucket.fill(now_ms, limits::FORGIVE_MS, points, limits::BAN_POINTS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_against_a_neighbour_is_forgiven_slowly() {
        let mut bucket = Bucket::default();
        assert!(within_budget(&mut bucket, 0, 99));
        assert!(!within_budget(&mut bucket, 9_999, 1));
        assert!(within_budget(&mut bucket, 10_000, 1));
        assert!(!within_budget(&mut bucket, 10_001, 1));
    }
}
