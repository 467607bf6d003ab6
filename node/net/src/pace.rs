//! How often one key may connect to us: each time it is told again what it has not answered.

use std::collections::BTreeMap;
use std::time::Instant;

use mercato_protocol::id::PublicKey;

use crate::limits;

/// When each key that connected lately has used up none of its connections any more. Keys are
/// free: whoever takes another has nothing to be told.
#[derive(Debug, Default)]
pub(crate) struct Pace(BTreeMap<PublicKey, Instant>);

impl Pace {
    /// Whether one more connection of this key is taken.
    pub(crate) fn admits(&mut self, key: PublicKey, now: Instant) -> bool {
        self.0.retain(|_, rested| *rested > now);
        if self.0.len() >= limits::PACED && !self.0.contains_key(&key) {
            // The one that rests first has the least to gain.
            let first = self.0.iter().min_by_key(|(_, rested)| **rested).map(|(key, _)| *key);
            first.and_then(|first| self.0.remove(&first));
        }
        let rested = self.0.get(&key).copied().unwrap_or(now) + limits::CONNECT_EACH;
        if rested > now + limits::CONNECT_EACH * limits::CONNECTS {
            return false;
        }
        self.0.insert(key, rested);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u16) -> PublicKey {
        let mut key = [0; 32];
        key[..2].copy_from_slice(&n.to_be_bytes());
        PublicKey(key)
    }

    #[test]
    fn a_few_at_once_and_then_one_at_a_time() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let taken = (0..100).filter(|_| pace.admits(key(1), now)).count();
        assert_eq!(taken, limits::CONNECTS as usize);
        assert!(pace.admits(key(2), now), "another is not meant");
        let later = now + limits::CONNECT_EACH;
        assert!(pace.admits(key(1), later) && !pace.admits(key(1), later));
    }

    #[test]
    fn many_keys_take_no_more_room() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        assert!((0..limits::CONNECTS).all(|_| pace.admits(key(0), now)));
        for n in 1..=2 * limits::PACED as u16 {
            assert!(pace.admits(key(n), now));
        }
        assert_eq!(pace.0.len(), limits::PACED);
        assert!(!pace.admits(key(0), now), "it is remembered longest");
    }
}
