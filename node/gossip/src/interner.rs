//! A small number for each publisher's key, the same for all gossips of one process: whoever
//! holds something of ten thousand publishers finds it by number, side by side with its
//! neighbours, and looks keys up in a table that all share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mercato_protocol::id::PublicKey;

use crate::index::{Index as _, PublisherIndex};
use crate::table::{Keyed, Table};

/// Numbers for the publishers that any of the gossips that share this holds something of. A
/// number is used again once nobody does.
#[derive(Clone, Debug)]
pub struct Interner(Arc<Mutex<Keys>>);

/// The keys of publishers, by their numbers.
#[derive(Debug)]
pub(crate) struct Keys(Table<PublisherIndex, Interned>);

#[derive(Debug)]
struct Interned {
    key: PublicKey,
    /// How many users its number has.
    users: u32,
}

impl Keyed for Interned {
    fn key(&self) -> &PublicKey {
        &self.key
    }
}

impl Interner {
    /// An empty one. The seed keeps whoever chooses keys from choosing where they fall.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Keys(Table::new(seed)))))
    }

    /// Locks the keys, for as long as one input takes. No step leaves them half done.
    pub(crate) fn keys(&self) -> MutexGuard<'_, Keys> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keys {
    /// How many publishers have a number.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The number of `key`, if anybody uses it.
    pub(crate) fn find(&self, key: &PublicKey) -> Option<PublisherIndex> {
        self.0.find(key)
    }

    /// The numbers of all these keys.
    pub(crate) fn find_each<'a>(
        &self,
        keys: impl Iterator<Item = &'a PublicKey>,
    ) -> Vec<Option<PublisherIndex>> {
        keys.map(|key| self.find(key)).collect()
    }

    /// The key of the publisher with this number.
    pub(crate) fn key(&self, publisher: PublisherIndex) -> Option<PublicKey> {
        self.0.get(publisher).map(|interned| interned.key)
    }

    /// One user more of the number of `key`, which is `at` if it has one.
    pub(crate) fn hold(&mut self, key: PublicKey, at: Option<PublisherIndex>) -> PublisherIndex {
        let publisher = at.unwrap_or_else(|| self.0.insert(Interned { key, users: 0 }));
        if let Some(interned) = self.0.get_mut(publisher) {
            interned.users += 1;
        }
        publisher
    }

    /// One user less of this number; the last frees it.
    pub(crate) fn release(&mut self, publisher: PublisherIndex) {
        let Some(interned) = self.0.get_mut(publisher) else { return };
        interned.users -= 1;
        if interned.users == 0 {
            self.0.remove(publisher);
        }
    }
}

/// A set of keys, as their numbers.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// A bit for each publisher.
    bits: Vec<u64>,
}

impl Numbers {
    pub(crate) fn has(&self, publisher: PublisherIndex) -> bool {
        let (word, bit) = Self::split(publisher);
        self.bits.get(word).is_some_and(|word| word & bit != 0)
    }

    pub(crate) fn insert(&mut self, keys: &mut Keys, key: PublicKey) {
        let publisher = keys.hold(key, keys.find(&key));
        if self.has(publisher) {
            return keys.release(publisher);
        }
        let (word, bit) = Self::split(publisher);
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= bit;
    }

    pub(crate) fn clear(&mut self, keys: &mut Keys) {
        for (at, word) in (0..).zip(std::mem::take(&mut self.bits)) {
            let set = (0..u64::BITS).filter(|bit| word & (1 << bit) != 0);
            set.for_each(|bit| keys.release(PublisherIndex(at * u64::BITS + bit)));
        }
    }

    fn split(publisher: PublisherIndex) -> (usize, u64) {
        (publisher.position() / u64::BITS as usize, 1 << (publisher.0 % u64::BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_once_nobody_uses_it() {
        let (one, other) = (PublicKey([1; 32]), PublicKey([2; 32]));
        let mut keys = Keys(Table::new(7));
        let at = PublisherIndex;
        assert_eq!((keys.hold(one, None), keys.hold(other, None)), (at(0), at(1)));
        assert_eq!(keys.hold(one, keys.find(&one)), at(0));
        assert_eq!((keys.find(&other), keys.find(&one)), (Some(at(1)), Some(at(0))));
        keys.release(at(0));
        assert_eq!(keys.find(&one), Some(at(0)));
        keys.release(at(0));
        assert_eq!(keys.find(&one), None);
        assert_eq!((keys.hold(PublicKey([3; 32]), None), keys.len()), (at(0), 2));
    }

    #[test]
    fn a_set_holds_what_is_in_it_once() {
        let (mut keys, mut set) = (Keys(Table::new(7)), Numbers::default());
        let some = |n| PublicKey([n; 32]);
        (0..100).chain(0..100).for_each(|n| set.insert(&mut keys, some(n)));
        let has = |set: &Numbers, n| set.has(PublisherIndex(n));
        assert!((0..100).all(|n| has(&set, n)) && !has(&set, 100));
        set.clear(&mut keys);
        assert!((0..=100).all(|n| !has(&set, n)));
        assert_eq!(keys.len(), 0);
    }
}
