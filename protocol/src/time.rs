//! Points in time, as arguments. Reading a clock is left to the daemon's driver
//! and to the simulator.

use serde::{Deserialize, Serialize};

/// The present, on both clocks, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Now {
    /// Since an arbitrary start, never backwards: for timeouts.
    pub mono_ms: u64,
    /// Since 1970-01-01 UTC: for whatever is stored or signed.
    pub wall_ms: u64,
}

/// When a state machine wants to be woken, and by which clock, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Deadline {
    /// Milliseconds on the monotonic clock, for time-outs.
    Mono(u64),
    /// Milliseconds of Unix time, for what is signed or stored.
    Wall(u64),
}

impl Deadline {
    /// Whether the moment has come.
    pub fn is_due(self, now: Now) -> bool {
        self.remaining_ms(now) == 0
    }

    /// Milliseconds left, zero once due. Compares deadlines of both clocks.
    pub fn remaining_ms(self, now: Now) -> u64 {
        match self {
            Self::Mono(at) => at.saturating_sub(now.mono_ms),
            Self::Wall(at) => at.saturating_sub(now.wall_ms),
        }
    }

    /// The earlier of the deadlines that are there.
    pub fn earliest(now: Now, deadlines: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        deadlines.into_iter().flatten().min_by_key(|deadline| deadline.remaining_ms(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_compared_across_clocks() {
        let now = Now { mono_ms: 100, wall_ms: 1_000_000 };
        let deadlines = [Some(Deadline::Mono(150)), None, Some(Deadline::Wall(1_000_020))];
        assert_eq!(Deadline::earliest(now, deadlines), Some(Deadline::Wall(1_000_020)));
        assert!(Deadline::Mono(100).is_due(now));
        assert!(!Deadline::Wall(1_000_001).is_due(now));
        assert_eq!(Deadline::earliest(now, []), None);
    }
}
