//! When something is done again: at a steady pace, or less and less often while it fails. No
//! other module makes an interval, since tokio's own catches up on each tick that was missed.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, sleep};

/// An interval whose first tick is now. Ticks that nobody waited for are lost: one comes at once,
/// and the next a whole period later.
pub fn every(period: Duration) -> Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// The waits between tries of one thing: each is twice the one before, up to a longest one.
#[derive(Debug, Clone)]
pub struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// Waits that begin with `first` and are never longer than `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first.min(longest), longest }
    }

    /// How long to wait before the next try.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        pause
    }

    /// Waits until the next try.
    pub async fn wait(&mut self) {
        sleep(self.pause()).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const PERIOD: Duration = Duration::from_millis(500);

    #[tokio::test(start_paused = true)]
    async fn ticks_that_nobody_waited_for_are_lost() {
        let mut ticks = every(PERIOD);
        ticks.tick().await;
        tokio::time::advance(Duration::from_secs(3600)).await;
        let start = Instant::now();
        for nth in 0..3 {
            ticks.tick().await;
            assert_eq!(start.elapsed(), nth * PERIOD);
        }
    }

    #[test]
    fn waits_grow_up_to_the_longest() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
        let waits: Vec<_> = (0..5).map(|_| backoff.pause().as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 5, 5]);
    }
}
