//! What somebody else changes as often as it likes, and what is dear to follow: it is taken at a pace.
//! The first after a pause is taken at once; of what comes meanwhile the latest counts. Pure: time is
//! an argument.

use std::time::Duration;

/// Values of somebody else's, of which the latest is taken once in a while.
#[derive(Debug)]
pub(crate) struct Paced<T> {
    pace_ms: u64,
    /// What was heard last, if it is not taken yet.
    latest: Option<T>,
    /// Nothing is taken before, on the monotonic clock.
    rests_ms: u64,
}

impl<T> Paced<T> {
    /// One that is taken once in so long a time at most.
    pub(crate) fn new(pace: Duration) -> Self {
        let pace_ms = u64::try_from(pace.as_millis()).unwrap_or(u64::MAX);
        Self { pace_ms, latest: None, rests_ms: 0 }
    }

    /// Hears a value, in the place of one that was not taken yet.
    pub(crate) fn hear(&mut self, value: T) {
        self.latest = Some(value);
    }

    /// What was heard last and is not taken yet.
    pub(crate) fn latest(&self) -> Option<&T> {
        self.latest.as_ref()
    }

    /// Forgets what was heard and not taken. What was taken still counts.
    pub(crate) fn forget(&mut self) {
        self.latest = None;
    }

    /// What was heard last, once its time has come.
    pub(crate) fn take(&mut self, now_ms: u64) -> Option<T> {
        let latest = self.latest.take_if(|_| self.rests_ms <= now_ms)?;
        self.rests_ms = now_ms.saturating_add(self.pace_ms);
        Some(latest)
    }

    /// When there is something to take, if there is, on the monotonic clock.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.latest.is_some().then_some(self.rests_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: u64 = 2_000;

    fn paced() -> Paced<u64> {
        Paced::new(Duration::from_millis(PACE))
    }

    /// What is taken, and when, of a value every 20 ms for so long.
    fn taken(paced: &mut Paced<u64>, first_ms: u64, last_ms: u64) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        for now_ms in (first_ms..=last_ms).step_by(20) {
            paced.hear(now_ms);
            taken.extend(paced.take(now_ms).map(|value| (now_ms, value)));
        }
        taken
    }

    #[test]
    fn a_flood_is_taken_at_its_pace_and_its_last_is_not_lost() {
        let mut paced = paced();
        let of_flood = taken(&mut paced, 500, 60_400);
        let expected: Vec<_> = (0..30).map(|nth| 500 + nth * PACE).map(|at| (at, at)).collect();
        assert_eq!(of_flood, expected);
        assert_eq!(paced.due_ms(), Some(60_500));
        assert_eq!(paced.take(60_499), None);
        assert_eq!(paced.take(60_500), Some(60_400), "the last of all");
        assert_eq!(paced.due_ms(), None, "it is taken once");
    }

    #[test]
    fn the_first_after_a_pause_is_taken_at_once() {
        let mut paced = paced();
        assert_eq!(taken(&mut paced, 0, 0), [(0, 0)]);
        assert_eq!(taken(&mut paced, PACE, PACE), [(PACE, PACE)]);
        assert_eq!(taken(&mut paced, 9 * PACE, 9 * PACE + 20), [(9 * PACE, 9 * PACE)]);
        assert_eq!(paced.due_ms(), Some(10 * PACE));
    }

    #[test]
    fn what_is_forgotten_is_not_taken_and_rests_all_the_same() {
        let mut paced = paced();
        assert_eq!(taken(&mut paced, 0, 20), [(0, 0)]);
        paced.forget();
        assert_eq!((paced.latest(), paced.due_ms()), (None, None));
        assert_eq!(paced.take(PACE), None);
        assert_eq!(taken(&mut paced, PACE - 20, PACE), [(PACE, PACE)]);
    }
}
