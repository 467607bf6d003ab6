//! When names are said that have changed: the first changes after a pause at once, those of a burst together,
//! now and then. What is said goes to each node that has a guest of the lease.

use tokio::time::{Instant, sleep_until};

use crate::limits;

/// When the names of one lease are said.
#[derive(Default)]
pub(in crate::guest) struct Pace {
    due: Option<Instant>,
    /// When as much may be said at once as ever.
    rested: Option<Instant>,
}

impl Pace {
    /// Something has changed: it is said with what changes until it is due.
    pub(in crate::guest) fn changed(&mut self) {
        let now = Instant::now();
        let at_once = limits::NAMES_AGAIN * (limits::NAMES_AT_ONCE - 1);
        let may = |rested: Instant| rested.checked_sub(at_once).unwrap_or(now);
        let earliest = self.rested.map_or(now, may);
        self.due.get_or_insert(earliest.max(now + limits::NAMES_GATHER));
    }

    /// Waits until something is due, if anything is.
    pub(in crate::guest) fn is_due(&self) -> impl Future<Output = ()> + use<> {
        let due = self.due;
        async move {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        }
    }

    /// What was due was looked at; `said`: and was another than before.
    pub(in crate::guest) fn is_done(&mut self, said: bool) {
        self.due = None;
        if said {
            let now = Instant::now();
            let rested = self.rested.map_or(now, |rested| rested.max(now));
            self.rested = Some(rested + limits::NAMES_AGAIN);
        }
    }
}

const _: () = assert!(limits::NAMES_AT_ONCE > 0 && limits::NAMES_GATHER.as_millis() < 300);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// When names are said within so long in which something changes every quarter of a second, in
    /// milliseconds from the first change.
    async fn said(pace: &mut Pace, within: Duration) -> Vec<u128> {
        let (begun, mut said) = (Instant::now(), Vec::new());
        let mut next = begun;
        while begun.elapsed() < within {
            tokio::select! {
                () = pace.is_due() => {
                    said.push(begun.elapsed().as_millis());
                    pace.is_done(true);
                }
                () = sleep_until(next) => {
                    pace.changed();
                    next += Duration::from_millis(250);
                }
            }
        }
        said
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_are_said_at_once_and_those_of_a_burst_now_and_then() {
        let mut pace = Pace::default();
        let all = said(&mut pace, Duration::from_secs(60)).await;
        let (at_once, burst) = all.split_at(limits::NAMES_AT_ONCE as usize);
        assert!(at_once.iter().all(|at| at % 250 < 300 && *at < 2_000), "{all:?}");
        let again = limits::NAMES_AGAIN.as_millis();
        assert!(burst.windows(2).all(|pair| pair[1] - pair[0] >= again), "{all:?}");
        assert!((10..40).contains(&all.len()), "of 240 changes {} were said", all.len());
        // After a pause it is as at the start.
        tokio::time::sleep(limits::NAMES_AGAIN * limits::NAMES_AT_ONCE).await;
        pace.is_done(false);
        let again = said(&mut pace, Duration::from_secs(1)).await;
        assert!(again[0] < 300, "{again:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_news_costs_nothing() {
        let mut pace = Pace::default();
        for _ in 0..100 {
            let begun = Instant::now();
            pace.changed();
            pace.is_due().await;
            assert!(begun.elapsed() < Duration::from_millis(300));
            pace.is_done(false);
        }
    }
}
