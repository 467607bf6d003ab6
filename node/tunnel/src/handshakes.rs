//! The datagrams of handshakes, which anybody can send in any number. They have a socket of their
//! own, which is read in bulk and once in a millisecond at most: a flood of them neither wakes the
//! gateway again and again nor takes the room of packets, and what is too much the kernel drops.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use mercato_session::Via;

use crate::limits;
use crate::socket::DatagramSocket;

/// How long the socket is not looked at after it was read.
const PAUSE: Duration = Duration::from_millis(1);

/// The socket of handshakes, and when it is looked at.
pub(crate) struct Handshakes {
    socket: DatagramSocket,
    /// When it was read last.
    read_ms: Option<u64>,
    room: Box<[u8]>,
}

impl Handshakes {
    pub(crate) fn new(socket: DatagramSocket) -> Self {
        Self { socket, read_ms: None, room: vec![0; limits::HANDSHAKE_BYTES].into() }
    }

    /// What to wait for, or how long it is not to be looked at.
    pub(crate) fn waits(&self, mono_ms: u64) -> Result<BorrowedFd<'_>, Duration> {
        if self.is_due(mono_ms) { Ok(self.socket.as_fd()) } else { Err(PAUSE) }
    }

    /// Gives away what has come, if it is time to look.
    ///
    /// # Errors
    /// When the socket is gone.
    pub(crate) fn read(
        &mut self,
        mono_ms: u64,
        mut take: impl FnMut(Via, &[u8]),
    ) -> io::Result<()> {
        if !self.is_due(mono_ms) {
            return Ok(());
        }
        for _ in 0..limits::HANDSHAKES_A_MS {
            match self.socket.receive(&mut self.room) {
                Ok(received) => {
                    self.read_ms = Some(mono_ms);
                    take(received.via, &self.room[..received.bytes]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // An ICMP error for something that was sent: nothing of ours.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn is_due(&self, mono_ms: u64) -> bool {
        self.read_ms.is_none_or(|read_ms| read_ms < mono_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offloads::{OffloadState, Offloads};
    use crate::sockets::Sockets;

    #[test]
    fn a_flood_is_read_in_bulk_once_in_a_millisecond() {
        const MANY: usize = limits::HANDSHAKES_A_MS + 10;
        let offloads = OffloadState::new(Offloads::NONE);
        let bind = |shards| Sockets::bind("127.0.0.1:0".parse().unwrap(), shards, &offloads);
        let (here, there) = (bind(1).unwrap().shards.remove(0), bind(2).unwrap());
        let to = there.shards[0].local_address().unwrap();
        for _ in 0..MANY {
            here.send(to, &[1, 0, 0, 0, 7], 100).unwrap();
        }
        let mut handshakes = Handshakes::new(there.handshakes.unwrap());
        let mut read = |now_ms| {
            let waits = handshakes.waits(now_ms).map(drop);
            let mut count = 0;
            handshakes
                .read(now_ms, |_, datagram| {
                    assert_eq!(datagram, [1, 0, 0, 0, 7]);
                    count += 1;
                })
                .unwrap();
            (waits, count)
        };
        assert_eq!(read(5), (Ok(()), limits::HANDSHAKES_A_MS));
        assert_eq!(read(5), (Err(PAUSE), 0));
        assert_eq!(read(6), (Ok(()), 10));
        assert_eq!(read(7), (Ok(()), 0));
        assert_eq!(read(7), (Ok(()), 0), "whoever comes next is heard at once");
    }
}
