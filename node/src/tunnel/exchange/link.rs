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
    /// The peer has introduced itself since: a refusal is older than that.
    pub(super) is_overtaken: bool,
}

impl Link {
    /// What was put off is asked now.
    pub(super) fn go_on(&mut self) {
        (self.wait_ms, self.failures) = (None, 0);
        if let Some(pending) = &mut self.pending {
            pending.is_overtaken = true;
        }
    }

    /// The peer has refused what was asked.
    pub(super) fn on_refused(&mut self, now: Now, text: String, pending: &Pending) {
        self.refused = Some(text);
        if !pending.is_overtaken {
            self.put_off(now);
        }
    }

    /// Nothing came of what was asked: it is asked again later, and later each time.
    pub(super) fn put_off(&mut self, now: Now) {
        let longer = limits::TUNNEL_RETRY_MS.saturating_mul(1 << self.failures.min(6));
        let wait_ms = longer.min(limits::TUNNEL_RETRY_MOST_MS);
        self.wait_ms = Some(now.mono_ms.saturating_add(wait_ms));
        self.failures = self.failures.saturating_add(1);
    }
}
