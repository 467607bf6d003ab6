//! Gossip to one neighbour: the bounded queue of what goes there, and its writer. What gets lost
//! here, gossip itself repairs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::AsyncWriteExt as _;
use libp2p::Stream;
use mercato_protocol::id::PublicKey;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::command::Opener;
use crate::error::NetError;
use crate::protocols::Protocol;
use crate::{frame, limits};

/// Frames that wait for a neighbour; the oldest give way to new ones.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    frames: VecDeque<Bytes>,
    bytes: usize,
    closed: bool,
}

impl Queue {
    /// How many older frames gave way, so that no more than `most` bytes wait.
    pub(crate) fn push(&self, frame: Bytes, most: usize) -> usize {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = 0;
        while waiting.bytes + frame.len() > most
            && let Some(oldest) = waiting.frames.pop_front()
        {
            waiting.bytes -= oldest.len();
            dropped += 1;
        }
        waiting.bytes += frame.len();
        waiting.frames.push_back(frame);
        self.changed.notify_one();
        dropped
    }

    /// Lets the writer end once it has written what waits.
    pub(crate) fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.changed.notify_one();
    }

    async fn pop(&self) -> Option<Bytes> {
        loop {
            {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(frame) = waiting.frames.pop_front() {
                    waiting.bytes -= frame.len();
                    return Some(frame);
                }
                if waiting.closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }
}

/// Writes the queue to the neighbour until it is closed. An error means that the
/// neighbour is stalled or gone.
pub(crate) async fn write(
    queue: Arc<Queue>,
    opener: Opener,
    peer: PublicKey,
) -> Result<(), NetError> {
    let mut stream = None;
    while let Some(frame) = queue.pop().await {
        if let Some(open) = &mut stream {
            match write_frame(open, &frame).await {
                Ok(()) => continue,
                Err(NetError::TimedOut) => return Err(NetError::TimedOut),
                // Of two connections with one peer the one that carried us may have ended.
                Err(_) => {}
            }
        }
        let mut fresh = opener.open(peer, Protocol::Market).await?;
        write_frame(&mut fresh, &frame).await?;
        stream = Some(fresh);
    }
    if let Some(mut stream) = stream {
        stream.close().await?;
    }
    Ok(())
}

async fn write_frame(stream: &mut Stream, frame: &[u8]) -> Result<(), NetError> {
    let write = async {
        frame::write(stream, frame).await?;
        stream.flush().await
    };
    Ok(timeout(limits::STALLED, write).await.map_err(|_| NetError::TimedOut)??)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn the_oldest_gives_way() {
        let queue = Queue::default();
        let frame = |n: u8| Bytes::from(vec![n; limits::GOSSIP_BYTES]);
        let room = limits::GOSSIP_QUEUE_BYTES / limits::GOSSIP_BYTES;
        let dropped: usize =
            (0..10).map(|n| queue.push(frame(n), limits::GOSSIP_QUEUE_BYTES)).sum();
        assert_eq!(dropped, 10 - room);
        queue.close();
        let mut left = Vec::new();
        while let Some(frame) = block_on(queue.pop()) {
            left.push(usize::from(frame[0]));
        }
        assert_eq!(left, (10 - room..10).collect::<Vec<_>>());
    }
}
