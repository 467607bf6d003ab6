//! How much of what peers say is dealt with, each peer for itself: one that says too much is
//! slowed down, and waits alone; one that goes on all the same is hung up on. Signatures of
//! strangers are checked by other permits than those of peers who are known. Nobody waits for a
//! permit but the task of that one message.

use std::sync::Arc;
use std::time::Instant;

use mercato_kubelet::{Bucket, TooMuch};
use mercato_protocol::bounded::{Bounded, Rank};
use mercato_protocol::id::PublicKey;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::limits;

/// Of all peers that say something, also for a while after they have gone: to connect anew wins
/// nothing.
pub(in crate::driver) struct Inbound {
    peers: Bounded<PublicKey, Arc<Limits>>,
    strangers: Arc<Permits>,
    known: Arc<Permits>,
}

/// What one peer may say at a time.
pub(in crate::driver) struct Limits {
    bytes: Bucket,
    /// One gossip frame of its is dealt with at a time.
    frames: Semaphore,
    requests: Bucket,
    /// Messages of its whose signatures are checked, or wait for that with others'.
    words: Semaphore,
    permits: Arc<Permits>,
    is_known: bool,
}

/// What strangers share, or those who are known.
struct Permits {
    open: Semaphore,
    early: Semaphore,
}

impl Permits {
    fn new(open: usize) -> Arc<Self> {
        let early = Semaphore::new(limits::EARLY);
        Arc::new(Self { open: Semaphore::new(open), early })
    }
}

impl Inbound {
    pub(in crate::driver) fn new() -> Self {
        Self {
            peers: Bounded::new(limits::SPEAKERS),
            strangers: Permits::new(limits::STRANGERS_OPENERS),
            known: Permits::new(limits::OPENERS),
        }
    }

    /// What this peer, which is worth so much, may say.
    pub(in crate::driver) fn of(&mut self, peer: PublicKey, rank: Rank) -> Arc<Limits> {
        let is_known = rank > Rank::Stranger;
        if let Some(limits) = self.peers.get(&peer).filter(|limits| limits.is_known == is_known) {
            return Arc::clone(limits);
        }
        let permits = if is_known { &self.known } else { &self.strangers };
        let new = Arc::new(Limits::new(Instant::now(), is_known, Arc::clone(permits)));
        let rank = |_: &PublicKey, of: &Arc<Limits>| match of.is_known {
            true => Rank::Partner,
            false => Rank::Stranger,
        };
        // One that finds no room begins anew each time.
        let _ = self.peers.put(peer, Arc::clone(&new), rank);
        new
    }
}

impl Limits {
    fn new(now: Instant, is_known: bool, permits: Arc<Permits>) -> Self {
        let (bytes, requests) = match is_known {
            true => (limits::GOSSIP_OF_KNOWN, limits::REQUESTS_OF_KNOWN),
            false => (limits::GOSSIP_OF_STRANGER, limits::REQUESTS_OF_STRANGER),
        };
        Self {
            bytes: Bucket::new(now, bytes.0, bytes.1),
            frames: Semaphore::new(1),
            requests: Bucket::new(now, requests.0, requests.1),
            words: Semaphore::new(limits::WORDS),
            permits,
            is_known,
        }
    }

    /// Waits until a gossip frame of this size may be dealt with; holds what keeps the peer's next
    /// waiting, in the order in which they came.
    pub(in crate::driver) async fn gossip(
        &self,
        bytes: usize,
    ) -> Result<SemaphorePermit<'_>, TooMuch> {
        // It is never closed.
        let frame = self.frames.acquire().await.map_err(|_| TooMuch)?;
        let wait = self.bytes.take(Instant::now(), bytes as u64, limits::DEBT)?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(frame)
    }

    /// Waits until a request may be dealt with.
    pub(in crate::driver) async fn request(&self) -> Result<(), TooMuch> {
        let wait = self.requests.take(Instant::now(), 1, limits::DEBT)?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    /// Waits until signatures may be checked: first for the peer's own turn, then for that of all
    /// who are alike.
    pub(in crate::driver) async fn open(
        &self,
    ) -> Option<(SemaphorePermit<'_>, SemaphorePermit<'_>)> {
        let own = self.words.acquire().await.ok()?;
        Some((own, self.permits.open.acquire().await.ok()?))
    }

    /// Whether what came before its peer's hello may wait.
    pub(in crate::driver) fn early(&self) -> Option<SemaphorePermit<'_>> {
        self.permits.early.try_acquire().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    fn key(n: u64) -> PublicKey {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&n.to_be_bytes());
        PublicKey(key)
    }

    #[test]
    fn strangers_wait_for_each_other_and_nobody_for_them() {
        let mut inbound = Inbound::new();
        let crowd: Vec<_> = (0..1_000).map(|n| inbound.of(key(n), Rank::Stranger)).collect();
        let mut held = Vec::new();
        for one in &crowd {
            held.extend(one.open().now_or_never().flatten());
        }
        assert_eq!(held.len(), limits::STRANGERS_OPENERS);
        let partner = inbound.of(key(5_000), Rank::Partner);
        assert!(partner.open().now_or_never().flatten().is_some());
        // Whom the owner trusts from now on does not wait with the strangers any more.
        let trusted = inbound.of(key(1), Rank::Partner);
        assert!(trusted.open().now_or_never().flatten().is_some());
    }

    #[test]
    fn who_comes_back_has_not_won_anything() {
        let mut inbound = Inbound::new();
        let (bytes, each_s) = limits::GOSSIP_OF_STRANGER;
        let one = inbound.of(key(1), Rank::Stranger);
        let now = Instant::now();
        let take = |limits: &Limits, bytes| limits.bytes.take(now, bytes, limits::DEBT);
        assert_eq!(take(&one, bytes), Ok(Duration::ZERO));
        let again = inbound.of(key(1), Rank::Stranger);
        assert!(take(&again, each_s).unwrap() > Duration::from_millis(900));
        // A flood of others does not make it forgotten at once, nor ever one who is known.
        let partner = inbound.of(key(2), Rank::Partner);
        assert!((3..1_000).all(|n| !inbound.of(key(n), Rank::Stranger).is_known));
        let still = inbound.of(key(1), Rank::Stranger);
        assert!(take(&still, 1).unwrap() > Duration::from_millis(900));
        let flood = limits::SPEAKERS.all as u64 * 2;
        (3..flood).for_each(|n| drop(inbound.of(key(n), Rank::Stranger)));
        assert!(Arc::ptr_eq(&partner, &inbound.of(key(2), Rank::Partner)));
    }

    #[tokio::test]
    async fn requests_of_one_peer_wait_alone() {
        let mut inbound = Inbound::new();
        let one = inbound.of(key(1), Rank::Stranger);
        for _ in 0..limits::REQUESTS_OF_STRANGER.0 {
            assert!(one.request().now_or_never().is_some(), "at once");
        }
        assert!(one.request().now_or_never().is_none(), "it waits");
        let other = inbound.of(key(2), Rank::Stranger);
        assert!(other.request().now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_does_not_wait_is_hung_up_on() {
        let mut inbound = Inbound::new();
        let one = inbound.of(key(1), Rank::Stranger);
        // Each of these waits has ended with its connection, and is owed all the same.
        let request = || one.request().now_or_never() == Some(Err(TooMuch));
        let (at_once, each_s) = limits::REQUESTS_OF_STRANGER;
        let owed = at_once + each_s * limits::DEBT.as_secs();
        let taken = (0..2 * owed).take_while(|_| !request()).count() as u64;
        assert!((owed..owed + 2).contains(&taken), "{taken}");
        let (at_once, each_s) = limits::GOSSIP_OF_STRANGER;
        let owed = at_once + each_s * limits::DEBT.as_secs();
        let frame = owed as usize / 100;
        let gossip = || one.gossip(frame).now_or_never().is_some_and(|taken| taken.is_err());
        let taken = (0..200).take_while(|_| !gossip()).count();
        assert!((100..102).contains(&taken), "{taken}");
    }
}
