//! The timers of one peer that has a session.

/// When each of them is due, on the monotonic clock; none if it does not run.
#[derive(Default)]
pub(super) struct Timers {
    /// Something came, and nothing was sent since: then an empty packet is.
    pub(super) keepalive_ms: Option<u64>,
    /// Something was sent, and nothing came since: then the session counts as lost.
    pub(super) silence_ms: Option<u64>,
    /// No new session came: then all keys are erased.
    pub(super) erase_ms: Option<u64>,
}

impl Timers {
    /// When the next one is due.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let Self { keepalive_ms, silence_ms, erase_ms } = *self;
        [keepalive_ms, silence_ms, erase_ms].into_iter().flatten().min()
    }
}
