//! How much of something may happen in a time: so much at once, and then so much a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A bucket that fills again while time passes. Whoever takes more than is there goes
/// into debt, and is told how long that takes to pay.
pub struct Bucket {
    size: u64,
    each_second: u64,
    level: Mutex<Level>,
}

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

    /// Takes so much, and says how long to wait before the next.
    pub fn take(&self, now: Instant, amount: u64) -> Duration {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        self.fill(now, &mut level);
        level.amount -= scaled(amount);
        let debt = u64::try_from(-level.amount).unwrap_or(0);
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
    fn a_debt_is_paid_by_time() {
        let start = Instant::now();
        let bucket = Bucket::new(start, 100, 10);
        assert_eq!(bucket.take(start, 100), Duration::ZERO);
        assert_eq!(bucket.take(start, 5), Duration::from_millis(500));
        let later = start + Duration::from_secs(1);
        assert_eq!(bucket.take(later, 5), Duration::ZERO);
        assert_eq!(bucket.take(later, 1), Duration::from_millis(100));
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
