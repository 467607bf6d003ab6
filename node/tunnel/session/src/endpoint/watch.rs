//! Whether a peer is there, asked all the time while a lease by it is in force: a ping goes inside
//! the session, and its echo says how long both took. Anything authentic shows that the peer is
//! there; without it the link is down, long before the session is over.

use std::collections::VecDeque;

use crate::limits;

/// What is asked of one peer, and what came of it. Times are on the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Until when a lease by it is in force; none if there is none.
    until_ms: Option<u64>,
    /// When it is asked next.
    ask_ms: u64,
    /// When anything authentic came last, or this began.
    heard_ms: u64,
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
            (self.ask_ms, self.heard_ms) = (mono_ms, mono_ms);
        }
        self.until_ms = until_ms;
    }

    /// Something authentic has come from it.
    pub(super) fn heard(&mut self, mono_ms: u64) {
        self.heard_ms = mono_ms;
    }

    /// There is a new session with it: it is asked at once.
    pub(super) fn connected(&mut self, mono_ms: u64) {
        (self.ask_ms, self.heard_ms) = (mono_ms, mono_ms);
    }

    /// The ping of this number has come back.
    pub(super) fn came_back(&mut self, mono_ms: u64, number: u64) {
        if let Some(nth) = self.asked.iter().position(|ping| ping.number == number) {
            // Those before it are late or lost, and say less than it does.
            let ping = self.asked.drain(..=nth).next_back();
            self.round_trip_ms = ping.map(|ping| mono_ms.saturating_sub(ping.sent_ms));
        }
    }

    /// How long a ping and its echo took last.
    pub(super) fn round_trip_ms(&self) -> Option<u64> {
        self.round_trip_ms
    }

    /// Whether nothing has come for so long that the link is down. Nobody asks where no lease is in
    /// force.
    pub(super) fn is_silent(&self, mono_ms: u64) -> bool {
        self.is_watched(mono_ms) && mono_ms >= self.silent_ms()
    }

    /// Whether the peer is to be asked now: once for each time.
    pub(super) fn take_ask(&mut self, mono_ms: u64) -> bool {
        if !self.is_watched(mono_ms) {
            self.until_ms = None;
            return false;
        }
        let is_due = mono_ms >= self.ask_ms;
        if is_due {
            let silent_ms = mono_ms.saturating_sub(self.heard_ms);
            let is_awaited = (2 * limits::PING_MS..limits::PING_SOON_FOR_MS).contains(&silent_ms);
            self.ask_ms = mono_ms + if is_awaited { limits::PING_SOON_MS } else { limits::PING_MS };
        }
        is_due
    }

    /// The number of a ping that is sent now.
    pub(super) fn ping(&mut self, mono_ms: u64) -> u64 {
        self.number += 1;
        if self.asked.len() == limits::PINGS {
            self.asked.pop_front();
        }
        self.asked.push_back(Ping { number: self.number, sent_ms: mono_ms });
        self.number
    }

    /// When there is something to do. Of a link that is down it is not found out again.
    pub(super) fn next_ms(&self, is_up: bool) -> Option<u64> {
        self.until_ms?;
        Some(if is_up { self.ask_ms.min(self.silent_ms()) } else { self.ask_ms })
    }

    fn is_watched(&self, mono_ms: u64) -> bool {
        self.until_ms.is_some_and(|until_ms| mono_ms < until_ms)
    }

    fn silent_ms(&self) -> u64 {
        self.heard_ms + limits::LINK_DOWN_MS
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
    fn who_says_nothing_for_three_seconds_is_silent() {
        let mut watch = Watch::default();
        watch.set(1_000, Some(u64::MAX));
        watch.heard(2_000);
        assert!(!watch.is_silent(1_999 + limits::LINK_DOWN_MS));
        assert!(watch.is_silent(2_000 + limits::LINK_DOWN_MS));
        watch.take_ask(4_900);
        assert_eq!(watch.next_ms(true), Some(2_000 + limits::LINK_DOWN_MS));
        assert_eq!(watch.next_ms(false), Some(4_900 + limits::PING_SOON_MS));
        // Another end of the lease is no other beginning.
        watch.set(4_600, Some(9_000));
        assert!(watch.is_silent(5_000));
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
        let numbers: Vec<u64> = (0..pings).map(|nth| watch.ping(nth * 1_000)).collect();
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
