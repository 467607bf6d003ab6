//! How much of something may happen in a time: so much at once, and then so much a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;

/// A bucket that fills again while time passes. Whoever takes more than is there goes
/// into debt, and is told how long that takes to pay. A debt has a bound.
pub struct Bucket {
    size: u64,
    each_second: u64,
    level: Mutex<Level>,
}

/// More is owed than is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it says far more than it may")]
pub struct TooMuch;

struct Level {
    /// What is left, in millionths of one; below zero it is a debt.
    amount: i128,
    since: Instant,
}

impl Bucket {
    /// A full bucket of this size, into which so much comes each second, which is not zero.
    pub fn new(now: Instant, size: u64, each_second: u64) -> Self {
        Self { size, each_second, level: Mutex::new(Level { amount: scaled(size), since: now }) }
    }

    /// Takes so much, and says how long to wait before the next. What would take longer than
    /// `most` to pay is not taken.
    pub fn take(&self, now: Instant, amount: u64, most: Duration) -> Result<Duration, TooMuch> {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        self.fill(now, &mut level);
        let left = level.amount - scaled(amount);
        let wait = self.until_paid(left);
        if wait > most {
            return Err(TooMuch);
        }
        level.amount = left;
        Ok(wait)
    }

    /// How long it takes to pay what is owed now.
    pub fn debt(&self, now: Instant) -> Duration {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        self.fill(now, &mut level);
        self.until_paid(level.amount)
    }

    fn until_paid(&self, amount: i128) -> Duration {
        // A negative amount is owed; more than fits is owed for ever.
        let debt = u64::try_from(amount.min(0).unsigned_abs()).unwrap_or(u64::MAX);
        Duration::from_micros(debt.div_ceil(self.each_second))
    }

    /// Takes one, if there is one.
    pub fn has_one(&self, now: Instant) -> bool {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        self.fill(now, &mut level);
        let there = level.amount >= scaled(1);
        if there {
            level.amount -= scaled(1);
        }
        there
    }

    fn fill(&self, now: Instant, level: &mut Level) {
        let passed =
            i128::try_from(now.duration_since(level.since).as_micros()).unwrap_or(i128::MAX);
        let amount =
            level.amount.saturating_add(passed.saturating_mul(i128::from(self.each_second)));
        level.amount = amount.min(scaled(self.size));
        level.since = now;
    }
}

/// In millionths, so that what comes in a microsecond counts.
fn scaled(amount: u64) -> i128 {
    i128::from(amount) * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_is_paid_by_time_and_has_a_bound() {
        let start = Instant::now();
        let bucket = Bucket::new(start, 100, 10);
        let take = |now, amount| bucket.take(now, amount, Duration::from_secs(2));
        assert_eq!(take(start, 100), Ok(Duration::ZERO));
        assert_eq!(take(start, 5), Ok(Duration::from_millis(500)));
        let later = start + Duration::from_secs(1);
        assert_eq!(take(later, 5), Ok(Duration::ZERO));
        assert_eq!(take(later, 1), Ok(Duration::from_millis(100)));
        for amount in [20, u64::MAX] {
            assert_eq!(take(later, amount), Err(TooMuch));
        }
        assert_eq!(bucket.debt(later), Duration::from_millis(100), "what is refused is not owed");
        assert_eq!(take(later, 19), Ok(Duration::from_secs(2)));
    }

    #[test]
    fn it_holds_no_more_than_its_size() {
        let start = Instant::now();
        let bucket = Bucket::new(start, 2, 1_000);
        let later = start + Duration::from_secs(3_600);
        assert!(bucket.has_one(later) && bucket.has_one(later) && !bucket.has_one(later));
        let later = later + Duration::from_millis(1);
        assert!(bucket.has_one(later) && !bucket.has_one(later));
    }
}
