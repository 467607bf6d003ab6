//! What peers make us hold: the bytes of what they said, from before it is read until it is dealt
//! with. Each peer has a share, over all its connections and streams and also for a while after
//! it has gone; all strangers together have no more than another. What began over a connection
//! ends with it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mercato_protocol::bounded::{Bounded, Rank};
use mercato_protocol::id::PublicKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::error::NetError;
use crate::limits;
use crate::ranks::Ranks;

/// What peers say is counted apart by kind: a flood of gossip keeps no request waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Gossip,
    /// Requests, and what opens streams of leases.
    Words,
}

/// The shares of all peers that said something lately.
pub(crate) struct Shares {
    /// How long one waits for a body of gossip for which there is room.
    pub(crate) body_timeout: Duration,
    ranks: Ranks,
    table: Mutex<Bounded<PublicKey, Arc<Share>>>,
    strangers: Arc<Room>,
}

/// What one peer may make us hold.
pub(crate) struct Share {
    own: Room,
    /// What it has in common with others like it.
    strangers: Option<Arc<Room>>,
}

/// So much may be held at a time, in KiB.
struct Room {
    gossip: Part,
    words: Part,
}

struct Part {
    all: usize,
    left: Arc<Semaphore>,
}

impl Part {
    fn new(bytes: usize) -> Self {
        let all = bytes / 1_024;
        Self { all, left: Arc::new(Semaphore::new(all)) }
    }

    /// Waits for so much, each piece rounded up; what is larger takes all there is.
    async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, NetError> {
        let taken = bytes.div_ceil(1_024).clamp(1, self.all);
        let taken = u32::try_from(taken).unwrap_or(u32::MAX);
        // Where there is room, the reader goes on at once: a semaphore that is waited for has it
        // pause from time to time, and what was said last be heard after the end.
        if let Ok(taken) = Arc::clone(&self.left).try_acquire_many_owned(taken) {
            return Ok(taken);
        }
        let taken = Arc::clone(&self.left).acquire_many_owned(taken).await;
        taken.map_err(|_| NetError::Stopped)
    }
}

impl Room {
    fn new(gossip: usize, words: usize) -> Self {
        Self { gossip: Part::new(gossip), words: Part::new(words) }
    }

    fn part(&self, kind: Kind) -> &Part {
        match kind {
            Kind::Gossip => &self.gossip,
            Kind::Words => &self.words,
        }
    }
}

impl Shares {
    pub(crate) fn new(ranks: Ranks, body_timeout: Duration) -> Self {
        let strangers = Room::new(limits::GOSSIP_OF_STRANGERS, limits::WORDS_OF_STRANGERS);
        let table = Mutex::new(Bounded::new(limits::HOLDERS));
        Self { body_timeout, ranks, table, strangers: Arc::new(strangers) }
    }

    /// That of this peer; none, if there is no place for one more.
    pub(crate) fn of(&self, peer: PublicKey) -> Option<Arc<Share>> {
        let is_stranger = self.ranks.of(&peer) <= Rank::Stranger;
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = table.get(&peer).filter(|it| it.strangers.is_some() == is_stranger) {
            return Some(Arc::clone(share));
        }
        let share = Arc::new(match is_stranger {
            true => Share {
                own: Room::new(limits::GOSSIP_OF_STRANGER, limits::WORDS_OF_STRANGER),
                strangers: Some(Arc::clone(&self.strangers)),
            },
            false => Share {
                own: Room::new(limits::GOSSIP_OF_KNOWN, limits::WORDS_OF_KNOWN),
                strangers: None,
            },
        });
        // Whoever holds something, or may at any moment, has it counted.
        let rank = |_: &PublicKey, share: &Arc<Share>| match Arc::strong_count(share) > 1 {
            true => Rank::Kept,
            false => Rank::Over,
        };
        table.put(peer, Arc::clone(&share), rank).ok()?;
        Some(share)
    }
}

impl Share {
    /// All that the peer may make us hold of a kind at a time, in bytes.
    pub(crate) fn most(&self, kind: Kind) -> usize {
        self.own.part(kind).all * 1_024
    }

    /// Waits until so much more of the peer may be held: for its own, then for others'.
    pub(crate) async fn take(
        self: &Arc<Self>,
        kind: Kind,
        bytes: usize,
    ) -> Result<Taken, NetError> {
        let mut taken = vec![self.own.part(kind).take(bytes).await?];
        if let Some(strangers) = &self.strangers {
            taken.push(strangers.part(kind).take(bytes).await?);
        }
        Ok(Taken { _taken: taken, _share: Arc::clone(self) })
    }
}

/// Counts as long as it lives.
#[derive(Debug)]
pub(crate) struct Taken {
    _taken: Vec<OwnedSemaphorePermit>,
    /// It is not forgotten meanwhile.
    _share: Arc<Share>,
}

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Share").field("is_stranger", &self.strangers.is_some()).finish()
    }
}

/// The room of something that a peer said. While it is kept, the peer can say so much less.
#[derive(Debug)]
pub struct Held {
    _taken: Arc<Taken>,
    connection: Connection,
}

impl Held {
    pub(crate) fn new(taken: Arc<Taken>, connection: Connection) -> Self {
        Self { _taken: taken, connection }
    }

    /// Over which it was said.
    pub fn connection(&self) -> Connection {
        self.connection.clone()
    }
}

/// A connection with a peer, for what hangs on it.
#[derive(Clone, Debug)]
pub struct Connection(CancellationToken);

impl Connection {
    /// Does this; nothing, once the connection is over. What was said just before its end, as by
    /// one who stops, is heard: it has a moment more.
    pub async fn during<T>(self, work: impl Future<Output = T>) -> Option<T> {
        let over = async {
            self.0.cancelled().await;
            tokio::time::sleep(limits::LAST_WORDS).await;
        };
        tokio::select! {
            done = work => Some(done),
            () = over => None,
        }
    }
}

/// That of a connection: with it ends what began over it.
#[derive(Debug, Default)]
pub(crate) struct Life(CancellationToken);

impl Life {
    pub(crate) fn connection(&self) -> Connection {
        Connection(self.0.clone())
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn key(n: usize) -> PublicKey {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&n.to_be_bytes());
        PublicKey(key)
    }

    fn shares(ranks: Ranks) -> Shares {
        Shares::new(ranks, limits::STALLED)
    }

    /// What is taken of a share until there is no more.
    fn fill(share: &Arc<Share>, kind: Kind, bytes: usize) -> Vec<Taken> {
        let more = || share.take(kind, bytes).now_or_never();
        std::iter::from_fn(more).map(Result::unwrap).collect()
    }

    #[test]
    fn a_peer_has_one_share_however_often_it_comes() {
        let shares = shares(Ranks::default());
        let held = fill(&shares.of(key(1)).unwrap(), Kind::Gossip, 64 << 10);
        assert_eq!(held.len() * (64 << 10), limits::GOSSIP_OF_STRANGER);
        // Others come and go; it is counted as long as anything of its is held.
        for n in 2..3 * limits::HOLDERS.all {
            assert!(shares.of(key(n)).is_some());
        }
        let again = shares.of(key(1)).unwrap();
        assert!(again.take(Kind::Gossip, 1).now_or_never().is_none());
        assert!(again.take(Kind::Words, 1).now_or_never().is_some(), "requests do not wait");
        drop(held);
        assert!(again.take(Kind::Gossip, limits::GOSSIP_BYTES).now_or_never().is_some());
    }

    #[test]
    fn strangers_hold_no_more_together_and_nobody_waits_for_them() {
        let ranks = Ranks::default();
        let shares = shares(ranks.clone());
        for (kind, most) in
            [(Kind::Gossip, limits::GOSSIP_OF_STRANGERS), (Kind::Words, limits::WORDS_OF_STRANGERS)]
        {
            let of_one = |n| fill(&shares.of(key(n)).unwrap(), kind, 32 << 10);
            let held: Vec<Taken> = (0..1_000).flat_map(of_one).collect();
            assert_eq!(held.len() * (32 << 10), most);
            ranks.add(key(5_000), Rank::Member);
            let known = shares.of(key(5_000)).unwrap();
            assert!(known.take(kind, limits::GOSSIP_BYTES).now_or_never().is_some());
        }
        // Whom the owner trusts from now on does not wait with the strangers any more.
        let held = fill(&shares.of(key(1)).unwrap(), Kind::Gossip, limits::GOSSIP_BYTES);
        ranks.add(key(1), Rank::Partner);
        let trusted = shares.of(key(1)).unwrap();
        assert!(trusted.take(Kind::Gossip, limits::GOSSIP_BYTES).now_or_never().is_some());
        drop(held);
    }

    #[test]
    fn what_is_larger_than_a_share_takes_all_of_it() {
        let share = shares(Ranks::default()).of(key(1)).unwrap();
        let held = share.take(Kind::Words, usize::MAX).now_or_never().unwrap();
        assert!(share.take(Kind::Words, 0).now_or_never().is_none());
        drop(held);
    }

    #[tokio::test]
    async fn what_hangs_on_a_connection_ends_with_it() {
        let life = Life::default();
        let (one, other) = (life.connection(), life.connection());
        assert_eq!(one.clone().during(async { 1 }).await, Some(1));
        let waits = tokio::spawn(one.during(std::future::pending::<()>()));
        drop(life);
        assert_eq!(waits.await.unwrap(), None);
        assert_eq!(other.during(std::future::pending::<()>()).await, None);
    }
}
