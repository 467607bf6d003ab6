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
    /// How often the first of these was said again.
    repeats: u32,
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
            repeats: 0,
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

    /// Whether the same frame got lost twice and more, on a link that is there: the peer does not
    /// take it, rather than that it fell with a stream.
    pub fn is_stuck(&self) -> bool {
        self.repeats >= limits::STUCK_REPEATS
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
            self.repeats = self.repeats.saturating_add(1);
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
            self.repeats = 0;
            self.rearm(now_ms);
        }
    }

    fn restart(&mut self) {
        self.established = false;
        self.next_out = 1;
        self.next_in = 1;
        self.probed = 0;
        self.repeats = 0;
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
mod tests;
