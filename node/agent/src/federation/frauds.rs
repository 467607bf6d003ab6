//! Keys that equivocated, and until when each is kept out. What barring a cluster means is the
//! broker's.

use mercato_protocol::bounded::{Bounded, Full, Rank};
use mercato_protocol::equivocation::Proven;
use mercato_protocol::id::PublicKey;
use mercato_protocol::time::Now;

use crate::limits;

/// See the module. What gives way is given back, to be erased from disk.
#[derive(Debug)]
pub(crate) struct Frauds(Bounded<PublicKey, Fraud>);

#[derive(Debug)]
struct Fraud {
    /// Until when it counts: milliseconds since 1970, wall clock.
    until_ms: u64,
    /// What the key was worth as it was found out.
    rank: Rank,
}

impl Default for Frauds {
    fn default() -> Self {
        Self(Bounded::new(limits::FRAUDS))
    }
}

impl Frauds {
    /// Keeps out a key that is worth so much; gives back those that had to make room. An error
    /// says that those who are kept out are worth more.
    pub(crate) fn quarantine(
        &mut self,
        now: Now,
        proof: &Proven,
        rank: Rank,
    ) -> Result<Vec<PublicKey>, Full> {
        let fraud = Fraud { until_ms: proof.validity_ms().1, rank };
        let rank = |_: &PublicKey, of: &Fraud| match of.until_ms < now.wall_ms {
            true => Rank::Over,
            false => of.rank,
        };
        let left = self.0.put(*proof.publisher(), fraud, rank)?;
        Ok(left.into_iter().map(|(key, _)| key).collect())
    }

    /// Whether this key is proven to have equivocated.
    pub(crate) fn contains(&self, key: &PublicKey) -> bool {
        self.0.contains_key(key)
    }

    /// Lets go of those whose time is over; gives them back.
    pub(crate) fn review(&mut self, now: Now) -> Vec<PublicKey> {
        self.0.retain(|_, of| of.until_ms >= now.wall_ms)
    }

    /// When the next review is due, wall clock.
    pub(crate) fn review_ms(&self) -> Option<u64> {
        self.0.values().map(|of| of.until_ms).min()
    }
}
