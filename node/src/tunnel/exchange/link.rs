//! A connection with a peer: what was asked over it, and when nothing is asked.

use mercato_protocol::id::Digest;
use mercato_protocol::time::Now;

use crate::limits;

/// A connection with the peer.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// Our list that the peer has heard over it.
    pub(super) told: Option<Digest>,
    pub(super) pending: Option<Pending>,
    /// Nothing is asked before, on the monotonic clock.
    pub(super) wait_ms: Option<u64>,
    /// How often in a row nothing came of what was asked.
    pub(super) failures: u32,
    pub(super) refused: Option<String>,
    /// The peer knows of no tunnels: nothing more is asked over it.
    pub(super) is_unsupported: bool,
}

/// What was asked and not answered: its number, and of an introduction the list.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) number: u64,
    pub(super) list: Option<Digest>,
}

impl Link {
    /// Nothing came of what was asked: it is asked again later, and later each time.
    pub(super) fn put_off(&mut self, now: Now) {
        let longer = limits::TUNNEL_RETRY_MS.saturating_mul(1 << self.failures.min(6));
        let wait_ms = longer.min(limits::TUNNEL_RETRY_MOST_MS);
        self.wait_ms = Some(now.mono_ms.saturating_add(wait_ms));
        self.failures = self.failures.saturating_add(1);
    }
}
