//! An ordered channel over a link that may lose, double and delay frames, and over
//! restarts of either side. Each statement is delivered once and in order within a pair
//! of epochs; a new epoch of either side means: start over, resynchronise.
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
    wait_ms: u64,
    resend_at_ms: u64,
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
            wait_ms: limits::RESEND_MS,
            resend_at_ms: 0,
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
            if frame.seq == self.next_in {
                self.next_in += 1;
                received.statements = frame.statements;
            }
        }
        if frame.answer {
            out.push(self.frame(0, Vec::new(), false));
        }
        received
    }

    /// Sends again what is not acknowledged, when it is time.
    pub fn wake(&mut self, now_ms: u64, out: &mut Vec<Frame<T>>) {
        if self.deadline_ms().is_none_or(|at| now_ms < at) {
            return;
        }
        self.wait_ms = (self.wait_ms * 2).min(limits::RESEND_MAX_MS);
        self.resend_at_ms = now_ms + self.wait_ms;
        if self.established {
            let again = self.unacked.iter();
            out.extend(again.map(|(seq, said)| self.frame(*seq, said.clone(), true)));
        } else {
            out.push(self.frame(0, Vec::new(), true));
        }
    }

    /// When to send again, on the monotonic clock, in ms.
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
        self.unacked.clear();
    }

    fn rearm(&mut self, now_ms: u64) {
        self.wait_ms = limits::RESEND_MS;
        self.resend_at_ms = now_ms + self.wait_ms;
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

    #[test]
    fn a_lost_frame_is_sent_again_with_growing_waits() {
        let (mut a, mut b) = pair();
        a.send(0, vec![1]);
        let mut out = Vec::new();
        a.wake(limits::RESEND_MS - 1, &mut out);
        assert!(out.is_empty());
        a.wake(limits::RESEND_MS, &mut out);
        assert_eq!(a.deadline_ms(), Some(3 * limits::RESEND_MS));
        assert_eq!(b.receive(0, out.remove(0), &mut Vec::new()).statements, [1]);
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
    fn an_oversized_frame_is_dropped() {
        let (mut a, mut b) = pair();
        let mut frame = a.send(0, vec![1]);
        frame.statements = vec![1; limits::FRAME_STATEMENTS + 1];
        assert!(b.receive(0, frame, &mut Vec::new()).statements.is_empty());
    }
}
