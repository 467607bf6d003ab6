//! Hash tables with a key that nobody else knows, so that a peer cannot choose addresses that
//! collide.

use std::hash::BuildHasher;

use hashbrown::HashMap;
use siphasher::sip::SipHasher13;

/// A hash table with such a key.
pub(super) type Table<K, V> = HashMap<K, V, Keyed>;

/// The key of a hash table.
#[derive(Clone, Copy)]
pub(super) struct Keyed(u64, u64);

impl Keyed {
    /// The key of 16 random bytes.
    pub(super) fn new(seed: [u8; 16]) -> Self {
        let [one, other] = [0, 8].map(|at| {
            u64::from_le_bytes(*seed[at..].first_chunk().expect("16 bytes are two numbers"))
        });
        Self(one, other)
    }
}

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}
