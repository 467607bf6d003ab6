//! Sealed datagrams on their way to the socket: those of one length for one peer leave in one
//! send, the last of them may be shorter. Their order is that in which they were sealed.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use mercato_session::Via;

use crate::limits;
use crate::outer::{OuterCounters, OuterReason};
use crate::socket::{DatagramSocket, is_too_large};

/// Datagrams that were sealed and not sent yet.
pub(super) struct Batch {
    sealed: Box<[u8]>,
    /// Of what was sealed.
    end: usize,
    /// Sends, the first one first; the last may still grow.
    sends: VecDeque<Send>,
    /// Datagrams that the own link refused as too large.
    refused: Vec<Refused>,
    /// What the socket has taken, ever.
    sent_bytes: u64,
    /// What it has not taken.
    outer: OuterCounters,
}

/// Datagrams of one length that the own link refused as too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) via: Via,
    /// Of each of them.
    pub(super) bytes: usize,
}

/// Datagrams that leave at once.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Send {
    via: Via,
    range: Range<usize>,
    /// Of each datagram but the last.
    each: usize,
    /// Whether nothing else may leave with it.
    is_alone: bool,
}

/// Whether the way out takes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It does.
    Open,
    /// It does not now; what was sealed stays.
    Full,
}

impl Batch {
    pub(super) fn new() -> Self {
        let sealed = vec![0; limits::SEALED_ROOM].into();
        Self {
            sealed,
            end: 0,
            sends: VecDeque::new(),
            refused: Vec::new(),
            sent_bytes: 0,
            outer: OuterCounters::default(),
        }
    }

    /// What was refused since this was last called.
    pub(super) fn take_refused(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refused)
    }

    /// What the socket has taken, ever.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// What the socket has not taken.
    pub(super) fn outer(&self) -> &OuterCounters {
        &self.outer
    }

    /// Whether there is room for one more datagram of so many bytes before something was sent.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.end + bytes <= self.sealed.len()
    }

    /// Room for one more datagram of at most so many bytes. None if there is none before
    /// something was sent.
    pub(super) fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.sealed.get_mut(self.end..self.end + bytes)
    }

    /// Takes the datagram that was written to the begin of the [room](Batch::room).
    pub(super) fn push(&mut self, via: Via, bytes: usize) {
        let range = self.end..self.end + bytes;
        self.end = range.end;
        if let Some(last) = self.sends.back_mut().filter(|last| last.takes(via, bytes)) {
            last.range.end = range.end;
        } else {
            self.sends.push_back(Send { via, range, each: bytes, is_alone: false });
        }
    }

    /// Takes a whole datagram that leaves alone, behind all others. It is lost if there is no room.
    pub(super) fn push_alone(&mut self, via: Via, datagram: &[u8]) {
        let Some(room) = self.room(datagram.len()) else {
            return self.outer.drop(OuterReason::Socket, 1);
        };
        room.copy_from_slice(datagram);
        let range = self.end..self.end + datagram.len();
        self.end = range.end;
        self.sends.push_back(Send { via, range, each: datagram.len(), is_alone: true });
    }

    /// Sends what may not wait: all but what may still grow.
    pub(super) fn send_complete(&mut self, socket: &DatagramSocket) -> Way {
        while self.sends.len() > 1 || self.sends.front().is_some_and(Send::is_complete) {
            if self.send_first(socket) == Way::Full {
                return Way::Full;
            }
        }
        Way::Open
    }

    /// Sends everything.
    pub(super) fn send_all(&mut self, socket: &DatagramSocket) -> Way {
        while !self.sends.is_empty() {
            if self.send_first(socket) == Way::Full {
                return Way::Full;
            }
        }
        Way::Open
    }

    fn send_first(&mut self, socket: &DatagramSocket) -> Way {
        let Some(Send { via, range, each, .. }) = self.sends.front() else { return Way::Open };
        let count = range.len().div_ceil(*each) as u64;
        match socket.send(*via, &self.sealed[range.clone()], *each) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Way::Full,
            Err(error) if is_too_large(&error) => {
                self.outer.drop(OuterReason::TooLarge, count);
                self.refused.push(Refused { via: *via, bytes: *each });
            }
            // What a network does not take is lost, as on any link; whoever sent it says it again.
            Err(error) => {
                self.outer.drop(OuterReason::Socket, count);
                tracing::debug!(to = %via.to, %error, "datagrams were not sent");
            }
            Ok(()) => self.sent_bytes += range.len() as u64,
        }
        self.sends.pop_front();
        if self.sends.is_empty() {
            self.end = 0;
        }
        Way::Open
    }
}

impl Send {
    /// Whether one more datagram may leave with these.
    fn takes(&self, via: Via, bytes: usize) -> bool {
        self.via == via && bytes <= self.each && !self.is_complete() && {
            self.range.len() + bytes <= limits::SEND_BYTES
        }
    }

    /// Whether none may: the only one leaves alone, the last one is shorter, or there are as many as one send carries.
    fn is_complete(&self) -> bool {
        let (length, each) = (self.range.len(), self.each);
        self.is_alone
            || !length.is_multiple_of(each)
            || length / each == limits::SEND_SEGMENTS
            || length + each > limits::SEND_BYTES
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::offloads::{OffloadState, Offloads};
    use crate::sockets::Sockets;

    /// The sends that datagrams of these lengths for these peers become.
    fn sends(datagrams: &[(u16, usize)]) -> Vec<(u16, usize, usize)> {
        let mut batch = Batch::new();
        for (port, bytes) in datagrams {
            let to = SocketAddr::from(([127, 0, 0, 1], *port)).into();
            batch.room(*bytes).unwrap().fill(0);
            batch.push(to, *bytes);
        }
        batch.sends.iter().map(|send| (send.via.to.port(), send.range.len(), send.each)).collect()
    }

    #[test]
    fn datagrams_of_one_length_leave_together_and_a_shorter_one_closes() {
        assert_eq!(sends(&[(1, 96), (1, 96), (1, 96)]), [(1, 288, 96)]);
        assert_eq!(sends(&[(1, 96), (1, 50), (1, 50)]), [(1, 146, 96), (1, 50, 50)]);
        assert_eq!(sends(&[(1, 50), (1, 96)]), [(1, 50, 50), (1, 96, 96)]);
        assert_eq!(sends(&[(1, 96), (2, 96), (1, 96)]), [(1, 96, 96), (2, 96, 96), (1, 96, 96)]);
    }

    #[test]
    fn what_leaves_alone_takes_no_others_with_it() {
        let mut batch = Batch::new();
        let to = Via::from(SocketAddr::from(([127, 0, 0, 1], 1)));
        batch.room(96).unwrap().fill(0);
        batch.push(to, 96);
        batch.push_alone(to, &[1; 96]);
        batch.room(50).unwrap().fill(0);
        batch.push(to, 50);
        let lengths: Vec<_> = batch.sends.iter().map(|send| send.range.len()).collect();
        assert_eq!(lengths, [96, 96, 50]);
        batch.push_alone(to, &vec![0; limits::SEALED_ROOM]);
        assert_eq!(batch.sends.len(), 3, "there is no room for it");
    }

    #[test]
    fn no_send_has_more_than_the_kernel_cuts() {
        let small = sends(&[(1, 64); 100]);
        assert_eq!(small, [(1, 64 * 64, 64), (1, 36 * 64, 64)]);
        let large = sends(&[(1, 1_472); 60]);
        assert_eq!(large, [(1, 44 * 1_472, 1_472), (1, 16 * 1_472, 1_472)]);
    }

    #[test]
    fn what_may_still_grow_waits_for_the_rest() {
        let bound = |offloads: &OffloadState| {
            Sockets::bind("127.0.0.1:0".parse().unwrap(), 1, offloads).unwrap().shards.remove(0)
        };
        let offloads = OffloadState::new(Offloads::ALL);
        let (here, there) = (bound(&offloads), bound(&offloads));
        let to = there.local_address().unwrap().into();
        let mut batch = Batch::new();
        for bytes in [96, 96, 50, 96] {
            batch.room(bytes).unwrap().fill(1);
            batch.push(to, bytes);
        }
        assert_eq!(batch.send_complete(&here), Way::Open);
        assert_eq!(batch.sends.len(), 1);
        assert_eq!(batch.send_all(&here), Way::Open);
        assert!(batch.sends.is_empty() && batch.end == 0);
    }
}
