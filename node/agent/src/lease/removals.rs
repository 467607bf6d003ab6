//! How many guest namespaces of a lease may be given up at a time.

use mercato_protocol::time::Now;

use crate::limits;

/// How many guest namespaces of a lease may be given up, for another home namespace or for good:
/// who makes them come and go does so at the provider's cost.
#[derive(Debug)]
pub(super) struct MayGo {
    left: usize,
    /// When there were so many, monotonic.
    at_ms: u64,
}

impl Default for MayGo {
    fn default() -> Self {
        Self { left: limits::NAMESPACES, at_ms: 0 }
    }
}

impl MayGo {
    /// Counts one, if it may go now.
    pub(super) fn take(&mut self, now: Now) -> bool {
        let more = now.mono_ms.saturating_sub(self.at_ms) / limits::GIVE_UP_MS;
        let sum = self.left.saturating_add(usize::try_from(more).unwrap_or(usize::MAX));
        self.left = sum.min(limits::NAMESPACES);
        self.at_ms += more * limits::GIVE_UP_MS;
        let may = self.left > 0;
        self.left -= usize::from(may);
        may
    }
}
