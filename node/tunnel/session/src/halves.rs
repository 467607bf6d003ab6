//! Packets that came in two datagrams, put together again. The halves of one packet are sealed one
//! after the other with one key, so their counters tell which belong together; counters are never
//! used twice, so no half meets another's.

use std::collections::VecDeque;

use crate::control::HalfKind;
use crate::limits;

/// Halves that wait for the other half, of one session.
#[derive(Debug, Default)]
pub(crate) struct Halves {
    waiting: VecDeque<Half>,
}

#[derive(Debug)]
struct Half {
    /// The peer's shard, and the first half's counter.
    place: (u8, u64),
    kind: HalfKind,
    bytes: Vec<u8>,
}

impl Halves {
    /// Takes a half that was sealed by this shard of the peer with this counter. Gives the packet
    /// if its other half was here.
    pub(crate) fn join(
        &mut self,
        shard: u8,
        counter: u64,
        kind: HalfKind,
        bytes: &[u8],
    ) -> Option<Vec<u8>> {
        let first = match kind {
            HalfKind::First => counter,
            HalfKind::Second => counter.checked_sub(1)?,
        };
        if bytes.len() > limits::MOST_OUTER_BYTES {
            return None;
        }
        let place = (shard, first);
        let other = self.waiting.iter().position(|half| half.place == place && half.kind != kind);
        let Some(other) = other.and_then(|nth| self.waiting.remove(nth)) else {
            if self.waiting.len() == limits::HALVES {
                self.waiting.pop_front();
            }
            self.waiting.push_back(Half { place, kind, bytes: bytes.to_vec() });
            return None;
        };
        let packet = match kind {
            HalfKind::First => [bytes, &other.bytes].concat(),
            HalfKind::Second => [&other.bytes, bytes].concat(),
        };
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::HalfKind::{First, Second};
    use super::*;

    #[test]
    fn halves_meet_in_either_order_and_no_others() {
        let mut halves = Halves::default();
        assert_eq!(halves.join(0, 5, First, b"he"), None);
        assert_eq!(halves.join(0, 8, Second, b"worlds"), None);
        assert_eq!(halves.join(1, 6, Second, b"other shard"), None);
        assert_eq!(halves.join(0, 6, First, b"another"), None);
        assert_eq!(halves.join(0, 6, Second, b"llo"), Some(b"hello".to_vec()));
        assert_eq!(halves.join(0, 7, First, b"two "), Some(b"two worlds".to_vec()));
        assert_eq!(halves.join(0, 0, Second, b"of nothing"), None);
    }

    #[test]
    fn one_that_no_link_carries_does_not_wait() {
        let mut halves = Halves::default();
        assert_eq!(halves.join(0, 5, First, &[0; limits::MOST_OUTER_BYTES + 1]), None);
        assert!(halves.waiting.is_empty());
    }

    #[test]
    fn those_that_wait_are_few() {
        let mut halves = Halves::default();
        for counter in 0..1_000 {
            assert_eq!(halves.join(0, 2 * counter, First, b"lost"), None);
        }
        assert_eq!(halves.waiting.len(), limits::HALVES);
        assert_eq!(halves.join(0, 1_999, Second, b""), Some(b"lost".to_vec()));
        assert_eq!(halves.join(0, 1, Second, b""), None, "it waited too long");
    }
}
