//! Some of the pools of one advertisement.

use mercato_protocol::limits::POOLS;

/// A set of pools, by their place in the advertisement: a bit each, of which an
/// advertisement has no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PoolSet(u64);

const _: () = assert!(POOLS <= u64::BITS as usize, "every pool has its bit");

impl PoolSet {
    /// The first so many pools of an advertisement.
    pub(super) fn first(count: usize) -> Self {
        Self(!u64::MAX.checked_shl(count as u32).unwrap_or(0))
    }

    /// Those whose value is as it should be; a value for each pool, in their order.
    #[inline]
    pub(super) fn whose(values: &[u64], holds: impl Fn(u64) -> bool) -> Self {
        let bit = |(row, value): (usize, &u64)| u64::from(holds(*value)) << row;
        Self(values.iter().enumerate().map(bit).fold(0, |rows, bit| rows | bit))
    }

    pub(super) fn one(row: usize) -> Self {
        Self(1 << row)
    }

    pub(super) fn add(&mut self, row: usize) {
        self.0 |= 1 << row;
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of them that are as they should be.
    pub(super) fn filter(self, is: impl Fn(usize) -> bool) -> Self {
        self.iter().filter(|row| is(*row)).collect()
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Their places in the advertisement, ascending.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let row = left.trailing_zeros();
            left &= left.checked_sub(1)?;
            Some(row as usize)
        })
    }
}

impl FromIterator<usize> for PoolSet {
    fn from_iter<T: IntoIterator<Item = usize>>(rows: T) -> Self {
        let mut all = Self::default();
        rows.into_iter().for_each(|row| all.add(row));
        all
    }
}

/// The pools of one advertisement, from which those that miss something are taken, need by
/// need.
pub(super) struct Filter {
    pools: PoolSet,
    left: PoolSet,
    /// What each pool misses; empty if nobody asks.
    misses: Vec<u128>,
}

impl Filter {
    /// All of them, with what all miss. `tells`: what each misses is to be told.
    pub(super) fn new(pools: usize, missed: u128, tells: bool) -> Self {
        let misses = vec![missed; if tells { pools } else { 0 }];
        let pools = PoolSet::first(pools);
        Self { pools, left: if missed == 0 { pools } else { PoolSet::default() }, misses }
    }

    /// Those that suit so far.
    pub(super) fn left(&self) -> PoolSet {
        self.left
    }

    /// Those that have to be looked at.
    pub(super) fn open(&self) -> PoolSet {
        if self.misses.is_empty() { self.left } else { self.pools }
    }

    /// These pools miss these needs.
    pub(super) fn miss(&mut self, rows: PoolSet, bits: u128) {
        if bits == 0 {
            return;
        }
        self.left = self.left.without(rows);
        if !self.misses.is_empty() {
            rows.iter().for_each(|row| self.misses[row] |= bits);
        }
    }

    /// Only these meet a need.
    pub(super) fn keep(&mut self, rows: PoolSet, bit: u128) {
        self.miss(self.open().without(rows), bit);
    }

    /// What each of the others misses.
    pub(super) fn misses(&self) -> impl Iterator<Item = (usize, u128)> {
        let misses = self.misses.iter().copied().enumerate();
        misses.filter(|(_, misses)| *misses != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pool_has_its_place() {
        for count in [0, 1, 5, 63, 64] {
            let all = PoolSet::first(count);
            assert_eq!(all.len(), count);
            assert!(all.iter().eq(0..count));
            assert_eq!(all.is_empty(), count == 0);
        }
        let large = PoolSet::whose(&[3, 9, 4, 7], |n| n >= 4);
        assert!(large.iter().eq([1, 2, 3]));
        assert!(large.and(PoolSet::first(3)).iter().eq([1, 2]));
        assert!(PoolSet::first(4).without(large).or(PoolSet::one(2)).iter().eq([0, 2]));
        assert_eq!(large.filter(|row| row == 2), PoolSet::one(2));
    }

    #[test]
    fn a_filter_keeps_what_misses_nothing_and_tells_what_the_rest_misses() {
        for tells in [false, true] {
            let mut filter = Filter::new(3, 0, tells);
            filter.keep(PoolSet::first(2), 1);
            assert_eq!(filter.open(), PoolSet::first(if tells { 3 } else { 2 }));
            filter.keep(PoolSet::one(1), 2);
            filter.miss(PoolSet::one(2), 4);
            assert_eq!(filter.left(), PoolSet::one(1));
            let told: Vec<_> = filter.misses().collect();
            assert_eq!(told, if tells { vec![(0, 2), (2, 7)] } else { vec![] });
        }
        assert!(Filter::new(3, 8, false).open().is_empty());
        assert_eq!(Filter::new(1, 8, true).misses().collect::<Vec<_>>(), [(0, 8)]);
    }
}
