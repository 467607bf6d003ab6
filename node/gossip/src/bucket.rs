//! A leaky bucket: so much at once, then at an even rate.

/// It leaks at an even rate, and holds so much.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    /// When it will be empty, monotonic.
    empty_ms: u64,
}

impl Bucket {
    /// Adds `amount`, each of which takes `pace_ms` to leak out; false, and nothing is added,
    /// if that is more than it holds.
    pub(crate) fn fill(&mut self, now_ms: u64, pace_ms: u64, amount: u64, most: u64) -> bool {
        let empty_ms = self.empty_ms.max(now_ms) + pace_ms * amount;
        let fits = empty_ms <= now_ms + pace_ms * most;
        if fits {
            self.empty_ms = empty_ms;
        }
        fits
    }
}
