//! A set of neighbours, by their places.

use crate::limits;
use crate::table::Place;

const _: () = assert!(limits::NEIGHBOURS <= u128::BITS as usize, "a bit for each neighbour");

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peers(u128);

impl Peers {
    pub(crate) fn of(peer: Place) -> Self {
        Self(1 << peer)
    }

    /// A bit for each place.
    pub(crate) fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    pub(crate) fn has(self, peer: Place) -> bool {
        self.0 & (1 << peer) != 0
    }

    pub(crate) fn insert(&mut self, peer: Place) {
        self.0 |= 1 << peer;
    }

    pub(crate) fn remove(&mut self, peer: Place) {
        self.0 &= !(1 << peer);
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
    pub(crate) fn next_from(self, start: Place) -> Option<Place> {
        let turned = self.0.rotate_right(start);
        (turned != 0).then(|| (turned.trailing_zeros() + start) % u128::BITS)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Place> {
        let next = |rest: &u128| Some(*rest & rest.checked_sub(1)?).filter(|rest| *rest != 0);
        let rests = std::iter::successors(Some(self.0).filter(|all| *all != 0), next);
        rests.map(u128::trailing_zeros)
    }
}

impl FromIterator<Place> for Peers {
    fn from_iter<T: IntoIterator<Item = Place>>(places: T) -> Self {
        places.into_iter().fold(Self::default(), |all, place| all.with(Self::of(place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_a_set_and_in_a_round() {
        let mut peers = Peers::of(127);
        [3, 0, 64].into_iter().for_each(|peer| peers.insert(peer));
        assert_eq!(peers.iter().collect::<Vec<_>>(), [0, 3, 64, 127]);
        assert_eq!(Peers::default().iter().next(), None);
        assert_eq!([0, 1, 65, 127].map(|at| peers.next_from(at)), [0, 3, 127, 127].map(Some));
        peers.remove(127);
        assert_eq!(peers.next_from(65), Some(0));
        assert_eq!(peers.without(Peers::of(0)).next_from(65), Some(3));
        assert!(peers.has(64) && !peers.has(127));
        assert_eq!(Peers::default().next_from(5), None);
    }
}
