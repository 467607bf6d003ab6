//! The thread of one lane, but the first: it carries packets, and tells the gateway what it saw.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Clock;
use crate::error::GatewayError;
use crate::lane::Lane;
use crate::limits;
use crate::order::{Mailbox, Notice};
use crate::outer::OuterReason;

/// A lane, and whom it tells.
pub(crate) struct Worker {
    lane: Lane,
    gateway: Mailbox<Notice>,
    clock: Clock,
    /// What its shard saw and was not told yet.
    unsaid: VecDeque<Notice>,
}

/// Tells the gateway of a panic: a lane that has ended carries nothing, and nobody else sees it.
struct LastWords(Mailbox<Notice>);

impl Drop for LastWords {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.send(Notice::Failed(GatewayError::Panicked));
        }
    }
}

impl Worker {
    pub(crate) fn new(lane: Lane, gateway: Mailbox<Notice>, clock: Clock) -> Self {
        Self { lane, gateway, clock, unsaid: VecDeque::new() }
    }

    /// Works until it is ordered to stop, or its device or socket is gone. However it ends, the
    /// gateway learns of it.
    pub(crate) fn run(mut self) {
        let _within = tracing::info_span!("tunnel_shard", number = self.lane.number()).entered();
        let _last_words = LastWords(self.gateway.clone());
        let result = self.work();
        let gateway = self.gateway.clone();
        // Nobody waits for a lane that has ended.
        drop(self);
        if let Err(error) = result {
            gateway.send(Notice::Failed(error));
        }
    }

    fn work(&mut self) -> Result<(), GatewayError> {
        let mut is_busy = false;
        let mut report_ms = None;
        while !self.lane.is_stopped() {
            let mut now_ms = self.clock.mono_ms();
            if !is_busy {
                let until = |at_ms: u64| Duration::from_millis(at_ms.saturating_sub(now_ms));
                self.lane.wait(now_ms, report_ms.map(until), None)?;
                now_ms = self.clock.mono_ms();
            }
            is_busy = self.lane.turn(now_ms)?;
            for notice in self.lane.take_notices() {
                // If there are too many, they are lost, as on any link.
                if self.gateway.try_send(notice).is_err() {
                    self.lane.drop_datagram(OuterReason::Crowd);
                }
            }
            if self.lane.is_active() && report_ms.is_none() {
                report_ms = Some(now_ms + limits::ACTIVITY.as_millis() as u64);
            }
            if self.lane.take_urgent() || report_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                report_ms = self.report(now_ms);
            }
        }
        Ok(())
    }

    /// Tells what its shard saw. If not all of it can be told now, says when to try again.
    fn report(&mut self, now_ms: u64) -> Option<u64> {
        let seen = self.lane.activities().into_iter();
        self.unsaid.extend(seen.map(|(peer, activity)| Notice::Activity(peer, activity)));
        while let Some(notice) = self.unsaid.pop_front() {
            if let Err(unsent) = self.gateway.try_send(notice) {
                self.unsaid.push_front(unsent.into_inner());
                return Some(now_ms + limits::ACTIVITY.as_millis() as u64);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order;

    #[test]
    fn a_lane_that_panics_is_heard() {
        let (mail, _) = order::lane_mail().unwrap();
        let (to_gateway, notices) = order::mailbox_that_wakes(4, mail.orders.waker().clone());
        let thread = std::thread::spawn(move || {
            let _last_words = LastWords(to_gateway);
            panic!("as a lane might");
        });
        assert!(thread.join().is_err());
        assert!(matches!(notices.try_take(), Some(Notice::Failed(GatewayError::Panicked))));
    }
}
