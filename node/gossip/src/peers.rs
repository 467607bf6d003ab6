//! A set of neighbours, by their numbers.

use crate::index::NeighbourIndex;
use crate::limits;

const _: () = assert!(limits::NEIGHBOURS <= u128::BITS as usize, "a bit for each neighbour");

/// A bit for each neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peers(u128);

impl Peers {
    pub(crate) fn of(peer: NeighbourIndex) -> Self {
        Self(1 << peer.0)
    }

    /// Of a bit for each number.
    pub(crate) fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    pub(crate) fn has(self, peer: NeighbourIndex) -> bool {
        self.0 & (1 << peer.0) != 0
    }

    pub(crate) fn insert(&mut self, peer: NeighbourIndex) {
        self.0 |= 1 << peer.0;
    }

    pub(crate) fn remove(&mut self, peer: NeighbourIndex) {
        self.0 &= !(1 << peer.0);
    }

    pub(crate) fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(crate) fn within(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// The one at `start`, or the next after it, all around.
    pub(crate) fn next_from(self, start: NeighbourIndex) -> Option<NeighbourIndex> {
        let turned = self.0.rotate_right(start.0);
        let next = || (turned.trailing_zeros() + start.0) % u128::BITS;
        (turned != 0).then(|| NeighbourIndex(next()))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = NeighbourIndex> {
        let next = |rest: &u128| Some(*rest & rest.checked_sub(1)?).filter(|rest| *rest != 0);
        let rests = std::iter::successors(Some(self.0).filter(|all| *all != 0), next);
        rests.map(|rest| NeighbourIndex(rest.trailing_zeros()))
    }
}

impl FromIterator<NeighbourIndex> for Peers {
    fn from_iter<T: IntoIterator<Item = NeighbourIndex>>(peers: T) -> Self {
        peers.into_iter().fold(Self::default(), |all, peer| all.with(Self::of(peer)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_a_set_and_in_a_round() {
        let at = NeighbourIndex;
        let mut peers = Peers::of(at(127));
        [3, 0, 64].into_iter().for_each(|peer| peers.insert(at(peer)));
        assert_eq!(peers.iter().collect::<Vec<_>>(), [0, 3, 64, 127].map(at));
        assert_eq!(Peers::default().iter().next(), None);
        let next = |start| peers.next_from(at(start)).map(|peer| peer.0);
        assert_eq!([0, 1, 65, 127].map(next), [0, 3, 127, 127].map(Some));
        peers.remove(at(127));
        assert_eq!(peers.next_from(at(65)), Some(at(0)));
        assert_eq!(peers.without(Peers::of(at(0))).next_from(at(65)), Some(at(3)));
        assert!(peers.has(at(64)) && !peers.has(at(127)));
        assert_eq!(Peers::default().next_from(at(5)), None);
    }
}
