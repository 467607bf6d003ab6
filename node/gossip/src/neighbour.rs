//! What is kept of one neighbour: what it is yet to be told, how long its answers take, how
//! much it may bring of publishers that nobody knows, and what counts against it.

use std::collections::VecDeque;

use mercato_protocol::id::PublicKey;
use mercato_protocol::time::Now;

use crate::limits;
use crate::table::{Keyed, Place};

#[derive(Debug)]
pub(crate) struct Neighbour {
    pub(crate) key: PublicKey,
    /// What it is yet to be told.
    pub(crate) untold: Vec<Place>,
    /// Marks that it was told since it last took from us what is not our own.
    pub(crate) unpulled: usize,
    /// Whether it is told what others tell it sooner, in case they do not.
    pub(crate) is_told_later: bool,
    /// Until then it is told everything at once, monotonic.
    pub(crate) settled_ms: u64,
    /// When it is told next, where there is something to tell.
    pub(crate) tell_ms: u64,
    /// Not before it may be.
    pub(crate) free_ms: u64,
    /// Publishers wanted at its word first.
    pub(crate) wants: usize,
    /// Publishers that it was asked for and has not answered.
    pub(crate) asked: usize,
    /// Publishers, by number, that it is asked for as soon as it has answered some.
    pub(crate) waiting: VecDeque<Place>,
    /// The reconciliation that we opened.
    pub(crate) opened: Option<u64>,
    /// The reconciliation of its that we answered.
    pub(crate) answered: Option<u64>,
    /// When we answer the next.
    pub(crate) answer_ms: u64,
    lane: Bucket,
    /// What counts against it.
    points: Bucket,
    /// Smoothed time to an answer.
    answer_time_ms: Option<u64>,
}

impl Keyed for Neighbour {
    fn key(&self) -> &PublicKey {
        &self.key
    }
}

impl Neighbour {
    /// One that has come now, and is yet to be told of these.
    pub(crate) fn new(now: Now, key: PublicKey, untold: Vec<Place>) -> Self {
        Self {
            key,
            untold,
            unpulled: 0,
            is_told_later: true,
            settled_ms: now.mono_ms + limits::UNSETTLED_MS,
            tell_ms: 0,
            free_ms: 0,
            wants: 0,
            asked: 0,
            waiting: VecDeque::new(),
            opened: None,
            answered: None,
            answer_ms: 0,
            lane: Bucket::default(),
            points: Bucket::default(),
            answer_time_ms: None,
        }
    }

    /// Whether others tell it sooner.
    pub(crate) fn is_served(&self) -> bool {
        self.unpulled >= limits::UNPULLED
    }

    /// Whether it may bring one more unknown publisher.
    pub(crate) fn admit(&mut self, now_ms: u64) -> bool {
        self.lane.fill(now_ms, limits::LANE_MS, 1, limits::LANE_BURST)
    }

    /// Whether it is still a neighbour with so much more against it.
    pub(crate) fn within_budget(&mut self, now_ms: u64, points: u64) -> bool {
        self.points.fill(now_ms, limits::FORGIVE_MS, points, limits::SHUN_POINTS - 1)
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

/// Runs out at an even pace, and holds so much.
#[derive(Debug, Default)]
struct Bucket {
    /// When it will have run out.
    empty_ms: u64,
}

impl Bucket {
    /// Adds `amount`, each of which takes `pace_ms` to run out; false, and nothing is added,
    /// if that is more than it holds.
    fn fill(&mut self, now_ms: u64, pace_ms: u64, amount: u64, most: u64) -> bool {
        let empty_ms = self.empty_ms.max(now_ms) + pace_ms * amount;
        let fits = empty_ms <= now_ms + pace_ms * most;
        if fits {
            self.empty_ms = empty_ms;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_admits_a_burst_and_then_one_by_one() {
        let mut neighbour = Neighbour::new(Now::default(), PublicKey([0; 32]), Vec::new());
        let mut admitted = |now_ms| (0..100).filter(|_| neighbour.admit(now_ms)).count();
        assert_eq!(admitted(0), 20);
        assert_eq!(admitted(999), 0);
        assert_eq!(admitted(1_000), 1);
        assert_eq!(admitted(6_000), 5);
        assert_eq!(admitted(60_000), 20);
    }

    #[test]
    fn what_counts_against_a_neighbour_is_forgiven_slowly() {
        let mut neighbour = Neighbour::new(Now::default(), PublicKey([0; 32]), Vec::new());
        assert!(neighbour.within_budget(0, 99));
        assert!(!neighbour.within_budget(9_999, 1));
        assert!(neighbour.within_budget(10_000, 1));
        assert!(!neighbour.within_budget(10_001, 1));
    }

    #[test]
    fn patience_follows_the_answers() {
        let mut neighbour = Neighbour::new(Now::default(), PublicKey([0; 32]), Vec::new());
        assert_eq!(neighbour.patience_ms(), 1_000);
        neighbour.measure(1);
        assert_eq!(neighbour.patience_ms(), 300);
        neighbour.slow();
        assert!(neighbour.patience_ms() > 300);
        (0..100).for_each(|_| neighbour.slow());
        assert_eq!(neighbour.patience_ms(), 5_000);
    }
}
