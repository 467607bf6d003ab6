//! Whether packets pass in both directions, asked all the time while a lease by the peer is in force:
//! a ping goes inside the session, and its echo says how long both took. Each ping says besides which
//! one of the other end's came last. What comes from the peer shows that its packets arrive here, and
//! not that ours arrive there: that is shown by the number of a ping of ours, in an echo or in a ping
//! of the peer's, and by a new session. Without it the link is down, long before the session is over.
//!
//! A number that was not sent shows nothing, one that is known shows nothing again, and one of a ping
//! that is older than the last [`limits::PINGS`] neither: whoever holds packets back keeps no link up
//! for long. A peer that says that it heard what it did not has its own pods called in vain.

use std::collections::VecDeque;

use crate::control;
use crate::limits;

/// Which way packets of a link that is down are lost, as far as this end can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nothing comes from the peer. Whether anything reaches it, the peer alone knows.
    FromPeer,
    /// The peer is heard, and hears nothing.
    ToPeer,
}

/// What is asked of one peer, and what came of it. Times are on the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Until when a lease by it is in force; none if there is none.
    until_ms: Option<u64>,
    /// When it is asked next.
    ask_ms: u64,
    /// When anything authentic came last, or this began.
    heard_ms: u64,
    /// When it was shown last that something of ours has arrived there, or this began.
    arrived_ms: u64,
    /// The peer's ping that came last by the session that is in use; zero: none did.
    last_heard: u64,
    /// Of the ping that was sent last.
    number: u64,
    /// Pings without an echo, and when each was sent: the last [`limits::PINGS`].
    asked: VecDeque<Ping>,
    round_trip_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Ping {
    number: u64,
    sent_ms: u64,
}

impl Watch {
    /// A lease by the peer is in force until then, or none is any more.
    pub(super) fn set(&mut self, mono_ms: u64, until_ms: Option<u64>) {
        if self.until_ms.is_none() {
            self.begin(mono_ms);
        }
        self.until_ms = until_ms;
    }

    /// Something authentic has come from it.
    pub(super) fn heard(&mut self, mono_ms: u64) {
        self.heard_ms = mono_ms;
    }

    /// There is a new session with it, which takes a message of each end that has arrived: it is
    /// asked at once. Its pings may count anew.
    pub(super) fn connected(&mut self, mono_ms: u64) {
        self.begin(mono_ms);
        self.last_heard = 0;
    }

    /// A ping of the peer's has come.
    pub(super) fn pinged(&mut self, mono_ms: u64, ping: control::Ping) {
        self.last_heard = ping.number;
        if let Some(number) = ping.heard {
            self.arrived(mono_ms, number);
        }
    }

    /// The ping of this number has come back.
    pub(super) fn came_back(&mut self, mono_ms: u64, number: u64) {
        if let Some(sent_ms) = self.arrived(mono_ms, number) {
            self.round_trip_ms = Some(mono_ms.saturating_sub(sent_ms));
        }
    }

    /// The ping of this number has arrived there. Gives when it was sent, if that is news.
    fn arrived(&mut self, mono_ms: u64, number: u64) -> Option<u64> {
        let nth = self.asked.iter().position(|ping| ping.number == number)?;
        self.arrived_ms = mono_ms;
        // Those before it are late or lost, and say less than it does.
        Some(self.asked.drain(..=nth).next_back()?.sent_ms)
    }

    /// How long a ping and its echo took last.
    pub(super) fn round_trip_ms(&self) -> Option<u64> {
        self.round_trip_ms
    }

    /// Whether nothing is known to have arrived for so long that the link is down. Nobody asks where
    /// no lease is in force.
    pub(super) fn is_silent(&self, mono_ms: u64) -> bool {
        self.is_watched(mono_ms) && mono_ms >= self.silent_ms()
    }

    /// Which way packets are lost, if the link is down for that.
    pub(super) fn lost(&self, mono_ms: u64) -> Option<Lost> {
        let is_heard = mono_ms < self.heard_ms + limits::HEARD_MS
            && self.heard_ms >= self.arrived_ms + limits::HEARD_ALONE_MS;
        let way = if is_heard { Lost::ToPeer } else { Lost::FromPeer };
        self.is_silent(mono_ms).then_some(way)
    }

    /// Whether the peer is to be asked now: once for each time.
    pub(super) fn take_ask(&mut self, mono_ms: u64) -> bool {
        if !self.is_watched(mono_ms) {
            self.until_ms = None;
            return false;
        }
        let is_due = mono_ms >= self.ask_ms;
        if is_due {
            let silent_ms = mono_ms.saturating_sub(self.arrived_ms);
            let is_awaited = (2 * limits::PING_MS..limits::PING_SOON_FOR_MS).contains(&silent_ms);
            self.ask_ms = mono_ms + if is_awaited { limits::PING_SOON_MS } else { limits::PING_MS };
        }
        is_due
    }

    /// A ping that is sent now.
    pub(super) fn ping(&mut self, mono_ms: u64) -> control::Ping {
        self.number += 1;
        if self.asked.len() == limits::PINGS {
            self.asked.pop_front();
        }
        self.asked.push_back(Ping { number: self.number, sent_ms: mono_ms });
        control::Ping { number: self.number, heard: Some(self.last_heard) }
    }

    /// When there is something to do. Of a link that is down it is not found out again.
    pub(super) fn next_ms(&self, is_up: bool) -> Option<u64> {
        self.until_ms?;
        Some(if is_up { self.ask_ms.min(self.silent_ms()) } else { self.ask_ms })
    }

    fn begin(&mut self, mono_ms: u64) {
        (self.ask_ms, self.heard_ms, self.arrived_ms) = (mono_ms, mono_ms, mono_ms);
    }

    fn is_watched(&self, mono_ms: u64) -> bool {
        self.until_ms.is_some_and(|until_ms| mono_ms < until_ms)
    }

    fn silent_ms(&self) -> u64 {
        self.arrived_ms + limits::LINK_DOWN_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_asked_as_long_as_a_lease_is_in_force() {
        let mut watch = Watch::default();
        assert!(!watch.take_ask(0) && watch.next_ms(true).is_none(), "no lease");
        watch.set(500, Some(500 + 2 * limits::PING_MS + 1));
        let asked: Vec<u64> = (0..10_000).filter(|ms| watch.take_ask(500 + ms)).collect();
        assert_eq!(asked, [0, limits::PING_MS, 2 * limits::PING_MS]);
        assert_eq!((watch.next_ms(true), watch.is_silent(u64::MAX)), (None, false));
    }

    #[test]
    fn a_link_is_down_three_seconds_after_anything_is_known_to_have_arrived() {
        let mut watch = Watch::default();
        watch.set(1_000, Some(u64::MAX));
        let number = watch.ping(1_500).number;
        watch.came_back(2_000, number);
        assert!(!watch.is_silent(1_999 + limits::LINK_DOWN_MS));
        assert!(watch.is_silent(2_000 + limits::LINK_DOWN_MS));
        watch.take_ask(4_900);
        assert_eq!(watch.next_ms(true), Some(2_000 + limits::LINK_DOWN_MS));
        assert_eq!(watch.next_ms(false), Some(4_900 + limits::PING_SOON_MS));
        // Another end of the lease is no other beginning.
        watch.set(4_600, Some(9_000));
        assert!(watch.is_silent(5_000));
        watch.connected(5_000);
        assert!(!watch.is_silent(5_000));
    }

    /// What comes at 3,500 ms from a peer that is asked since 500 ms, at 1,000 and at 3,000 ms; and
    /// whether the link is up then.
    #[test]
    fn up_is_what_the_other_end_hears() {
        let first = |heard| control::Ping { number: 1, heard };
        type Comes = fn(&mut Watch);
        let table: [(&str, Comes, bool); 10] = [
            ("nothing", |_| {}, false),
            ("packets", |watch| watch.heard(3_500), false),
            ("an echo of the last ping", |watch| watch.came_back(3_500, 2), true),
            ("an echo of the one before", |watch| watch.came_back(3_500, 1), true),
            ("an echo of none", |watch| watch.came_back(3_500, 3), false),
            ("a ping of a release that says nothing", |_| {}, false),
            ("a ping that has heard nothing", |_| {}, false),
            ("a ping that has heard ours", |_| {}, true),
            ("a ping that has heard none of ours", |_| {}, false),
            ("a new session", |watch| watch.connected(3_500), true),
        ];
        let pings = [None, Some(0), Some(1), Some(99)];
        for (nth, (what, comes, is_up)) in table.into_iter().enumerate() {
            let mut watch = Watch::default();
            watch.set(500, Some(u64::MAX));
            watch.ping(1_000);
            watch.ping(3_000);
            comes(&mut watch);
            if let Some(heard) = nth.checked_sub(5).and_then(|nth| pings.get(nth)) {
                watch.heard(3_500);
                watch.pinged(3_500, first(*heard));
            }
            assert_eq!(!watch.is_silent(3_500), is_up, "{what}");
        }
    }

    #[test]
    fn what_is_known_already_shows_nothing_again() {
        let mut watch = Watch::default();
        watch.set(0, Some(u64::MAX));
        let number = watch.ping(0).number;
        watch.pinged(100, control::Ping { number: 1, heard: Some(number) });
        for ms in 101..100 + limits::LINK_DOWN_MS {
            watch.pinged(ms, control::Ping { number: ms, heard: Some(number) });
            watch.came_back(ms, number);
        }
        assert!(watch.is_silent(100 + limits::LINK_DOWN_MS), "somebody says it again and again");
        // Nor does a ping that was held back for longer than others were sent since.
        let number = watch.ping(4_000).number;
        for nth in 0..limits::PINGS as u64 {
            watch.ping(4_001 + nth);
        }
        watch.came_back(5_000, number);
        assert!(watch.is_silent(5_000));
    }

    #[test]
    fn a_ping_says_which_one_came_last_since_there_is_a_session() {
        let mut watch = Watch::default();
        assert_eq!(watch.ping(0).heard, Some(0));
        watch.pinged(0, control::Ping { number: 7, heard: None });
        assert_eq!(watch.ping(0).heard, Some(7));
        watch.connected(1);
        assert_eq!(watch.ping(1).heard, Some(0), "the peer may count anew");
    }

    #[test]
    fn a_link_that_is_down_says_which_way_packets_are_lost() {
        // Until when the peer is heard, when it is looked, and what is said then.
        let up_ms = 10_000;
        let down_ms = up_ms + limits::LINK_DOWN_MS;
        let table = [
            (up_ms, down_ms - 1, None),
            (down_ms - 1, down_ms - 1, None),
            (up_ms, down_ms, Some(Lost::FromPeer)),
            (up_ms + 2 * limits::PING_MS, down_ms, Some(Lost::FromPeer)),
            (up_ms + limits::HEARD_ALONE_MS, down_ms, Some(Lost::ToPeer)),
            (down_ms, down_ms, Some(Lost::ToPeer)),
            // Its keys are over, and it begins anew each five seconds.
            (400_000, 400_000 + limits::REKEY_TIMEOUT_MS, Some(Lost::ToPeer)),
            (400_000, 400_000 + limits::HEARD_MS, Some(Lost::FromPeer)),
        ];
        for (heard_ms, at_ms, lost) in table {
            let mut watch = Watch::default();
            watch.set(0, Some(u64::MAX));
            let number = watch.ping(up_ms).number;
            watch.came_back(up_ms, number);
            watch.heard(heard_ms);
            assert_eq!(watch.lost(at_ms), lost, "heard until {heard_ms}, at {at_ms}");
        }
        assert_eq!(Watch::default().lost(u64::MAX), None, "nobody asks");
    }

    #[test]
    fn who_does_not_answer_is_asked_more_often_for_a_while() {
        let mut watch = Watch::default();
        watch.set(0, Some(u64::MAX));
        let mut asked = |from: u64, to: u64| (from..to).filter(|ms| watch.take_ask(*ms)).count();
        asked(0, 10_000);
        assert_eq!(asked(10_000, 12_000), 10);
        asked(12_000, 2 * limits::PING_SOON_FOR_MS);
        let later = 2 * limits::PING_SOON_FOR_MS;
        assert_eq!(asked(later, later + 2_000), 5);
    }

    #[test]
    fn a_round_trip_is_that_of_the_ping_that_came_back() {
        let mut watch = Watch::default();
        let pings = limits::PINGS as u64 + 2;
        let numbers: Vec<u64> = (0..pings).map(|nth| watch.ping(nth * 1_000).number).collect();
        let [.., before, known, last] = numbers[..] else { unreachable!() };
        let now_ms = pings * 1_000 - 500;
        watch.came_back(now_ms, known);
        assert_eq!(watch.round_trip_ms(), Some(1_500));
        for late in [numbers[0], before, known, 99] {
            watch.came_back(now_ms + 100, late);
            assert_eq!(watch.round_trip_ms(), Some(1_500), "forgotten, late, known, never sent");
        }
        watch.came_back(now_ms + 100, last);
        assert_eq!(watch.round_trip_ms(), Some(600));
    }
}
