//! For each place in the store a set of neighbours, by their places: a bit for each, those of
//! one publication side by side.

use crate::peers::Peers;
use crate::table::Place;

#[derive(Debug, Default)]
pub(crate) struct BitMatrix {
    /// Bytes for each publication.
    width: usize,
    rows: Vec<u8>,
    /// So many are expected.
    places: usize,
}

impl BitMatrix {
    pub(crate) fn has(&self, place: Place, peer: Place) -> bool {
        let (byte, bit) = split(peer);
        self.row(place).get(byte).is_some_and(|byte| byte & bit != 0)
    }

    pub(crate) fn set(&mut self, place: Place, peer: Place) {
        let (byte, bit) = split(peer);
        if byte >= self.width {
            self.widen(byte + 1);
        }
        let start = place as usize * self.width;
        if self.rows.len() <= start {
            let longer = start + self.width;
            if self.rows.capacity() < longer {
                let room = (longer + longer / 8 + 64).max(self.places * self.width);
                self.rows.reserve_exact(room - self.rows.len());
            }
            self.rows.resize(longer, 0);
        }
        self.rows[start + byte] |= bit;
    }

    pub(crate) fn clear(&mut self, place: Place, peer: Place) {
        let (byte, bit) = split(peer);
        let start = place as usize * self.width;
        if byte < self.width && start < self.rows.len() {
            self.rows[start + byte] &= !bit;
        }
    }

    /// There is room for so many in the store.
    pub(crate) fn expect(&mut self, places: usize) {
        self.places = places;
    }

    /// See [`Gossip::read_ahead`](crate::gossip::Gossip::read_ahead).
    pub(crate) fn peek(&self, place: Place) -> usize {
        self.rows.get(place as usize * self.width).map_or(0, |byte| usize::from(*byte))
    }

    /// Who has it.
    pub(crate) fn peers(&self, place: Place) -> Peers {
        let mut bits = [0; size_of::<u128>()];
        let row = self.row(place);
        bits[..row.len()].copy_from_slice(row);
        Peers::from_bits(u128::from_le_bytes(bits))
    }

    /// Whether anybody has it.
    pub(crate) fn any(&self, place: Place) -> bool {
        self.row(place).iter().any(|byte| *byte != 0)
    }

    /// Nobody has it any more.
    pub(crate) fn clear_place(&mut self, place: Place) {
        let start = place as usize * self.width;
        if start < self.rows.len() {
            self.rows[start..start + self.width].fill(0);
        }
    }

    /// It has nothing any more.
    pub(crate) fn clear_peer(&mut self, peer: Place) {
        let (byte, bit) = split(peer);
        if byte < self.width {
            self.rows.iter_mut().skip(byte).step_by(self.width).for_each(|row| *row &= !bit);
        }
    }

    fn row(&self, place: Place) -> &[u8] {
        let start = place as usize * self.width;
        self.rows.get(start..start + self.width).unwrap_or_default()
    }

    fn widen(&mut self, width: usize) {
        let places = self.rows.len().checked_div(self.width).unwrap_or(0);
        let mut rows = Vec::with_capacity(places.max(self.places) * width);
        for place in 0..places {
            rows.extend_from_slice(&self.rows[place * self.width..][..self.width]);
            rows.resize((place + 1) * width, 0);
        }
        (self.rows, self.width) = (rows, width);
    }
}

fn split(peer: Place) -> (usize, u8) {
    (peer as usize / 8, 1 << (peer % 8))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set_of_pairs(
            steps in prop::collection::vec((0_u32..40, 0_u32..20, 0..8), 0..200),
        ) {
            let (mut grid, mut model) = (BitMatrix::default(), BTreeSet::new());
            for (place, peer, kind) in steps {
                match kind {
                    0 => {
                        grid.clear_place(place);
                        model.retain(|(other, _)| *other != place);
                    }
                    1 => {
                        grid.clear_peer(peer);
                        model.retain(|(_, other)| *other != peer);
                    }
                    2 => {
                        grid.clear(place, peer);
                        model.remove(&(place, peer));
                    }
                    _ => {
                        grid.set(place, peer);
                        model.insert((place, peer));
                    }
                }
                let all = (0..50).flat_map(|place| (0..30).map(move |peer| (place, peer)));
                let held: BTreeSet<_> = all.filter(|(place, peer)| grid.has(*place, *peer)).collect();
                prop_assert_eq!(&held, &model);
                for place in 0..50 {
                    let any = model.iter().any(|(other, _)| *other == place);
                    prop_assert_eq!(grid.any(place), any);
                }
            }
        }
    }
}
