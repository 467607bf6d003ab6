//! A table with a bound, and a rule of who leaves it first. Keys are free, so a table that only
//! counts can be filled by anybody with rows that cost nothing; here whoever matters less leaves.
//! What a row is worth its owner says, each time that room is needed: it may change.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use thiserror::Error;

/// What a row of a [`Bounded`] table is kept for. The lowest leaves first, and of one rank the row
/// that was put or renewed the longest ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Its time is over: it may leave at any time.
    Over,
    /// Somebody whom nobody vouches for.
    Stranger,
    /// A cluster, or what a cluster says, that a joined federation certifies.
    Member,
    /// Whom the owner trusts, with whom there is a contract, or who is connected on purpose.
    Partner,
    /// Never leaves to make room: a newcomer is refused instead.
    Kept,
}

/// How many rows a [`Bounded`] table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// At most, of all ranks.
    pub all: usize,
    /// Of those, so many that members do not take from strangers: somebody new can be answered
    /// though the table is full of members. Strangers may use all that nobody else needs.
    pub strangers: usize,
    /// So many strangers leave together, or rows that are over: to find them every row is looked
    /// at, which is not to be done for each newcomer to a large table.
    pub leave: usize,
}

/// There is no row that may leave for this one.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the table is full of rows that rank higher")]
pub struct Full;

/// A map of bounded size; the module says which row leaves when it is full.
#[derive(Clone, Debug)]
pub struct Bounded<K, V> {
    room: Room,
    rows: BTreeMap<K, Row<V>>,
    /// How many rows were ever put: the age of the next.
    puts: u64,
}

#[derive(Clone, Debug)]
struct Row<V> {
    value: V,
    /// The number of the put that made or renewed it.
    put: u64,
}

impl Room {
    /// So many, of which strangers have none for themselves; one leaves at a time.
    pub const fn of(all: usize) -> Self {
        Self { all, strangers: 0, leave: 1 }
    }
}

impl<K: Ord + Clone, V> Bounded<K, V> {
    /// An empty map with this bound.
    pub const fn new(room: Room) -> Self {
        Self { room, rows: BTreeMap::new(), puts: 0 }
    }

    /// Puts a row, in the place of that with the same key if there is one; gives back the rows
    /// that had to leave. `rank` is asked of every row if the table is full.
    pub fn put(
        &mut self,
        key: K,
        value: V,
        rank: impl Fn(&K, &V) -> Rank,
    ) -> Result<Vec<(K, V)>, Full> {
        let leave = match self.is_full() && !self.rows.contains_key(&key) {
            true => self.who_leaves(rank(&key, &value), rank).ok_or(Full)?,
            false => Vec::new(),
        };
        let left = leave.iter().filter_map(|key| self.rows.remove_entry(key));
        let left = left.map(|(key, row)| (key, row.value)).collect();
        self.puts += 1;
        self.rows.insert(key, Row { value, put: self.puts });
        Ok(left)
    }

    /// Whether a newcomer of this rank would find a place.
    pub fn has_room(&self, newcomer: Rank, rank: impl Fn(&K, &V) -> Rank) -> bool {
        !self.is_full() || self.who_leaves(newcomer, rank).is_some()
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= self.room.all
    }

    /// Who makes room for a newcomer of this rank, the oldest first; none: nobody may.
    fn who_leaves(&self, newcomer: Rank, rank: impl Fn(&K, &V) -> Rank) -> Option<Vec<K>> {
        let mut ages: [Vec<(u64, &K)>; Rank::Kept as usize] = Default::default();
        for (key, row) in &self.rows {
            let of_rank = ages.get_mut(rank(key, &row.value) as usize);
            of_rank.into_iter().for_each(|ages| ages.push((row.put, key)));
        }
        let strangers = ages[Rank::Stranger as usize].len();
        let (is_stranger, is_partner) = (newcomer == Rank::Stranger, newcomer >= Rank::Partner);
        let too_many = strangers + usize::from(is_stranger) > self.room.strangers;
        let in_turn = [
            (Rank::Over, true),
            (Rank::Stranger, too_many && newcomer >= Rank::Stranger),
            (Rank::Member, newcomer >= Rank::Member || is_stranger && !too_many),
            (Rank::Stranger, is_stranger || is_partner),
            (Rank::Partner, is_partner),
        ];
        let may_leave = |(rank, may): &&(Rank, bool)| *may && !ages[*rank as usize].is_empty();
        let leaves = in_turn.iter().find(may_leave)?.0;
        let count = if leaves <= Rank::Stranger { self.room.leave.max(1) } else { 1 };
        let ages = &mut ages[leaves as usize];
        if count < ages.len() {
            ages.select_nth_unstable(count);
            ages.truncate(count);
        }
        Some(ages.iter().map(|(_, key)| (*key).clone()).collect())
    }

    /// The row counts as put just now.
    pub fn renew<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if let Some(row) = self.rows.get_mut(key) {
            self.puts += 1;
            row.put = self.puts;
        }
    }

    /// The value of this key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.rows.get(key).map(|row| &row.value)
    }

    /// The same, to be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.rows.get_mut(key).map(|row| &mut row.value)
    }

    /// Whether there is a row of this key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.rows.contains_key(key)
    }

    /// Takes a row out, and gives its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.rows.remove(key).map(|row| row.value)
    }

    /// Takes out all rows that are not to stay; gives back their keys.
    pub fn retain(&mut self, mut stays: impl FnMut(&K, &mut V) -> bool) -> Vec<K> {
        let gone = self.rows.extract_if(.., |key, row| !stays(key, &mut row.value));
        gone.map(|(key, _)| key).collect()
    }

    /// Every row, in ascending order of keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter().map(|(key, row)| (key, &row.value))
    }

    /// Every key, in ascending order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.rows.keys()
    }

    /// Every value, in ascending order of keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.rows.values().map(|row| &row.value)
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the map has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RANKS: [Rank; 5] = [Rank::Over, Rank::Stranger, Rank::Member, Rank::Partner, Rank::Kept];

    fn rank(_: &u8, rank: &Rank) -> Rank {
        *rank
    }

    fn count(table: &Bounded<u8, Rank>, rank: Rank) -> usize {
        table.values().filter(|of| **of == rank).count()
    }

    proptest! {
        /// Whatever comes in whatever order: the bound holds, nobody leaves for one who matters
        /// less, and a newcomer is refused only where none may leave for it.
        #[test]
        fn who_matters_less_leaves(
            (all, own, leave) in (1_usize..8, 0_usize..4, 1_usize..3),
            puts in prop::collection::vec((any::<u8>(), 0_usize..RANKS.len()), 0..80),
        ) {
            let room = Room { all, strangers: own.min(all), leave };
            let mut table = Bounded::new(room);
            let mut order: Vec<u8> = Vec::new();
            for (key, at) in puts {
                let (newcomer, before) = (RANKS[at], table.clone());
                let is_new = !table.contains_key(&key);
                let strangers = count(&before, Rank::Stranger);
                let has_place = table.has_room(newcomer, rank) || !is_new;
                let put = table.put(key, newcomer, rank);
                prop_assert_eq!(put.is_ok(), has_place);
                prop_assert!(table.len() <= all);
                let Ok(left) = put else {
                    prop_assert!(is_new && before.len() == all && count(&before, Rank::Over) == 0);
                    prop_assert!(newcomer < Rank::Partner || count(&before, Rank::Kept) == all);
                    continue;
                };
                prop_assert_eq!(left.is_empty(), !is_new || before.len() < all);
                order.retain(|other| *other != key);
                for (_, was) in &left {
                    let alike = order.iter().filter(|key| before.get(*key) == Some(was));
                    let alike: Vec<&u8> = alike.take(left.len()).collect();
                    prop_assert!(left.iter().all(|(gone, _)| alike.contains(&gone)), "the oldest");
                    prop_assert!(*was != Rank::Kept && (left.len() == 1 || *was <= Rank::Stranger));
                    let for_share = newcomer == Rank::Stranger && strangers < room.strangers;
                    prop_assert!(*was <= newcomer || *was == Rank::Member && for_share);
                    let lower: Vec<&Rank> = before.values().filter(|of| *of < was).collect();
                    prop_assert!(lower.iter().all(|of| **of == Rank::Stranger), "the lowest");
                    prop_assert!(lower.len() <= room.strangers, "but for the share");
                }
                order.retain(|other| table.contains_key(other));
                order.push(key);
            }
        }

        /// A flood of strangers takes nothing from partners and at most the share of strangers
        /// from members, and each of them finds a place.
        #[test]
        fn a_flood_of_strangers(all in 2_usize..10, own in 0_usize..5, partners in 0_usize..10) {
            let room = Room { all, strangers: own.min(all), leave: 2 };
            let partners = partners.min(all - 1);
            let mut table = Bounded::new(room);
            for n in 0..all {
                let rank_of_it = if n < partners { Rank::Partner } else { Rank::Member };
                table.put(u8::try_from(n).unwrap(), rank_of_it, rank).unwrap();
            }
            for n in 100..=200 {
                let placed = table.put(n, Rank::Stranger, rank);
                prop_assert_eq!(placed.is_ok(), room.strangers > 0);
            }
            prop_assert_eq!(count(&table, Rank::Partner), partners);
            let least = (all - partners).saturating_sub(room.strangers);
            prop_assert!(count(&table, Rank::Member) >= least);
            prop_assert!(table.put(99, Rank::Partner, rank).is_ok());
        }
    }

    #[test]
    fn what_is_renewed_stays() {
        let mut table = Bounded::new(Room::of(2));
        let stranger = |_: &u8, _: &()| Rank::Stranger;
        table.put(1, (), stranger).unwrap();
        table.put(2, (), stranger).unwrap();
        table.renew(&1);
        assert_eq!(table.put(3, (), stranger), Ok(vec![(2, ())]));
        assert_eq!(table.retain(|key, ()| *key == 3), [1]);
    }
}
