//! Rows at small numbers: at given ones ([`Column`]), at the next that is free ([`Rows`]), and by
//! key ([`Table`]). A key is looked up once; from then on its number is enough.

use std::marker::PhantomData;

use hashbrown::HashTable;
use mercato_protocol::id::PublicKey;

use crate::index::Index;

/// A row that has a key of its own.
pub(crate) trait Keyed {
    fn key(&self) -> &PublicKey;
}

impl Keyed for PublicKey {
    fn key(&self) -> &PublicKey {
        self
    }
}

/// Rows at numbers that are given elsewhere.
#[derive(Debug)]
pub(crate) struct Column<I, T> {
    rows: Vec<Option<T>>,
    index: PhantomData<I>,
}

impl<I, T> Default for Column<I, T> {
    fn default() -> Self {
        Self { rows: Vec::new(), index: PhantomData }
    }
}

impl<I: Index, T> Column<I, T> {
    pub(crate) fn get(&self, at: I) -> Option<&T> {
        self.rows.get(at.position())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: I) -> Option<&mut T> {
        self.rows.get_mut(at.position())?.as_mut()
    }

    /// Every row with its number, in order of numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        (0..).zip(&self.rows).filter_map(|(at, row)| Some((I::new(at), row.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (I, &mut T)> {
        (0..).zip(&mut self.rows).filter_map(|(at, row)| Some((I::new(at), row.as_mut()?)))
    }

    /// One more than the highest number that ever had a row.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many rows fit without moving them.
    pub(crate) fn capacity(&self) -> usize {
        self.rows.capacity()
    }

    /// Makes room for exactly so many rows, unless there is room for one more.
    pub(crate) fn reserve(&mut self, at: I, rows: usize) {
        if self.rows.capacity() <= at.position() {
            self.rows.reserve_exact(rows - self.rows.len());
        }
    }

    /// Puts a row at a number, in the place of the one there.
    pub(crate) fn set(&mut self, at: I, row: T) {
        let at = at.position();
        if self.rows.len() <= at {
            self.rows.resize_with(at + 1, || None);
        }
        self.rows[at] = Some(row);
    }

    /// Takes the row out; its number has none any more.
    pub(crate) fn take(&mut self, at: I) -> Option<T> {
        self.rows.get_mut(at.position())?.take()
    }
}

/// Rows that come and go, each at a number that was free.
#[derive(Debug)]
pub(crate) struct Rows<I, T> {
    rows: Column<I, T>,
    free: Vec<I>,
}

impl<I, T> Default for Rows<I, T> {
    fn default() -> Self {
        Self { rows: Column::default(), free: Vec::new() }
    }
}

impl<I: Index, T> Rows<I, T> {
    pub(crate) fn get(&self, at: I) -> Option<&T> {
        self.rows.get(at)
    }

    pub(crate) fn get_mut(&mut self, at: I) -> Option<&mut T> {
        self.rows.get_mut(at)
    }

    /// Every row with its number, in order of numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.rows.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (I, &mut T)> {
        self.rows.iter_mut()
    }

    pub(crate) fn insert(&mut self, row: T) -> I {
        let next = || u32::try_from(self.rows.len()).expect("fewer rows than 2^32");
        let at = self.free.pop().unwrap_or_else(|| I::new(next()));
        self.rows.reserve(at, self.rows.len() + self.rows.len() / 4 + 8);
        self.rows.set(at, row);
        at
    }

    pub(crate) fn remove(&mut self, at: I) -> Option<T> {
        let row = self.rows.take(at)?;
        self.free.push(at);
        Some(row)
    }
}

/// Rows that come and go, found by their keys.
#[derive(Debug)]
pub(crate) struct Table<I, T> {
    /// Whoever chooses keys cannot choose where they fall.
    seed: u64,
    numbers: HashTable<I>,
    rows: Rows<I, T>,
}

impl<I: Index, T: Keyed> Table<I, T> {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, numbers: HashTable::new(), rows: Rows::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn find(&self, key: &PublicKey) -> Option<I> {
        if self.numbers.is_empty() {
            return None;
        }
        let is_there = |at: &I| self.get(*at).is_some_and(|row| row.key() == key);
        self.numbers.find(hash(self.seed, key), is_there).copied()
    }

    pub(crate) fn get(&self, at: I) -> Option<&T> {
        self.rows.get(at)
    }

    pub(crate) fn get_mut(&mut self, at: I) -> Option<&mut T> {
        self.rows.get_mut(at)
    }

    /// Every row with its number, in order of numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.rows.iter()
    }

    /// Puts a row in the place of the one with its key, if there is one.
    pub(crate) fn insert(&mut self, row: T) -> I {
        if let Some(at) = self.find(row.key())
            && let Some(old) = self.rows.get_mut(at)
        {
            *old = row;
            return at;
        }
        let own = hash(self.seed, row.key());
        let at = self.rows.insert(row);
        let (seed, rows) = (self.seed, &self.rows);
        let hash_of = |at: &I| rows.get(*at).map_or(0, |row| hash(seed, row.key()));
        self.numbers.insert_unique(own, at, hash_of);
        at
    }

    pub(crate) fn remove(&mut self, at: I) -> Option<T> {
        let row = self.rows.remove(at)?;
        let own = hash(self.seed, row.key());
        if let Ok(found) = self.numbers.find_entry(own, |other| *other == at) {
            found.remove();
        }
        Some(row)
    }
}

/// Keys are points of a curve, evenly spread; the seed makes the place unforeseeable.
fn hash(seed: u64, key: &PublicKey) -> u64 {
    let head = key.0.first_chunk().map_or(0, |head| u64::from_le_bytes(*head));
    let mixed = (head ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::RowIndex;

    struct Row(PublicKey, u32);

    impl Keyed for Row {
        fn key(&self) -> &PublicKey {
            &self.0
        }
    }

    fn key(n: u32) -> PublicKey {
        let mut bytes = [7; 32];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        PublicKey(bytes)
    }

    #[test]
    fn rows_are_found_by_key_and_their_numbers_used_again() {
        let mut table = Table::new(5);
        let numbers: Vec<RowIndex> = (0..1_000).map(|n| table.insert(Row(key(n), n))).collect();
        assert_eq!(numbers, (0..1_000).map(RowIndex).collect::<Vec<_>>());
        assert_eq!(table.insert(Row(key(3), 33)), RowIndex(3));
        assert_eq!(table.find(&key(3)).and_then(|at| table.get(at)).map(|row| row.1), Some(33));
        assert_eq!(table.remove(RowIndex(3)).map(|row| row.1), Some(33));
        assert!(table.remove(RowIndex(3)).is_none() && table.find(&key(3)).is_none());
        assert_eq!((table.len(), table.iter().count()), (999, 999));
        assert_eq!(table.insert(Row(key(2_000), 1)), RowIndex(3));
        assert!((0..1_000).all(|n| n == 3 || table.find(&key(n)) == Some(RowIndex(n))));
    }
}
