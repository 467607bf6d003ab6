//! How often something is said, as neighbours take it: a few times in a row after a quiet time, and
//! at an even pace all in all.

/// How much was said lately, and how much may be.
#[derive(Debug)]
pub(super) struct Pace {
    every_ms: u64,
    in_a_row: u64,
    /// From then on what was said counts no more, monotonic.
    rested_ms: u64,
}

impl Pace {
    /// Of which nothing was said yet.
    pub(super) const fn new(every_ms: u64, in_a_row: u64) -> Self {
        Self { every_ms, in_a_row, rested_ms: 0 }
    }

    /// Something is said now, monotonic.
    pub(super) fn count(&mut self, now_ms: u64) {
        self.rested_ms = self.rested_ms.max(now_ms) + self.every_ms;
    }

    /// When what can wait is said, monotonic.
    pub(super) fn rested_ms(&self) -> u64 {
        self.rested_ms
    }

    /// When what cannot wait is said, monotonic.
    pub(super) fn room_ms(&self) -> u64 {
        self.rested_ms.saturating_sub((self.in_a_row - 1) * self.every_ms)
    }
}
