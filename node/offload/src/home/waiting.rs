//! New pods wait a moment for what they refer to: sent at once, they would begin before their config maps and
//! secrets are there, and say so by an event.

use std::collections::BTreeMap;

use mercato_protocol::time::Now;

use crate::key::Uid;
use crate::limits;

/// The pods that wait, or have waited in vain. As many as there are pods.
#[derive(Debug, Default)]
pub(super) struct Waiting(BTreeMap<Uid, Wait>);

#[derive(Debug)]
struct Wait {
    /// In ms of the monotonic clock.
    until_ms: u64,
    /// That it is over was seen.
    is_over: bool,
}

impl Waiting {
    /// Whether a pod that is new there is to wait by now, if it is not known yet what home has of what it
    /// refers to.
    pub(super) fn is_to_wait(&mut self, now: Now, uid: &Uid, lacks: bool) -> bool {
        if !lacks {
            self.end(uid);
            return false;
        }
        let until_ms = now.mono_ms + limits::NEEDS_MS;
        let wait = self.0.entry(uid.clone()).or_insert(Wait { until_ms, is_over: false });
        now.mono_ms < wait.until_ms
    }

    /// It waits no more, and has not waited.
    pub(super) fn end(&mut self, uid: &Uid) {
        self.0.remove(uid);
    }

    /// When the next has waited for long enough, in ms of the monotonic clock.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.0.values().filter(|wait| !wait.is_over).map(|wait| wait.until_ms).min()
    }

    /// Those that have waited for long enough by now.
    pub(super) fn due(&mut self, now: Now) -> Vec<Uid> {
        let due = self.0.iter_mut().filter(|(_, it)| !it.is_over && it.until_ms <= now.mono_ms);
        due.map(|(uid, wait)| {
            wait.is_over = true;
            uid.clone()
        })
        .collect()
    }
}
