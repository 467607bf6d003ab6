//! For each publisher a set of neighbours: a bit for each neighbour, those of one publisher side
//! by side.

use crate::index::{Index as _, NeighbourIndex, PublisherIndex};
use crate::peers::Peers;

/// Pairs of a publisher and a neighbour.
#[derive(Debug, Default)]
pub(crate) struct BitMatrix {
    /// Bytes for each publisher, as many as the highest neighbour needs.
    width: usize,
    rows: Vec<u8>,
    /// So many publishers are expected.
    publishers: usize,
}

impl BitMatrix {
    pub(crate) fn has(&self, publisher: PublisherIndex, peer: NeighbourIndex) -> bool {
        let (byte, bit) = split(peer);
        self.row(publisher).get(byte).is_some_and(|byte| byte & bit != 0)
    }

    pub(crate) fn set(&mut self, publisher: PublisherIndex, peer: NeighbourIndex) {
        let (byte, bit) = split(peer);
        if byte >= self.width {
            self.widen(byte + 1);
        }
        let start = publisher.position() * self.width;
        if self.rows.len() <= start {
            let longer = start + self.width;
            if self.rows.capacity() < longer {
                let room = (longer + longer / 8 + 64).max(self.publishers * self.width);
                self.rows.reserve_exact(room - self.rows.len());
            }
            self.rows.resize(longer, 0);
        }
        self.rows[start + byte] |= bit;
    }

    pub(crate) fn clear(&mut self, publisher: PublisherIndex, peer: NeighbourIndex) {
        let (byte, bit) = split(peer);
        let start = publisher.position() * self.width;
        if byte < self.width && start < self.rows.len() {
            self.rows[start + byte] &= !bit;
        }
    }

    /// Rows for so many publishers are made at once when the first is needed.
    pub(crate) fn expect(&mut self, publishers: usize) {
        self.publishers = publishers;
    }

    /// Something of the publisher's row, to have it read.
    pub(crate) fn peek(&self, publisher: PublisherIndex) -> usize {
        self.rows.get(publisher.position() * self.width).map_or(0, |byte| usize::from(*byte))
    }

    /// The neighbours that are paired with it.
    pub(crate) fn peers(&self, publisher: PublisherIndex) -> Peers {
        let mut bits = [0; size_of::<u128>()];
        let row = self.row(publisher);
        bits[..row.len()].copy_from_slice(row);
        Peers::from_bits(u128::from_le_bytes(bits))
    }

    /// Whether any neighbour is paired with it.
    pub(crate) fn any(&self, publisher: PublisherIndex) -> bool {
        self.row(publisher).iter().any(|byte| *byte != 0)
    }

    /// No neighbour is paired with this publisher any more.
    pub(crate) fn clear_publisher(&mut self, publisher: PublisherIndex) {
        let start = publisher.position() * self.width;
        if start < self.rows.len() {
            self.rows[start..start + self.width].fill(0);
        }
    }

    /// No publisher is paired with this neighbour any more.
    pub(crate) fn clear_peer(&mut self, peer: NeighbourIndex) {
        let (byte, bit) = split(peer);
        if byte < self.width {
            self.rows.iter_mut().skip(byte).step_by(self.width).for_each(|row| *row &= !bit);
        }
    }

    fn row(&self, publisher: PublisherIndex) -> &[u8] {
        let start = publisher.position() * self.width;
        self.rows.get(start..start + self.width).unwrap_or_default()
    }

    fn widen(&mut self, width: usize) {
        let count = self.rows.len().checked_div(self.width).unwrap_or(0);
        let mut rows = Vec::with_capacity(count.max(self.publishers) * width);
        for at in 0..count {
            rows.extend_from_slice(&self.rows[at * self.width..][..self.width]);
            rows.resize((at + 1) * width, 0);
        }
        (self.rows, self.width) = (rows, width);
    }
}

fn split(peer: NeighbourIndex) -> (usize, u8) {
    (peer.position() / 8, 1 << (peer.0 % 8))
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
            let (mut matrix, mut model) = (BitMatrix::default(), BTreeSet::new());
            for (publisher, peer, kind) in steps {
                let (publisher, peer) = (PublisherIndex(publisher), NeighbourIndex(peer));
                match kind {
                    0 => {
                        matrix.clear_publisher(publisher);
                        model.retain(|(other, _)| *other != publisher);
                    }
                    1 => {
                        matrix.clear_peer(peer);
                        model.retain(|(_, other)| *other != peer);
                    }
                    2 => {
                        matrix.clear(publisher, peer);
                        model.remove(&(publisher, peer));
                    }
                    _ => {
                        matrix.set(publisher, peer);
                        model.insert((publisher, peer));
                    }
                }
                let all = (0..50).map(PublisherIndex);
                let all = all.flat_map(|at| (0..30).map(move |peer| (at, NeighbourIndex(peer))));
                let held: BTreeSet<_> = all.filter(|(at, peer)| matrix.has(*at, *peer)).collect();
                prop_assert_eq!(&held, &model);
                for at in (0..50).map(PublisherIndex) {
                    let any = model.iter().any(|(other, _)| *other == at);
                    prop_assert_eq!(matrix.any(at), any);
                }
            }
        }
    }
}
