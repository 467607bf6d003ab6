//! What is asked of one neighbour, how long its answers take, and how much it may bring of
//! unknown publishers.

use std::collections::VecDeque;

use crate::bucket::Bucket;
use crate::index::PublisherIndex;
use crate::limits;

/// The requests to one neighbour.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Publishers of which it was the first to advertise something that is fetched.
    pub(crate) first: usize,
    /// Publishers that it was asked for and has not answered.
    pub(crate) asked: usize,
    /// Publishers that it is asked for as soon as it has answered some.
    pub(crate) waiting: VecDeque<PublisherIndex>,
    lane: Bucket,
    /// Smoothed time to an answer.
    answer_time_ms: Option<u64>,
}

impl Requests {
    /// Whether it may bring one more unknown publisher.
    pub(crate) fn admit(&mut self, now_ms: u64) -> bool {
        self.lane.fill(now_ms, limits::LANE_MS, 1, limits::LANE_BURST)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_admits_a_burst_and_then_one_by_one() {
        let mut requests = Requests::default();
        let mut admitted = |now_ms| (0..100).filter(|_| requests.admit(now_ms)).count();
        assert_eq!(admitted(0), 20);
        assert_eq!(admitted(999), 0);
        assert_eq!(admitted(1_000), 1);
        assert_eq!(admitted(6_000), 5);
        assert_eq!(admitted(60_000), 20);
    }

    #[test]
    fn patience_follows_the_answers() {
        let mut requests = Requests::default();
        assert_eq!(requests.patience_ms(), 1_000);
        requests.measure(1);
        assert_eq!(requests.patience_ms(), 300);
        requests.slow();
        assert!(requests.patience_ms() > 300);
        (0..100).for_each(|_| requests.slow());
        assert_eq!(requests.patience_ms(), 5_000);
    }
}
