//! When to try again: one growing wait per key, and who is due.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits;

/// Keys that wait for their time, in ms of the monotonic clock.
#[derive(Debug)]
pub(crate) struct Retries<K> {
    waits: BTreeMap<K, u64>,
    times: BTreeMap<K, u64>,
    queue: BTreeSet<(u64, K)>,
}

impl<K> Default for Retries<K> {
    fn default() -> Self {
        Self { waits: BTreeMap::new(), times: BTreeMap::new(), queue: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> Retries<K> {
    /// Wait, twice as long as the last time.
    pub(crate) fn back_off(&mut self, now_ms: u64, key: &K) {
        let wait = self.waits.get(key).map_or(limits::RETRY_MS, |wait| wait * 2);
        let wait = wait.min(limits::RETRY_MAX_MS);
        self.waits.insert(key.clone(), wait);
        self.set(now_ms + wait, key);
    }

    /// Wait until `at_ms`.
    pub(crate) fn set(&mut self, at_ms: u64, key: &K) {
        if let Some(old) = self.times.insert(key.clone(), at_ms) {
            self.queue.remove(&(old, key.clone()));
        }
        self.queue.insert((at_ms, key.clone()));
    }

    /// Wait until `at_ms`, if not less.
    pub(crate) fn no_later(&mut self, at_ms: u64, key: &K) {
        if self.times.get(key).is_some_and(|at| *at > at_ms) {
            self.set(at_ms, key);
        }
    }

    /// Whether its time is yet to come.
    pub(crate) fn waits(&self, key: &K) -> bool {
        self.times.contains_key(key)
    }

    /// Do not wait, and start with the shortest wait the next time.
    pub(crate) fn clear(&mut self, key: &K) {
        self.waits.remove(key);
        if let Some(at) = self.times.remove(key) {
            self.queue.remove(&(at, key.clone()));
        }
    }

    /// Those whose time has come; they wait no longer.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<K> {
        let mut due = Vec::new();
        while let Some((at, key)) = self.queue.first().cloned()
            && at <= now_ms
        {
            self.queue.pop_first();
            self.times.remove(&key);
            due.push(key);
        }
        due
    }

    /// The first time that somebody waits for.
    pub(crate) fn next(&self) -> Option<u64> {
        self.queue.first().map(|(at, _)| *at)
    }
}
