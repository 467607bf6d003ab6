//! Datagrams of handshakes that wait until they are looked at. Anybody can send any number of
//! them, and to look at one may cost as much as a hundred packets; so few wait, and those that come
//! from where peers are known to be have places of their own.

use std::collections::VecDeque;

use crate::limits;
use crate::via::Via;

type Waiting = VecDeque<(Via, Vec<u8>)>;

/// Datagrams of handshakes that wait.
#[derive(Default)]
pub(super) struct Handshakes {
    of_known: Waiting,
    of_others: Waiting,
    /// Whose turn it is next.
    is_turn_of_others: bool,
}

impl Handshakes {
    /// Lets one wait. It is lost if too many do already: says whether it is not.
    pub(super) fn push(&mut self, via: Via, datagram: &[u8], is_known: bool) -> bool {
        let waiting = if is_known { &mut self.of_known } else { &mut self.of_others };
        let has_room = waiting.len() < limits::HANDSHAKES;
        if has_room {
            waiting.push_back((via, datagram.to_vec()));
        }
        has_room
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of_known.is_empty() && self.of_others.is_empty()
    }

    /// The next one: one from where a peer is known to be, then one of others.
    pub(super) fn pop(&mut self) -> Option<(Via, Vec<u8>)> {
        let mut both = [&mut self.of_known, &mut self.of_others];
        if self.is_turn_of_others {
            both.reverse();
        }
        self.is_turn_of_others = !self.is_turn_of_others;
        both.into_iter().find_map(VecDeque::pop_front)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn a_flood_of_strangers_leaves_every_second_place_to_others() {
        let mut handshakes = Handshakes::default();
        let via = |port| Via::from(SocketAddr::from(([192, 0, 2, 1], port)));
        for port in 0..10_000 {
            let waits = handshakes.push(via(port), &[0], false);
            assert_eq!(waits, usize::from(port) < limits::HANDSHAKES);
        }
        for port in 1..4 {
            assert!(handshakes.push(via(port), &[1], true));
        }
        let first: Vec<_> = (0..6).filter_map(|_| Some(handshakes.pop()?.1[0])).collect();
        assert_eq!(first, [1, 0, 1, 0, 1, 0]);
        let rest = std::iter::from_fn(|| handshakes.pop()).count();
        assert_eq!(rest + 3, limits::HANDSHAKES);
        assert!(handshakes.is_empty());
    }
}
