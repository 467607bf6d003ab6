//! How much memory this process uses, and whom that keeps out: strangers well before those who are
//! known, who may not suffer for what strangers use. libp2p's own limit refuses all alike.

use std::time::Instant;

use mercato_protocol::bounded::Rank;
use thiserror::Error;

use crate::limits::{self, Limits};

/// So much is in use that one of its rank is not let in.
#[derive(Debug, Error)]
#[error("too much memory is in use")]
pub(crate) struct Used;

/// The memory of this process, and how much of it keeps whom out.
pub(crate) struct Memory {
    of_strangers: usize,
    of_members: usize,
    look: fn() -> usize,
    /// What was seen last, and when.
    seen: Option<(Instant, usize)>,
}

impl Memory {
    pub(crate) fn new(limits: &Limits) -> Self {
        // Where nobody knows, it keeps nobody out.
        let look = || memory_stats::memory_stats().map_or(0, |memory| memory.physical_mem);
        let (of_strangers, of_members) =
            (limits.strangers_memory_bytes, limits.members_memory_bytes);
        Self { of_strangers, of_members, look, seen: None }
    }

    /// Whether one of this rank is let in, as far as memory goes. A partner always is: strangers
    /// may have used it.
    pub(crate) fn admit(&mut self, newcomer: Rank) -> Result<(), Used> {
        let most = match newcomer {
            Rank::Over | Rank::Stranger => self.of_strangers,
            Rank::Member => self.of_members,
            Rank::Partner | Rank::Kept => return Ok(()),
        };
        let now = Instant::now();
        let fresh = self.seen.filter(|(when, _)| now < *when + limits::MEMORY_LOOK);
        let (_, bytes) = *self.seen.insert(fresh.unwrap_or_else(|| (now, (self.look)())));
        if bytes > most { Err(Used) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_stay_out_before_members_and_partners_never() {
        let mut memory = Memory::new(&Limits::default());
        let mut kept_out = |look| {
            (memory.look, memory.seen) = (look, None);
            [Rank::Stranger, Rank::Member, Rank::Partner].map(|rank| memory.admit(rank).is_err())
        };
        assert_eq!(kept_out(|| 1 << 30), [false, false, false]);
        assert_eq!(kept_out(|| (1 << 30) + 1), [true, false, false]);
        assert_eq!(kept_out(|| (2 << 30) + 1), [true, true, false]);
        assert_eq!(kept_out(|| 64 << 30), [true, true, false]);
    }

    #[test]
    fn it_is_looked_at() {
        assert!((Memory::new(&Limits::default()).look)() > 1 << 20);
    }
}
