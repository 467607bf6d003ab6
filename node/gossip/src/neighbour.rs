//! What is kept of one neighbour: what it is known to hold, what it is yet to be told,
//! how long its answers take, and how much it may bring of publishers that nobody knows.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::gossip::Mark;
use mercato_protocol::id::PublicKey;

use crate::limits;

#[derive(Debug, Default)]
pub(crate) struct Neighbour {
    /// The latest (epoch, seq) that it said it holds, of publishers that we hold or want.
    pub(crate) knows: BTreeMap<PublicKey, (u64, u64)>,
    /// Publishers whose news it is yet to be told.
    pub(crate) untold: BTreeSet<PublicKey>,
    /// When it may be told next.
    pub(crate) tell_ms: u64,
    /// The reconciliation that we opened.
    pub(crate) opened: Option<u64>,
    /// The reconciliation of its that we answered.
    pub(crate) answered: Option<u64>,
    /// When we answer the next.
    pub(crate) answer_ms: u64,
    lane: Lane,
    /// Smoothed time to an answer.
    answer_time_ms: Option<u64>,
}

impl Neighbour {
    /// One that is yet to be told of these publishers.
    pub(crate) fn new(untold: BTreeSet<PublicKey>) -> Self {
        Self { untold, ..Self::default() }
    }

    /// It said that it holds this.
    pub(crate) fn holds(&mut self, mark: &Mark) {
        let known = self.knows.entry(mark.publisher).or_default();
        *known = (*known).max((mark.epoch, mark.seq));
    }

    /// Whether telling it of `mark` would be no news.
    pub(crate) fn is_told(&self, mark: &Mark) -> bool {
        self.knows.get(&mark.publisher).is_some_and(|known| *known >= (mark.epoch, mark.seq))
    }

    /// Whether it may bring one more unknown publisher.
    pub(crate) fn admit(&mut self, now_ms: u64) -> bool {
        self.lane.admit(now_ms)
    }

    /// How long to wait for an answer.
    pub(crate) fn patience_ms(&self) -> u64 {
        let measured = self.answer_time_ms.map(|time_ms| 3 * time_ms + limits::ANNOUNCE_MS);
        let (least, most) = limits::PATIENCE_MS.into_inner();
        measured.unwrap_or(limits::FIRST_PATIENCE_MS).clamp(least, most)
    }

    /// An answer came after `time_ms`.
    pub(crate) fn measure(&mut self, time_ms: u64) {
        let smoothed = self.answer_time_ms.map_or(time_ms, |old_ms| (7 * old_ms + time_ms) / 8);
        self.answer_time_ms = Some(smoothed);
    }

    /// No answer came: the next is waited for longer.
    pub(crate) fn slow(&mut self) {
        self.measure(2 * self.patience_ms());
    }
}

/// One in [`limits::LANE_MS`], [`limits::LANE_BURST`] at once.
#[derive(Debug, Default)]
struct Lane {
    /// When all that was admitted would have been, one by one.
    even_ms: u64,
}

impl Lane {
    fn admit(&mut self, now_ms: u64) -> bool {
        let next_ms = self.even_ms.max(now_ms) + limits::LANE_MS;
        let admits = next_ms <= now_ms + limits::LANE_MS * limits::LANE_BURST;
        if admits {
            self.even_ms = next_ms;
        }
        admits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_admits_a_burst_and_then_one_by_one() {
        let mut lane = Lane::default();
        let admitted = |lane: &mut Lane, now_ms| (0..100).filter(|_| lane.admit(now_ms)).count();
        assert_eq!(admitted(&mut lane, 0), 20);
        assert_eq!(admitted(&mut lane, 999), 0);
        assert_eq!(admitted(&mut lane, 1_000), 1);
        assert_eq!(admitted(&mut lane, 6_000), 5);
        assert_eq!(admitted(&mut lane, 60_000), 20);
    }

    #[test]
    fn patience_follows_the_answers() {
        let mut neighbour = Neighbour::default();
        assert_eq!(neighbour.patience_ms(), 1_000);
        neighbour.measure(1);
        assert_eq!(neighbour.patience_ms(), 300);
        neighbour.slow();
        assert!(neighbour.patience_ms() > 300);
        (0..100).for_each(|_| neighbour.slow());
        assert_eq!(neighbour.patience_ms(), 5_000);
    }
}
