//! How much the kernel keeps of what is to be sent: what leaves in a few milliseconds. What is
//! more waits in the queues of leases, where they share evenly. In the kernel's buffer and behind
//! it all wait for all.

use crate::limits::{
    SEND_BUFFER_BYTES, SEND_BUFFER_FIRST_BYTES, SEND_BUFFER_LEAST_BYTES, SEND_BUFFER_MS,
};
use crate::socket::DatagramSocket;

/// For so long the way out is watched before the buffer is changed. A guess: ten times that of an
/// interrupt of a network card.
const WATCH_MS: u64 = 20;

/// The kernel's buffer of what is to be sent, as long as the way out is full.
#[derive(Debug)]
pub(super) struct Backlog {
    /// Of the buffer.
    bytes: usize,
    watched: Option<Watch>,
}

/// A time in which something always waited.
#[derive(Clone, Copy, Debug)]
struct Watch {
    began_ms: u64,
    /// What had been sent before.
    sent_bytes: u64,
    /// Whether the buffer was empty at a time: it is not the link that was slow.
    was_empty: bool,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { bytes: SEND_BUFFER_FIRST_BYTES, watched: None }
    }
}

impl Backlog {
    /// Before something is sent.
    pub(super) fn before(&mut self, socket: &DatagramSocket) {
        if let Some(watched) = &mut self.watched {
            watched.was_empty |= socket.unsent_bytes() == Some(0);
        }
    }

    /// After something was sent, and the way out took all of it or not: `sent_bytes` ever.
    pub(super) fn after(
        &mut self,
        mono_ms: u64,
        is_full: bool,
        sent_bytes: u64,
        socket: &DatagramSocket,
    ) {
        let begun = is_full.then_some(Watch { began_ms: mono_ms, sent_bytes, was_empty: false });
        let Some(watched) = self.watched else {
            self.watched = begun;
            return;
        };
        let took_ms = mono_ms - watched.began_ms;
        if is_full && took_ms < WATCH_MS {
            return;
        }
        self.watched = begun;
        let fitting = self.fitting(watched, took_ms.max(1), sent_bytes - watched.sent_bytes);
        // What took all so soon may take more at once; how slow it is, it has not shown.
        let bytes = if is_full { fitting } else { fitting.max(self.bytes) };
        if bytes != self.bytes {
            self.bytes = bytes;
            socket.set_send_buffer(bytes);
        }
    }

    /// The buffer for a way out that took so many bytes in this time.
    fn fitting(&self, watched: Watch, took_ms: u64, sent_bytes: u64) -> usize {
        let bytes = if watched.was_empty {
            self.bytes * 2
        } else {
            (sent_bytes * SEND_BUFFER_MS / took_ms) as usize
        };
        bytes.clamp(SEND_BUFFER_LEAST_BYTES, SEND_BUFFER_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offloads::{OffloadState, Offloads};
    use crate::sockets::Sockets;

    #[test]
    fn a_slow_way_out_gets_a_small_buffer_and_a_fast_one_a_large_one() {
        let offloads = OffloadState::new(Offloads::ALL);
        let any = "127.0.0.1:0".parse().unwrap();
        let socket = Sockets::bind(any, 1, &offloads).unwrap().shards.remove(0);
        assert_eq!(socket.unsent_bytes(), Some(0));
        let mut backlog = Backlog::default();
        // 5 MB/s.
        for ms in 0..=WATCH_MS {
            backlog.after(ms, true, ms * 5_000, &socket);
        }
        assert_eq!(backlog.bytes, SEND_BUFFER_LEAST_BYTES);
        // 100 MB/s.
        let (began_ms, mut sent_bytes) = (WATCH_MS, WATCH_MS * 5_000);
        for ms in began_ms + 1..=began_ms + WATCH_MS {
            sent_bytes += 100_000;
            backlog.after(ms, true, sent_bytes, &socket);
        }
        assert_eq!(backlog.bytes as u64, 100_000 * SEND_BUFFER_MS);
        // Nothing was waiting in between: nothing is known of the way out.
        backlog.after(1_000, false, sent_bytes, &socket);
        backlog.after(1_010, true, sent_bytes, &socket);
        backlog.after(1_029, true, sent_bytes, &socket);
        assert_eq!(backlog.bytes as u64, 100_000 * SEND_BUFFER_MS);
        // The kernel waited for us, and not we for the link.
        backlog.before(&socket);
        backlog.after(1_030, true, sent_bytes + 1, &socket);
        assert_eq!(backlog.bytes as u64, 200_000 * SEND_BUFFER_MS);
        // A burst that was soon gone.
        backlog = Backlog::default();
        backlog.after(2_000, true, sent_bytes, &socket);
        backlog.after(2_001, false, sent_bytes + 80_000, &socket);
        assert_eq!(backlog.bytes as u64, 80_000 * SEND_BUFFER_MS);
    }
}
