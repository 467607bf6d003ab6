//! Rows by key, each at a small number: a key is looked up once, and what is said of the row
//! from then on needs its place only.

use hashbrown::HashTable;
use mercato_protocol::id::PublicKey;

/// Where a row is. It is used again once the row is gone.
pub(crate) type Place = u32;

/// What has a key of its own.
pub(crate) trait Keyed {
    fn key(&self) -> &PublicKey;
}

/// Rows that come and go.
#[derive(Debug)]
pub(crate) struct Rows<T> {
    rows: Vec<Option<T>>,
    free: Vec<Place>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), free: Vec::new() }
    }
}

impl<T> Rows<T> {
    pub(crate) fn get(&self, place: Place) -> Option<&T> {
        self.rows.get(place as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut T> {
        self.rows.get_mut(place as usize)?.as_mut()
    }

    /// Every row with its place, in order of places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, &T)> {
        (0..).zip(&self.rows).filter_map(|(place, row)| Some((place, row.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Place, &mut T)> {
        (0..).zip(&mut self.rows).filter_map(|(place, row)| Some((place, row.as_mut()?)))
    }

    pub(crate) fn insert(&mut self, row: T) -> Place {
        let place = self.free.pop().unwrap_or_else(|| {
            if self.rows.len() == self.rows.capacity() {
                self.rows.reserve_exact(self.rows.len() / 4 + 8);
            }
            self.rows.push(None);
            Place::try_from(self.rows.len() - 1).expect("fewer rows than 2^32")
        });
        // What is overwritten is nothing, which need not be read to be dropped.
        std::mem::forget(self.rows[place as usize].replace(row));
        place
    }

    pub(crate) fn remove(&mut self, place: Place) -> Option<T> {
        let row = self.rows.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(row)
    }
}

/// Rows by key.
#[derive(Debug)]
pub(crate) struct Table<T> {
    /// Keeps whoever chooses keys from choosing where they fall.
    seed: u64,
    places: HashTable<Place>,
    rows: Rows<T>,
}

impl<T: Keyed> Table<T> {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, places: HashTable::new(), rows: Rows::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn find(&self, key: &PublicKey) -> Option<Place> {
        if self.places.is_empty() {
            return None;
        }
        let is_there = |place: &Place| self.get(*place).is_some_and(|row| row.key() == key);
        self.places.find(hash(self.seed, key), is_there).copied()
    }

    pub(crate) fn get(&self, place: Place) -> Option<&T> {
        self.rows.get(place)
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut T> {
        self.rows.get_mut(place)
    }

    /// Every row with its place, in order of places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, &T)> {
        self.rows.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Place, &mut T)> {
        self.rows.iter_mut()
    }

    /// Puts a row in the place of the one with its key, if there is one.
    pub(crate) fn insert(&mut self, row: T) -> Place {
        if let Some(place) = self.find(row.key())
            && let Some(old) = self.rows.get_mut(place)
        {
            *old = row;
            return place;
        }
        let own = hash(self.seed, row.key());
        let place = self.rows.insert(row);
        let (seed, rows) = (self.seed, &self.rows);
        let hash_of = |place: &Place| rows.get(*place).map_or(0, |row| hash(seed, row.key()));
        self.places.insert_unique(own, place, hash_of);
        place
    }

    pub(crate) fn remove(&mut self, place: Place) -> Option<T> {
        let row = self.rows.remove(place)?;
        let own = hash(self.seed, row.key());
        if let Ok(found) = self.places.find_entry(own, |other| *other == place) {
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
    fn rows_are_found_by_key_and_their_places_used_again() {
        let mut table = Table::new(5);
        let places: Vec<Place> = (0..1_000).map(|n| table.insert(Row(key(n), n))).collect();
        assert_eq!(places, (0..1_000).collect::<Vec<_>>());
        assert_eq!(table.insert(Row(key(3), 33)), 3);
        assert_eq!(
            table.find(&key(3)).and_then(|place| table.get(place)).map(|row| row.1),
            Some(33)
        );
        assert_eq!(table.remove(3).map(|row| row.1), Some(33));
        assert!(table.remove(3).is_none() && table.find(&key(3)).is_none());
        assert_eq!((table.len(), table.iter().count()), (999, 999));
        assert_eq!(table.insert(Row(key(2_000), 1)), 3);
        assert!((0..1_000).all(|n| n == 3 || table.find(&key(n)) == Some(n)));
    }
}
