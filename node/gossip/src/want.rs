//! What is wanted of publishers, at whose word, and when to ask whom next. Publishers go by
//! their numbers, neighbours by their places.

use std::collections::BTreeMap;

use hashbrown::HashTable;
use mercato_protocol::gossip::{LAST_EPOCH, Mark};
use mercato_protocol::id::Digest;
use mercato_protocol::time::Now;

use crate::interner::Keys;
use crate::peers::Peers;
use crate::table::{Place, Rows};

/// Something later of one publisher, that is on its way here: two lines of a cache.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Want {
    /// Who says that it holds such. Each neighbour counts once, or those that claim falsely
    /// would keep the others out.
    claimed: Peers,
    /// Who of those was asked.
    tried: Peers,
    /// What most are said to hold.
    word: Word,
    /// What those of them hold that hold something else: seldom anybody.
    others: Option<Box<Others>>,
    /// When to ask, or to ask another.
    due_ms: u64,
    asked_ms: u64,
    publisher: Place,
    /// Whose answer is waited for.
    asked: Option<Place>,
    /// At whose word first: it counts against that neighbour's room, while it is one.
    pub(crate) first: Option<Place>,
    /// Whether the body has to come along even if it seems to be here.
    pub(crate) whole: bool,
}

/// A [`Mark`] of a publisher that goes without saying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    number: (u64, u64),
    digest: Digest,
}

#[derive(Debug, Default)]
struct Others(Vec<(Place, Word)>);

impl Word {
    fn of(mark: &Mark) -> Self {
        Self { number: (mark.epoch, mark.seq), digest: mark.digest }
    }

    fn conflicts(&self, held: &Self) -> bool {
        self.number == held.number && self.digest != held.digest
    }
}

impl Want {
    /// `first` holds `word`.
    fn new(publisher: Place, word: Word, first: Place, due_ms: u64) -> Self {
        Self {
            claimed: Peers::of(first),
            tried: Peers::default(),
            word,
            others: None,
            due_ms,
            asked_ms: 0,
            publisher,
            asked: None,
            first: Some(first),
            whole: false,
        }
    }

    /// `peer` holds `mark`; what it said before it no longer does.
    pub(crate) fn claim(&mut self, peer: Place, mark: &Mark) {
        let word = Word::of(mark);
        if self.claimed.has(peer) && *self.word_of(peer) == word {
            return;
        }
        self.retain_others(|other, _| other != peer);
        if word != self.word {
            self.others.get_or_insert_default().0.push((peer, word));
        }
        self.claimed.insert(peer);
        self.tried.remove(peer);
    }

    /// What one holds that says so.
    fn word_of(&self, peer: Place) -> &Word {
        let other = self.others().iter().find(|(other, _)| *other == peer);
        other.map_or(&self.word, |(_, word)| word)
    }

    fn others(&self) -> &[(Place, Word)] {
        self.others.as_deref().map_or(&[], |others| &others.0)
    }

    fn retain_others(&mut self, is_kept: impl Fn(Place, &Word) -> bool) {
        if let Some(others) = &mut self.others {
            others.0.retain(|(peer, word)| is_kept(*peer, word));
        }
    }

    /// Who says that it holds `mark`.
    pub(crate) fn holders(&self, mark: &Mark) -> Peers {
        let word = Word::of(mark);
        let mut holders = if word == self.word { self.claimed } else { Peers::default() };
        for (peer, other) in self.others() {
            match *other == word {
                true => holders.insert(*peer),
                false => holders.remove(*peer),
            }
        }
        holders
    }

    /// Only what is later than `held` is wanted any more, or contradicts it; says whether
    /// anybody holds such.
    fn narrow(&mut self, held: &Word) -> bool {
        let is_wanted = |word: &Word| word.number > held.number || word.conflicts(held);
        for (peer, word) in self.others.iter().flat_map(|others| &others.0) {
            if !is_wanted(word) {
                self.claimed.remove(*peer);
            }
        }
        self.retain_others(|_, word| is_wanted(word));
        if !is_wanted(&self.word) {
            self.claimed = Peers::default();
            for (peer, _) in self.others.iter().flat_map(|others| &others.0) {
                self.claimed.insert(*peer);
            }
            if let Some((_, word)) = self.others().first().copied() {
                self.word = word;
                self.retain_others(|_, other| *other != word);
            }
        }
        self.tried = self.tried.within(self.claimed);
        self.first = self.claimed.iter().next();
        (self.asked, self.whole) = (None, false);
        self.first.is_some()
    }

    /// Whether anybody holds what contradicts `held`, of the same publisher.
    pub(crate) fn proves(&self, held: &Mark) -> bool {
        let held = Word::of(held);
        self.claimed.iter().any(|peer| self.word_of(peer).conflicts(&held))
    }

    /// Whether somebody holds a proof against the publisher.
    pub(crate) fn is_proof(&self) -> bool {
        self.claimed.iter().any(|peer| self.word_of(peer).number.0 == LAST_EPOCH)
    }

    /// This one's word no longer counts; says whether it did.
    fn lose(&mut self, peer: Place) -> bool {
        let had = self.claimed.has(peer);
        self.claimed.remove(peer);
        self.tried.remove(peer);
        self.retain_others(|other, _| other != peer);
        self.first.take_if(|first| *first == peer);
        had
    }

    /// Whether `peer` was asked.
    pub(crate) fn is_asked_of(&self, peer: Place) -> bool {
        self.tried.has(peer)
    }

    /// It is to be asked once more.
    pub(crate) fn ask_again(&mut self, peer: Place) {
        self.tried.remove(peer);
    }

    /// Whose answer was waited for, as none is any more.
    pub(crate) fn give_up(&mut self) -> Option<Place> {
        self.asked.take()
    }

    /// `peer` answers; says when it was asked, if its answer was waited for.
    pub(crate) fn answer(&mut self, peer: Place) -> Option<u64> {
        self.asked.take_if(|asked| *asked == peer).map(|_| self.asked_ms)
    }

    /// Whether nobody sees to it until it is scheduled again.
    pub(crate) fn is_parked(&self) -> bool {
        self.due_ms == u64::MAX
    }

    /// Who is to be asked next: whoever said so first, then the others all around.
    pub(crate) fn next(&self) -> Option<Place> {
        self.claimed.without(self.tried).next_from(self.first.unwrap_or_default())
    }
}

/// All that is wanted, by publisher, and by when it is due.
#[derive(Debug)]
pub(crate) struct Wants {
    wants: Rows<Want>,
    /// Where each is, by publisher.
    rows: HashTable<(Place, Place)>,
    /// Publishers by when they are due; may hold what is no longer true.
    due: BTreeMap<u64, Vec<Place>>,
    /// When the first of these is.
    next_ms: u64,
}

impl Wants {
    pub(crate) fn new() -> Self {
        let (wants, rows, due) = (Rows::default(), HashTable::new(), BTreeMap::new());
        Self { wants, rows, due, next_ms: u64::MAX }
    }

    /// Those of whom something is wanted.
    pub(crate) fn publishers(&self) -> impl Iterator<Item = Place> {
        self.wants.iter().map(|(_, want)| want.publisher)
    }

    /// See [`Gossip::read_ahead`](crate::gossip::Gossip::read_ahead).
    pub(crate) fn peek(&self, publisher: Place) -> usize {
        let both = |want: &Want| usize::from(want.whole) + usize::from(want.tried.has(0));
        self.get(publisher).map_or(0, both)
    }

    /// What is wanted of the publisher with this number.
    pub(crate) fn get(&self, publisher: Place) -> Option<&Want> {
        let (_, row) = self.rows.find(hash(publisher), |(other, _)| *other == publisher)?;
        self.wants.get(*row)
    }

    /// The same.
    pub(crate) fn get_mut(&mut self, publisher: Place) -> Option<&mut Want> {
        let (_, row) = self.rows.find(hash(publisher), |(other, _)| *other == publisher)?;
        self.wants.get_mut(*row)
    }

    /// Nothing is wanted of its publisher yet, whose number is held for this. `first` holds
    /// `mark`.
    pub(crate) fn insert(&mut self, publisher: Place, mark: &Mark, first: Place, due_ms: u64) {
        let row = self.wants.insert(Want::new(publisher, Word::of(mark), first, due_ms));
        self.rows.insert_unique(hash(publisher), (publisher, row), |(other, _)| hash(*other));
        self.put_off(publisher, due_ms);
    }

    /// Nothing more is wanted of this publisher; says what was.
    pub(crate) fn remove(&mut self, keys: &mut Keys, publisher: Place) -> Option<Want> {
        let found = self.rows.find_entry(hash(publisher), |(other, _)| *other == publisher);
        let ((_, row), _) = found.ok()?.remove();
        keys.release(publisher);
        self.wants.remove(row)
    }

    /// Of the publisher of `held` only what is later is wanted any more, or contradicts it; says
    /// what is left, if anything is.
    pub(crate) fn narrow(
        &mut self,
        keys: &mut Keys,
        publisher: Place,
        held: &Mark,
    ) -> Option<&Want> {
        if !self.get_mut(publisher)?.narrow(&Word::of(held)) {
            self.remove(keys, publisher);
        }
        self.get(publisher)
    }

    /// `peer` is asked for what is wanted of this publisher, and another at `due_ms`; says
    /// whether the body has to come along.
    pub(crate) fn ask(&mut self, publisher: Place, peer: Place, now: Now, due_ms: u64) -> bool {
        let Some(want) = self.get_mut(publisher) else { return false };
        want.tried.insert(peer);
        (want.asked, want.asked_ms, want.due_ms) = (Some(peer), now.mono_ms, due_ms);
        let whole = want.whole;
        self.put_off(publisher, due_ms);
        whole
    }

    /// Sees to this publisher at `due_ms`.
    pub(crate) fn schedule(&mut self, publisher: Place, due_ms: u64) {
        if let Some(want) = self.get_mut(publisher) {
            want.due_ms = due_ms;
            self.put_off(publisher, due_ms);
        }
    }

    fn put_off(&mut self, publisher: Place, due_ms: u64) {
        self.due.entry(due_ms).or_default().push(publisher);
        self.next_ms = self.next_ms.min(due_ms);
    }

    /// Those that are due, in the order in which they were scheduled, and are seen to now.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Vec<Place> {
        let mut all = Vec::new();
        while let Some(first) = self.due.first_entry().filter(|first| *first.key() <= now_ms) {
            let (due_ms, mut publishers) = first.remove_entry();
            publishers.retain(|publisher| {
                let want = self.get_mut(*publisher).filter(|want| want.due_ms == due_ms);
                want.map(|want| want.due_ms = u64::MAX).is_some()
            });
            match all.is_empty() {
                true => all = publishers,
                false => all.append(&mut publishers),
            }
        }
        self.next_ms = self.due.first_key_value().map_or(u64::MAX, |(due_ms, _)| *due_ms);
        all
    }

    /// When [`take_due`](Self::take_due) may have something.
    pub(crate) fn wakeup_ms(&self) -> Option<u64> {
        (self.next_ms < u64::MAX).then_some(self.next_ms)
    }

    /// `peer` is gone: what it was asked for is asked of another at once.
    pub(crate) fn lose(&mut self, peer: Place, now_ms: u64) {
        let mut unasked = Vec::new();
        for (_, want) in self.wants.iter_mut() {
            if want.lose(peer) {
                want.asked.take_if(|asked| *asked == peer);
                if want.asked.is_none() {
                    unasked.push(want.publisher);
                }
            }
        }
        unasked.into_iter().for_each(|publisher| self.schedule(publisher, now_ms));
    }
}

/// Numbers that are given one after the other lie side by side: what begins to be wanted at one
/// time is. The table looks at the first bits for where, at the last for which.
fn hash(publisher: Place) -> u64 {
    u64::from(publisher) | u64::from(publisher) << 57
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mercato_protocol::id::PublicKey;
    use proptest::prelude::*;

    use super::*;

    fn mark(seq: u64, digest: u8) -> Mark {
        let (publisher, digest) = (PublicKey([7; 32]), Digest([digest; 32]));
        Mark { publisher, epoch: 1, seq, digest }
    }

    proptest! {
        /// Each neighbour has one word, the last; it is asked once for each.
        #[test]
        fn each_has_its_last_word(
            steps in prop::collection::vec((0_u8..4, 0_u32..6, 0_u64..3, 0_u8..2), 0..60),
        ) {
            let mut want = Want::new(0, Word::of(&mark(0, 0)), 0, 0);
            let mut model = BTreeMap::from([(0, (mark(0, 0), false))]);
            for (kind, peer, seq, digest) in steps {
                let said = mark(seq, digest);
                match kind {
                    0 => {
                        prop_assert_eq!(want.lose(peer), model.remove(&peer).is_some());
                    }
                    1 => {
                        let next = want.next();
                        let untried = model.iter().filter(|(_, (_, tried))| !tried);
                        prop_assert_eq!(next.is_some(), untried.count() > 0);
                        if let Some(next) = next {
                            want.tried.insert(next);
                            prop_assert!(!std::mem::replace(&mut model.get_mut(&next).unwrap().1, true));
                        }
                    }
                    2 => {
                        let wanted = |is: &Mark| is.supersedes(&said) || is.conflicts(&said);
                        model.retain(|_, (is, _)| wanted(is));
                        prop_assert_eq!(want.narrow(&Word::of(&said)), !model.is_empty());
                    }
                    _ => {
                        want.claim(peer, &said);
                        let same = model.get(&peer).is_some_and(|(is, _)| *is == said);
                        if !same {
                            model.insert(peer, (said, false));
                        }
                    }
                }
                for (seq, digest) in (0..3).flat_map(|seq| [(seq, 0), (seq, 1)]) {
                    let said = mark(seq, digest);
                    let holders: Vec<Place> = want.holders(&said).iter().collect();
                    let held = model.iter().filter(|(_, (is, _))| *is == said);
                    prop_assert_eq!(holders, held.map(|(peer, _)| *peer).collect::<Vec<_>>());
                    let proves = model.values().any(|(is, _)| is.conflicts(&said));
                    prop_assert_eq!(want.proves(&said), proves);
                }
            }
        }
    }
}
