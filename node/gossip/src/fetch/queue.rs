//! All fetches, by publisher and by when they are due.

use std::collections::BTreeMap;

use hashbrown::HashTable;
use mercato_protocol::gossip::Mark;

use crate::fetch::advertised::{Fetch, Version};
use crate::index::{NeighbourIndex, PublisherIndex, RowIndex};
use crate::interner::Keys;
use crate::table::Rows;

/// The fetches of one gossip.
#[derive(Debug)]
pub(crate) struct Queue {
    fetches: Rows<RowIndex, Fetch>,
    /// Where the fetch of each publisher is.
    rows: HashTable<(PublisherIndex, RowIndex)>,
    /// Publishers by when they are due; some may have been scheduled again since.
    due: BTreeMap<u64, Vec<PublisherIndex>>,
    /// When the first of these is due.
    next_ms: u64,
}

impl Default for Queue {
    fn default() -> Self {
        let (fetches, rows, due) = (Rows::default(), HashTable::new(), BTreeMap::new());
        Self { fetches, rows, due, next_ms: u64::MAX }
    }
}

impl Queue {
    /// The publishers of which something is fetched.
    pub(crate) fn publishers(&self) -> impl Iterator<Item = PublisherIndex> {
        self.fetches.iter().map(|(_, fetch)| fetch.publisher)
    }

    /// Something of the publisher's fetch, to have it read.
    pub(crate) fn peek(&self, publisher: PublisherIndex) -> usize {
        let both = |fetch: &Fetch| {
            usize::from(fetch.is_whole) + usize::from(fetch.asked.has(NeighbourIndex(0)))
        };
        self.get(publisher).map_or(0, both)
    }

    pub(crate) fn get(&self, publisher: PublisherIndex) -> Option<&Fetch> {
        let (_, row) = self.rows.find(hash(publisher), |(other, _)| *other == publisher)?;
        self.fetches.get(*row)
    }

    pub(crate) fn get_mut(&mut self, publisher: PublisherIndex) -> Option<&mut Fetch> {
        let (_, row) = self.rows.find(hash(publisher), |(other, _)| *other == publisher)?;
        self.fetches.get_mut(*row)
    }

    /// Begins to fetch what `first` advertises. Of its publisher nothing is fetched yet; its
    /// number is held for this.
    pub(crate) fn insert(
        &mut self,
        publisher: PublisherIndex,
        mark: &Mark,
        first: NeighbourIndex,
        due_ms: u64,
    ) {
        let fetch = Fetch::new(publisher, Version::of(mark), first, due_ms);
        let row = self.fetches.insert(fetch);
        self.rows.insert_unique(hash(publisher), (publisher, row), |(other, _)| hash(*other));
        self.put_off(publisher, due_ms);
    }

    /// Nothing of this publisher is fetched any more; says what was.
    pub(crate) fn remove(&mut self, keys: &mut Keys, publisher: PublisherIndex) -> Option<Fetch> {
        let found = self.rows.find_entry(hash(publisher), |(other, _)| *other == publisher);
        let ((_, row), _) = found.ok()?.remove();
        keys.release(publisher);
        self.fetches.remove(row)
    }

    /// Of the publisher of `held` only what is later, or contradicts it, is fetched from now on;
    /// gives what is left, if anything is.
    pub(crate) fn narrow(
        &mut self,
        keys: &mut Keys,
        publisher: PublisherIndex,
        held: &Mark,
    ) -> Option<&Fetch> {
        if !self.get_mut(publisher)?.narrow(&Version::of(held)) {
            self.remove(keys, publisher);
        }
        self.get(publisher)
    }

    /// `peer` is asked for what is fetched of this publisher, and another at `due_ms`; says
    /// whether the body has to come along.
    pub(crate) fn ask(
        &mut self,
        publisher: PublisherIndex,
        peer: NeighbourIndex,
        now_ms: u64,
        due_ms: u64,
    ) -> bool {
        let Some(fetch) = self.get_mut(publisher) else { return false };
        fetch.ask(peer, now_ms, due_ms);
        let is_whole = fetch.is_whole;
        self.put_off(publisher, due_ms);
        is_whole
    }

    /// What is fetched of this publisher is due at `due_ms`.
    pub(crate) fn schedule(&mut self, publisher: PublisherIndex, due_ms: u64) {
        if let Some(fetch) = self.get_mut(publisher) {
            fetch.due_ms = due_ms;
            self.put_off(publisher, due_ms);
        }
    }

    fn put_off(&mut self, publisher: PublisherIndex, due_ms: u64) {
        self.due.entry(due_ms).or_default().push(publisher);
        self.next_ms = self.next_ms.min(due_ms);
    }

    /// Those that are due, in the order in which they were scheduled. They are parked.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Vec<PublisherIndex> {
        let mut all = Vec::new();
        while let Some(first) = self.due.first_entry().filter(|first| *first.key() <= now_ms) {
            let (due_ms, mut publishers) = first.remove_entry();
            publishers.retain(|publisher| {
                let fetch = self.get_mut(*publisher).filter(|fetch| fetch.due_ms == due_ms);
                fetch.map(|fetch| fetch.due_ms = u64::MAX).is_some()
            });
            match all.is_empty() {
                true => all = publishers,
                false => all.append(&mut publishers),
            }
        }
        self.next_ms = self.due.first_key_value().map_or(u64::MAX, |(due_ms, _)| *due_ms);
        all
    }

    /// When [`take_due`](Self::take_due) may have something; never is `u64::MAX`.
    pub(crate) fn next_ms(&self) -> u64 {
        self.next_ms
    }

    /// `peer` is gone: another is asked at once for what it was asked for.
    pub(crate) fn leave(&mut self, peer: NeighbourIndex, now_ms: u64) {
        let mut unasked = Vec::new();
        for (_, fetch) in self.fetches.iter_mut() {
            if fetch.leave(peer) {
                unasked.push(fetch.publisher);
            }
        }
        unasked.into_iter().for_each(|publisher| self.schedule(publisher, now_ms));
    }
}

/// Numbers that are given one after the other lie side by side: what begins to be fetched at one
/// time does, too. The table looks at the first bits for where, at the last for which.
fn hash(publisher: PublisherIndex) -> u64 {
    u64::from(publisher.0) | u64::from(publisher.0) << 57
}
