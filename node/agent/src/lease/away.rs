//! Since when the other side of a lease is not reached.

use mercato_protocol::time::Now;

use crate::limits;

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct Away {
    /// Since when it has been silent over a connection that has not ended, in ms of the monotonic clock.
    silent_ms: Option<u64>,
    /// Since when it is not reached, in ms of the wall clock; none: it is.
    since_ms: Option<u64>,
}

impl Away {
    /// It has been silent for so long, in ms, or is heard again.
    pub(super) fn hear(&mut self, now: Now, for_ms: Option<u64>) {
        self.silent_ms = for_ms.map(|for_ms| now.mono_ms.saturating_sub(for_ms));
    }

    /// Whether it has been silent for so long that it is not reached, though nothing has ended.
    pub(super) fn is_over(&self, now: Now) -> bool {
        self.silent_ms.is_some_and(|silent_ms| silent_ms + limits::AWAY_MS <= now.mono_ms)
    }

    /// When it is over, in ms of the monotonic clock, if nobody knows so far.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.silent_ms.filter(|_| self.since_ms.is_none()).map(|at_ms| at_ms + limits::AWAY_MS)
    }

    /// It is reached, or it is not and has been silent for so long, in ms. Says since when.
    pub(super) fn note(&mut self, now: Now, reached: bool, silent_ms: u64) -> Option<u64> {
        let own_ms = self.silent_ms.map_or(0, |since_ms| now.mono_ms.saturating_sub(since_ms));
        let since_ms = now.wall_ms.saturating_sub(silent_ms.max(own_ms));
        self.since_ms = (!reached).then(|| self.since_ms.unwrap_or(since_ms));
        self.since_ms
    }
}
