//! An ordered channel over a link that may lose, double and delay frames, and over
//! restarts of either side. Each statement is delivered once and in order within a pair
//! of epochs; a new epoch of either side means: start over, resynchronise.
//!
//! A stream keeps the order and loses nothing but what was under way as it broke, and may be as
//! slow as it likes: that an acknowledgement does not come says nothing. So nothing is said
//! again because of the time. A *probe* is sent behind what is under way, a few bytes: its answer
//! tells what has arrived of all before it, and only what has not is said again.
//!
//! An epoch belongs to one link of one run of one side, and is never used twice: the
//! caller persists it before the first frame of it leaves. What to say, and whether it
//! is still true, is left to the sessions.

use std::collections::VecDeque;

use crate::limits;
use crate::message::Frame;

/// One end.
#[derive(Debug)]
pub struct Channel<T> {
    up: bool,
    epoch: u64,
    peer: u64,
    established: bool,
    next_out: u64,
    next_in: u64,
    unacked: VecDeque<(u64, Vec<T>)>,
    /// The number of the last probe.
    probe: u64,
    /// The last frame that was sent before it; 0: its answer has come.
    probed: u64,
    wait_ms: u64,
    resend_at_ms: u64,
    /// Where the last frame with statements stood: our epoch, the peer's, and its number.
    last_sent: (u64, u64, u64),
}

/// What came of a frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Received<T> {
    /// The two sides have just found each other: what was said before is void.
    pub established: bool,
    /// The peer knows of a later epoch of ours: we are a copy of one that went on. This
    /// one, above it, is to be persisted before any frame leaves.
    pub risen: Option<u64>,
    /// To be taken in order.
    pub statements: Vec<T>,
}

impl<T: Clone> Channel<T> {
    /// An end that has used epochs up to `last_epoch`.
    pub fn new(last_epoch: u64) -> Self {
        Self {
            up: false,
            epoch: last_epoch,
            peer: 0,
            established: false,
            next_out: 1,
            next_in: 1,
            unacked: VecDeque::new(),
            probe: 0,
            probed: 0,
            wait_ms: limits::RESEND_MS,
            resend_at_ms: 0,
            last_sent: (0, 0, 0),
        }
    }

    /// The link is up. Returns the epoch to persist before the greeting is sent.
    pub fn link_up(&mut self, now_ms: u64) -> (u64, Frame<T>) {
        self.up = true;
        self.epoch = self.epoch.saturating_add(1);
        self.restart();
        self.rearm(now_ms);
        (self.epoch, self.frame(0, Vec::new(), true))
    }

    /// The link is down.
    pub fn link_down(&mut self) {
        self.up = false;
        self.restart();
    }

    /// Whether something can be said now.
    pub fn has_room(&self) -> bool {
        self.established && self.unacked.len() < limits::WINDOW_FRAMES
    }

    /// Says something; only with room.
    pub fn send(&mut self, now_ms: u64, statements: Vec<T>) -> Frame<T> {
        debug_assert!(self.has_room() && statements.len() <= limits::FRAME_STATEMENTS);
        if self.unacked.is_empty() {
            self.rearm(now_ms);
        }
        let seq = self.next_out;
        self.next_out += 1;
        self.assert_rising(seq);
        self.unacked.push_back((seq, statements.clone()));
        self.frame(seq, statements, true)
    }

    /// Takes a frame of the peer; what has to be sent at once is pushed to `out`.
    pub fn receive<In>(
        &mut self,
        now_ms: u64,
        frame: Frame<In>,
        out: &mut Vec<Frame<T>>,
    ) -> Received<In> {
        let mut received = Received { established: false, risen: None, statements: Vec::new() };
        // What has a place and says nothing.
        let probe = if frame.statements.is_empty() { frame.seq } else { 0 };
        let oversized = frame.statements.len() > limits::FRAME_STATEMENTS;
        if !self.up || frame.from < self.peer || oversized {
            return received;
        }
        if frame.from > self.peer {
            self.peer = frame.from;
            self.restart();
        }
        if frame.to > self.epoch {
            self.epoch = frame.to.saturating_add(1);
            self.restart();
            self.rearm(now_ms);
            received.risen = Some(self.epoch);
            out.push(self.frame(0, Vec::new(), true));
            return received;
        }
        if frame.to == self.epoch {
            received.established = !self.established;
            self.established = true;
            self.on_ack(now_ms, frame.ack);
            if probe > 0 && !frame.answer && probe == self.probe {
                self.on_probed(now_ms, out);
            } else if probe == 0 && frame.seq == self.next_in {
                self.next_in += 1;
                received.statements = frame.statements;
            }
        }
        if frame.answer {
            out.push(self.frame(probe, Vec::new(), false));
        }
        received
    }

    /// What was sent before the probe and has not arrived is lost, and with it all after it,
    /// which is out of order.
    fn on_probed(&mut self, now_ms: u64, out: &mut Vec<Frame<T>>) {
        let before = std::mem::take(&mut self.probed);
        if self.unacked.front().is_some_and(|(seq, _)| *seq <= before) {
            self.rearm(now_ms);
            let again = self.unacked.iter();
            out.extend(again.map(|(seq, said)| self.frame(*seq, said.clone(), true)));
        }
    }

    /// Asks what has arrived, when it is time; greets again who has not answered.
    pub fn wake(&mut self, now_ms: u64, out: &mut Vec<Frame<T>>) {
        if self.deadline_ms().is_none_or(|at| now_ms < at) {
            return;
        }
        self.wait_ms = (self.wait_ms * 2).min(limits::RESEND_MAX_MS);
        self.resend_at_ms = now_ms + self.wait_ms;
        if self.established {
            self.probe += 1;
            self.probed = self.next_out - 1;
            out.push(self.frame(self.probe, Vec::new(), true));
        } else {
            out.push(self.frame(0, Vec::new(), true));
        }
    }

    /// When to ask or greet again, on the monotonic clock, in ms.
    pub fn deadline_ms(&self) -> Option<u64> {
        let waiting = !self.established || !self.unacked.is_empty();
        (self.up && waiting).then_some(self.resend_at_ms)
    }

    fn on_ack(&mut self, now_ms: u64, ack: u64) {
        let before = self.unacked.len();
        while self.unacked.front().is_some_and(|(seq, _)| *seq <= ack) {
            self.unacked.pop_front();
        }
        if self.unacked.len() < before {
            self.rearm(now_ms);
        }
    }

    fn restart(&mut self) {
        self.established = false;
        self.next_out = 1;
        self.next_in = 1;
        self.probed = 0;
        self.unacked.clear();
    }

    fn rearm(&mut self, now_ms: u64) {
        self.wait_ms = limits::RESEND_MS;
        self.resend_at_ms = now_ms + self.wait_ms;
    }

    /// A number is used once in a pair of epochs, and no epoch twice; but for the last that there
    /// is, which only a peer that lies can bring about.
    fn assert_rising(&mut self, seq: u64) {
        let place = (self.epoch, self.peer, seq);
        let rises = place > self.last_sent || self.epoch == u64::MAX;
        debug_assert!(rises, "{place:?} comes after {:?}", self.last_sent);
        self.last_sent = place;
    }

    fn frame(&self, seq: u64, statements: Vec<T>, answer: bool) -> Frame<T> {
        let (from, to, ack) = (self.epoch, self.peer, self.next_in - 1);
        Frame { from, to, seq, ack, answer, statements }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Channel<u32>, Channel<u32>) {
        let (mut a, mut b) = (Channel::new(0), Channel::new(0));
        let (_, hello) = a.link_up(0);
        b.link_up(0);
        let mut out = Vec::new();
        assert!(!b.receive(0, hello, &mut out).established, "a does not know b yet");
        assert!(a.receive(0, out.remove(0), &mut Vec::new()).established);
        b.wake(limits::RESEND_MS, &mut out);
        let mut back = Vec::new();
        a.receive(0, out.remove(0), &mut back);
        assert!(b.receive(0, back.remove(0), &mut out).established);
        assert!(out.is_empty());
        (a, b)
    }

    #[test]
    fn doubles_and_late_frames_are_taken_once_and_in_order() {
        let (mut a, mut b) = pair();
        let (one, two) = (a.send(0, vec![1]), a.send(0, vec![2]));
        let mut out = Vec::new();
        assert!(b.receive(0, two.clone(), &mut out).statements.is_empty(), "out of order");
        assert_eq!(b.receive(0, one.clone(), &mut out).statements, [1]);
        assert!(b.receive(0, one, &mut out).statements.is_empty(), "a double");
        assert_eq!(b.receive(0, two, &mut out).statements, [2]);
        a.receive(0, out.pop().unwrap(), &mut Vec::new());
        assert_eq!(a.deadline_ms(), None, "all is acknowledged");
    }

    /// What the one answers to these frames of the other, in order.
    fn answers(to: &mut Channel<u32>, frames: Vec<Frame<u32>>) -> Vec<Frame<u32>> {
        let mut answers = Vec::new();
        for frame in frames {
            to.receive(0, frame, &mut answers);
        }
        answers
    }

    #[test]
    fn what_is_lost_is_said_again_once_a_probe_has_shown_it() {
        let (mut a, mut b) = pair();
        let _lost = a.send(0, vec![1]);
        let after = a.send(0, vec![2]);
        let mut out = Vec::new();
        a.wake(limits::RESEND_MS - 1, &mut out);
        assert!(out.is_empty());
        a.wake(limits::RESEND_MS, &mut out);
        assert!(out.len() == 1 && out[0].statements.is_empty(), "a question, no more");
        assert_eq!(a.deadline_ms(), Some(3 * limits::RESEND_MS), "and then later");
        out.insert(0, after);
        let again = answers(&mut a, answers(&mut b, out));
        let said: Vec<_> = again.iter().map(|frame| frame.statements.clone()).collect();
        assert_eq!(said, [[1], [2]]);
        let mut heard = Vec::new();
        let mut acks = Vec::new();
        for frame in again {
            heard.extend(b.receive(0, frame, &mut acks).statements);
        }
        assert_eq!(heard, [1, 2]);
        assert!(answers(&mut a, acks).is_empty() && a.deadline_ms().is_none());
    }

    #[test]
    fn over_an_ordered_link_nothing_is_said_twice_however_slow_it_is() {
        let (mut a, mut b) = pair();
        let mut under_way: Vec<_> = (0..5).map(|n| a.send(0, vec![n])).collect();
        // Minutes pass: nothing has arrived yet, or no answer has.
        for _ in 0..10 {
            let at_ms = a.deadline_ms().unwrap();
            a.wake(at_ms, &mut under_way);
        }
        let said = under_way.iter().filter(|frame| !frame.statements.is_empty()).count();
        assert_eq!(said, 5);
        // The same when the answers come one by one, and more is said meanwhile.
        for frame in under_way {
            for answer in answers(&mut b, vec![frame]) {
                let mut out = Vec::new();
                a.receive(0, answer, &mut out);
                assert!(out.is_empty(), "{out:?}");
            }
        }
        assert_eq!(a.deadline_ms(), None, "all is acknowledged");
    }

    #[test]
    fn an_answer_to_an_earlier_probe_or_to_the_greeting_proves_nothing() {
        let (mut a, mut b) = pair();
        let said = a.send(0, vec![1]);
        let mut probes = Vec::new();
        a.wake(limits::RESEND_MS, &mut probes);
        a.wake(a.deadline_ms().unwrap(), &mut probes);
        // As if it overtook what it follows: the later one is still to come.
        let early = answers(&mut b, vec![probes.remove(0)]);
        assert!(answers(&mut a, early).is_empty());
        let greeting = Frame { from: 1, to: 1, seq: 0, ack: 0, answer: false, statements: vec![] };
        assert!(answers(&mut a, vec![greeting]).is_empty());
        let all = answers(&mut b, vec![said, probes.remove(0)]);
        assert!(answers(&mut a, all).is_empty() && a.deadline_ms().is_none());
    }

    #[test]
    fn a_copy_rises_above_what_its_original_has_said() {
        let (_, mut b) = pair();
        let (_, later) = Channel::<u32>::new(6).link_up(0);
        b.receive(0, later, &mut Vec::new());
        let mut copy = Channel::new(2);
        let (epoch, hello) = copy.link_up(0);
        let mut out = Vec::new();
        assert!(!b.receive(0, hello, &mut out).established);
        assert!(epoch == 3 && out.is_empty(), "b knows of 7");
        let (_, hello) = b.link_up(0);
        let received = copy.receive(0, hello, &mut out);
        assert_eq!((received.risen, received.established), (Some(8), false));
        let mut back = Vec::new();
        b.receive(0, out.remove(0), &mut back);
        assert!(copy.receive(0, back.remove(0), &mut out).established);
    }

    #[test]
    fn the_window_is_bounded() {
        let (mut a, _) = pair();
        for n in 0..limits::WINDOW_FRAMES {
            assert!(a.has_room());
            a.send(0, vec![n as u32]);
        }
        assert!(!a.has_room());
    }

    #[test]
    fn a_frame_of_an_earlier_epoch_is_dropped() {
        let (mut a, mut b) = pair();
        let late = a.send(0, vec![1]);
        let (epoch, hello) = a.link_up(0);
        assert_eq!(epoch, 2);
        let mut out = Vec::new();
        b.receive(0, hello, &mut out);
        assert!(b.receive(0, late, &mut out).statements.is_empty());
        assert_eq!(out.len(), 1, "and is not answered");
    }

    #[test]
    #[should_panic(expected = "comes after")]
    fn a_number_is_never_used_twice() {
        let (mut a, _) = pair();
        a.send(0, vec![1]);
        a.next_out = 1;
        a.send(0, vec![2]);
    }

    #[test]
    fn a_peer_that_knows_of_the_last_epoch_brings_nothing_down() {
        let mut a = Channel::<u32>::new(0);
        a.link_up(0);
        let lie =
            |from| Frame { from, to: u64::MAX, seq: 0, ack: 0, answer: true, statements: vec![] };
        let mut out = Vec::new();
        assert_eq!(a.receive::<u32>(0, lie(1), &mut out).risen, Some(u64::MAX));
        for _ in 0..2 {
            assert_eq!(a.link_up(0).0, u64::MAX);
            assert!(a.receive::<u32>(0, lie(1), &mut out).established);
            assert_eq!(a.send(0, vec![1]).seq, 1);
        }
    }

    #[test]
    fn an_oversized_frame_is_dropped() {
        let (mut a, mut b) = pair();
        let mut frame = a.send(0, vec![1]);
        frame.statements = vec![1; limits::FRAME_STATEMENTS + 1];
        assert!(b.receive(0, frame, &mut Vec::new()).statements.is_empty());
    }
}
