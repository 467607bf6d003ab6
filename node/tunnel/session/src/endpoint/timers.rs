//! The timers of one peer that has a session.

use crate::activity::Activity;
use crate::limits;

/// Who sent and heard nothing for so long takes the session for lost.
const SILENCE_MS: u64 = limits::KEEPALIVE_MS + limits::REKEY_TIMEOUT_MS;

/// When each of them is due, on the monotonic clock; none if it does not run.
#[derive(Default)]
pub(super) struct Timers {
    /// Something came, and nothing was sent since: then an empty packet is.
    pub(super) keepalive_ms: Option<u64>,
    /// Something was sent, and nothing came since: then the session counts as lost.
    pub(super) silence_ms: Option<u64>,
    /// No new session came: then all keys are erased.
    pub(super) erase_ms: Option<u64>,
    /// Several clusters say that the peer is theirs: then it is tried whose it is.
    pub(super) dispute_ms: Option<u64>,
}

impl Timers {
    /// Takes what a shard saw.
    pub(super) fn note(&mut self, mono_ms: u64, activity: &Activity) {
        if activity.sent_any {
            self.keepalive_ms = None;
        } else if activity.received_data {
            self.keepalive_ms.get_or_insert(mono_ms + limits::KEEPALIVE_MS);
        }
        if activity.received_by.is_some() {
            self.silence_ms = None;
        } else if activity.sent_data {
            self.silence_ms.get_or_insert(mono_ms + SILENCE_MS);
        }
    }

    /// Whether it is to be tried now whose the peer is: once for each time.
    pub(super) fn take_dispute(&mut self, mono_ms: u64) -> bool {
        let is_due = self.dispute_ms.is_some_and(|at_ms| at_ms <= mono_ms);
        if is_due {
            self.dispute_ms = Some(mono_ms + limits::PING_MS);
        }
        is_due
    }

    /// When the next one is due.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let Self { keepalive_ms, silence_ms, erase_ms, dispute_ms } = *self;
        [keepalive_ms, silence_ms, erase_ms, dispute_ms].into_iter().flatten().min()
    }
}
