//! Since when the other side of a lease is not reached.

use mercato_protocol::time::Now;

/// By the wall clock, in ms; none: it is reached.
#[derive(Debug, Default)]
pub(super) struct Away(Option<u64>);

impl Away {
    /// It is reached, or it is not and has been silent for so long, in ms. Says since when.
    pub(super) fn note(&mut self, now: Now, reached: bool, silent_ms: u64) -> Option<u64> {
        let since_ms = now.wall_ms.saturating_sub(silent_ms);
        self.0 = (!reached).then(|| self.0.unwrap_or(since_ms));
        self.0
    }
}
