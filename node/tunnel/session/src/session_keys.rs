//! The keys of one session: what a finished handshake leaves, and how long it is good for. A
//! gateway gives a copy to each of its shards, which derives its own keys of it.

use std::fmt;

use zeroize::Zeroizing;

use crate::handshake::Established;
use crate::limits;
use crate::seal::{Opener, Sealer};
use crate::suite::Suite;

/// The keys of one session, to be given to each shard.
#[derive(Clone)]
pub struct SessionKeys {
    /// By which the peer reaches us; its low four bits are zero.
    pub(crate) own_index: u32,
    /// By which we reach the peer; its low four bits are zero.
    peer_index: u32,
    /// How many shards the peer seals with.
    pub(crate) peer_shards: u8,
    suite: Suite,
    send: Box<Zeroizing<[u8; 32]>>,
    receive: Box<Zeroizing<[u8; 32]>>,
    began_ms: u64,
}

impl SessionKeys {
    pub(crate) fn new(
        established: Established,
        own_index: u32,
        peer_index: u32,
        began_ms: u64,
    ) -> Self {
        let Established { send, receive, suite, peer_shards } = established;
        Self { own_index, peer_index, peer_shards, suite, send, receive, began_ms }
    }

    /// By which the peer reaches us.
    pub fn own_index(&self) -> u32 {
        self.own_index
    }

    /// What seals the packets.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Whether they may still be used.
    pub(crate) fn is_good(&self, mono_ms: u64) -> bool {
        mono_ms.saturating_sub(self.began_ms) < limits::REJECT_AFTER_MS
    }

    pub(crate) fn sealer(&self, shard: u8) -> Sealer {
        Sealer::new(&self.send, self.suite, self.peer_index | u32::from(shard), shard)
    }

    pub(crate) fn opener(&self, peer_shard: u8) -> Opener {
        Opener::new(&self.receive, self.suite, peer_shard)
    }
}

impl fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionKeys({:#x}, {:?})", self.own_index, self.suite)
    }
}

#[cfg(test)]
mod tests {
    use zeroize::ZeroizeOnDrop;

    use super::*;

    fn is_erased<T: ZeroizeOnDrop>(_: &T) -> bool {
        true
    }

    #[test]
    fn what_is_secret_is_erased() {
        let keys = Established {
            send: Box::new(Zeroizing::new([1; 32])),
            receive: Box::new(Zeroizing::new([2; 32])),
            suite: Suite::Aes256Gcm,
            peer_shards: 1,
        };
        let keys = SessionKeys::new(keys, 16, 32, 0);
        assert!(is_erased(&*keys.send) && is_erased(&*keys.receive));
        assert!(!format!("{keys:?}").contains("[1, 1"), "nor is it shown");
        let place = keys.send.as_ptr();
        let mut queue = std::collections::VecDeque::from([keys]);
        let keys = queue.pop_front().unwrap();
        assert_eq!(keys.send.as_ptr(), place, "nor is a copy left behind in a queue");
    }
}
