//! Gossip with one neighbour: the bounded queue of what goes there, its writer, and the turns of
//! what comes. What gets lost here, gossip itself repairs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::AsyncWriteExt as _;
use libp2p::Stream;
use mercato_protocol::id::PublicKey;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
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
    /// How many older frames gave way.
    pub(crate) fn push(&self, frame: Bytes) -> usize {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = 0;
        while waiting.bytes + frame.len() > limits::GOSSIP_QUEUE_BYTES
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

/// Of what one peer may have under way: no more of its gossip comes than is let go of.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

impl Turn {
    /// Waits until so many bytes more may be dealt with.
    pub(crate) async fn take(turns: &Arc<Semaphore>, bytes: usize) -> Result<Self, NetError> {
        let turns_taken = bytes.div_ceil(1_024).clamp(1, limits::TURNS) as u32;
        let turn = turns.clone().acquire_many_owned(turns_taken).await;
        Ok(Self(turn.map_err(|_| NetError::Stopped)?))
    }
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
        let dropped: usize = (0..10).map(|n| queue.push(frame(n))).sum();
        assert_eq!(dropped, 10 - room);
        queue.close();
        let mut left = Vec::new();
        while let Some(frame) = block_on(queue.pop()) {
            left.push(usize::from(frame[0]));
        }
        assert_eq!(left, (10 - room..10).collect::<Vec<_>>());
    }
}
