//! The latest publication of each publisher, at the publisher's number, and which neighbours
//! have it: an entry of 16 bytes besides what is shared, and two bits for each neighbour.

mod entry;

use std::collections::VecDeque;

use mercato_protocol::gossip::{Fingerprint, Mark};
use mercato_protocol::id::PublicKey;
use mercato_protocol::limits::BUCKETS;
use mercato_protocol::time::Now;

use crate::bit_matrix::BitMatrix;
use crate::index::{Index as _, NeighbourIndex, PublisherIndex};
use crate::input::Verdict;
use crate::interner::{Keys, Numbers};
use crate::item::News;
use crate::limits;
use crate::neighbours::Neighbours;
use crate::opened::{Claim, Kind};
use crate::prefetch::prefetch;
use crate::step::Step;
use crate::table::Column;

pub(crate) use entry::{Entry, Relation, State};

/// What is known of all publishers.
#[derive(Debug, Default)]
pub(crate) struct Store {
    entries: Column<PublisherIndex, Entry>,
    /// How many entries there are.
    count: usize,
    /// How many of them are of unknown publishers.
    strangers: usize,
    /// Publishers that the application names as known.
    known: Numbers,
    /// Which neighbours hold the latest of a publisher.
    pub(crate) holders: BitMatrix,
    /// Which neighbours had the latest from us: a renewal with the same body is sent to them
    /// unasked.
    pub(crate) delivered_to: BitMatrix,
    /// New publications, in the order in which they came, in which they are judged.
    pending_verdicts: VecDeque<PendingVerdict>,
}

/// Who brought a publication that is not judged yet.
#[derive(Debug)]
struct PendingVerdict {
    publisher: PublisherIndex,
    peer: NeighbourIndex,
    is_unasked: bool,
}

/// A publication that the application has given its verdict on.
pub(crate) struct Judged {
    pub(crate) publisher: PublisherIndex,
    /// The neighbour that brought it, if it still is one.
    pub(crate) peer: Option<NeighbourIndex>,
    /// Whether that neighbour sent it unasked.
    pub(crate) is_unasked: bool,
}

impl Store {
    pub(crate) fn entry(&self, publisher: PublisherIndex) -> Option<&Entry> {
        self.entries.get(publisher)
    }

    /// All that is held, of each publisher one.
    pub(crate) fn held(&self) -> impl Iterator<Item = (PublisherIndex, &Entry)> {
        self.entries.iter().filter(|(_, entry)| entry.is_held())
    }

    /// How many known publishers there are: the others share the lanes.
    pub(crate) fn known_publishers(&self) -> usize {
        self.count - self.strangers
    }

    /// Whether the application named this publisher as known.
    pub(crate) fn is_named(&self, at: Option<PublisherIndex>) -> bool {
        at.is_some_and(|at| self.known.has(at))
    }

    /// Whether a publisher is known: named, a neighbour, or ourselves.
    pub(crate) fn is_known(
        &self,
        neighbours: &Neighbours,
        publisher: &PublicKey,
        at: Option<PublisherIndex>,
    ) -> bool {
        self.is_named(at) || neighbours.include(publisher)
    }

    /// How a mark compares with what is known of its publisher, which is at this number.
    pub(crate) fn relation(&self, mark: &Mark, at: Option<PublisherIndex>) -> Relation {
        let entry = at.and_then(|at| self.entry(at));
        entry.map_or(Relation::New, |entry| entry.relation(mark))
    }

    /// Whether this may come without having been asked for.
    pub(crate) fn allows_unasked(
        &self,
        neighbours: &Neighbours,
        now: Now,
        claim: &Claim,
        at: Option<PublisherIndex>,
    ) -> bool {
        match at.and_then(|at| self.entry(at)) {
            Some(entry) => entry.allows_unasked(now, claim),
            None => {
                let is_header = matches!(claim.kind, Kind::Header(_));
                !is_header && self.is_known(neighbours, &claim.mark.publisher, at)
            }
        }
    }

    /// Reads the entries of these publishers before they are worked on.
    pub(crate) fn prefetch(&self, publishers: impl Iterator<Item = PublisherIndex> + Clone) {
        prefetch(publishers.clone().map(|at| usize::from(self.entry(at).is_some())));
        prefetch(publishers.map(|at| self.holders.peek(at) + self.delivered_to.peek(at)));
    }

    /// These publishers are known from now on, and no others.
    pub(crate) fn name<'a>(
        &mut self,
        step: &mut Step<'_>,
        publishers: impl Iterator<Item = &'a PublicKey>,
    ) {
        self.known.clear(&mut step.keys);
        publishers.for_each(|key| self.known.insert(&mut step.keys, *key));
        self.recount(step);
    }

    /// This publisher is known from now on, too.
    pub(crate) fn name_also(&mut self, step: &mut Step<'_>, publisher: PublicKey) {
        self.known.insert(&mut step.keys, publisher);
        let Some(at) = step.keys.find(&publisher) else { return };
        let Some(entry) = self.entries.get_mut(at).filter(|entry| entry.is_stranger) else {
            return;
        };
        entry.is_stranger = false;
        self.strangers -= 1;
        if entry.may_count_now() {
            self.forget(&mut step.keys, [at]);
        }
    }

    /// Tells strangers from known publishers anew, since neighbours have come or gone. What may
    /// count now is forgotten, so that it is fetched again; strangers beyond their bound leave.
    pub(crate) fn recount(&mut self, step: &mut Step<'_>) {
        self.strangers = 0;
        let mut again = Vec::new();
        for (at, entry) in self.entries.iter_mut() {
            let was_stranger = entry.is_stranger;
            let publisher = &entry.news.mark().publisher;
            entry.is_stranger = !self.known.has(at) && !step.neighbours.include(publisher);
            self.strangers += usize::from(entry.is_stranger);
            if was_stranger && !entry.is_stranger && entry.may_count_now() {
                again.push(at);
            }
        }
        self.forget(&mut step.keys, again);
        let leave = self.crowded(0);
        self.forget(&mut step.keys, leave);
    }

    /// Puts what is later in the place of what is known of its publisher, which is at this
    /// number if it has one. Nobody is known to hold it.
    pub(crate) fn put(
        &mut self,
        step: &mut Step<'_>,
        news: News,
        state: State,
        at: Option<PublisherIndex>,
    ) -> PublisherIndex {
        let before = at.and_then(|at| Some((at, self.entries.get_mut(at)?)));
        let (publisher, renews) = if let Some((at, entry)) = before {
            if entry.is_new() {
                self.pending_verdicts.retain(|pending| pending.publisher != at);
            }
            (at, entry.replace(step.now, news, state))
        } else {
            (self.insert(step, news, state, at), false)
        };
        self.holders.clear_publisher(publisher);
        if !renews {
            self.delivered_to.clear_publisher(publisher);
        }
        publisher
    }

    fn insert(
        &mut self,
        step: &mut Step<'_>,
        news: News,
        state: State,
        at: Option<PublisherIndex>,
    ) -> PublisherIndex {
        let key = news.mark().publisher;
        let is_stranger = !self.is_known(step.neighbours, &key, at);
        if is_stranger {
            let leave = self.crowded(1);
            self.forget(&mut step.keys, leave);
        }
        let keys = &mut *step.keys;
        let publisher = keys.hold(key, at);
        let at = publisher.position();
        // There may be as many as there are numbers.
        let room = if keys.len() > at + at / 8 { keys.len() } else { at + at / 8 + 64 };
        self.entries.reserve(publisher, room);
        self.entries.set(publisher, Entry::new(step.now, news, state, is_stranger));
        self.count += 1;
        self.strangers += usize::from(is_stranger);
        for matrix in [&mut self.holders, &mut self.delivered_to] {
            matrix.expect(self.entries.capacity());
        }
        publisher
    }

    /// Takes what `peer` brought, which is later than what is here and not judged yet.
    pub(crate) fn learn(
        &mut self,
        step: &mut Step<'_>,
        peer: NeighbourIndex,
        news: News,
        at: Option<PublisherIndex>,
        is_unasked: bool,
    ) -> PublisherIndex {
        let publisher = self.put(step, news, State::New, at);
        self.holders.set(publisher, peer);
        self.pending_verdicts.push_back(PendingVerdict { publisher, peer, is_unasked });
        publisher
    }

    /// Holds what was accepted; of what was not only the number is kept. None: what this mark
    /// names is not waiting for a verdict.
    pub(crate) fn judge(&mut self, keys: &Keys, mark: &Mark, verdict: Verdict) -> Option<Judged> {
        let is_judged = |at: &PublisherIndex| {
            let entry = self.entry(*at);
            entry.is_some_and(|entry| entry.is_new() && entry.news.mark() == mark)
        };
        // Mostly what came first is judged first.
        let first = self.pending_verdicts.front().map(|pending| pending.publisher);
        let publisher =
            first.filter(is_judged).or_else(|| keys.find(&mark.publisher).filter(is_judged))?;
        let pending = self.pending_verdicts.iter().position(|it| it.publisher == publisher);
        let pending = pending.and_then(|at| self.pending_verdicts.remove(at));
        let entry = self.entries.get_mut(publisher)?;
        match verdict {
            Verdict::Accept => entry.state = State::Held,
            Verdict::Ignore | Verdict::Reject => entry.end(),
        }
        let is_unasked = pending.as_ref().is_some_and(|pending| pending.is_unasked);
        Some(Judged { publisher, peer: pending.map(|pending| pending.peer), is_unasked })
    }

    /// `peer` is no neighbour any more.
    pub(crate) fn leave(&mut self, step: &mut Step<'_>, peer: NeighbourIndex) {
        self.holders.clear_peer(peer);
        self.delivered_to.clear_peer(peer);
        self.pending_verdicts.retain(|pending| pending.peer != peer);
        self.recount(step);
    }

    /// Ends what has expired, and forgets what no peer would take any more.
    pub(crate) fn sweep(&mut self, step: &mut Step<'_>) {
        let now = step.now;
        let mut forgotten = Vec::new();
        for (at, entry) in self.entries.iter_mut() {
            if entry.news.0.ends_ms < now.wall_ms {
                entry.end();
            }
            if entry.is_forgotten(now) {
                forgotten.push(at);
            }
        }
        self.forget(&mut step.keys, forgotten);
        let is_new = |pending: &PendingVerdict| {
            self.entries.get(pending.publisher).is_some_and(Entry::is_new)
        };
        self.pending_verdicts.retain(is_new);
    }

    /// Gives all publishers' numbers back.
    pub(crate) fn release(&mut self, keys: &mut Keys) {
        self.entries.iter().for_each(|(at, _)| keys.release(at));
        self.known.clear(keys);
    }

    /// The fingerprint of all that is settled.
    pub(crate) fn root(&self, now: Now, session: u64) -> Fingerprint {
        Fingerprint::of(session, self.settled(now))
    }

    /// The fingerprint of each bucket of what is settled.
    pub(crate) fn buckets(&self, now: Now, session: u64) -> Vec<Fingerprint> {
        let mut buckets = vec![Fingerprint::default(); BUCKETS];
        for mark in self.settled(now) {
            buckets[mark.bucket() as usize].add(session, mark);
        }
        buckets
    }

    /// All that is known in these buckets, which ascend.
    pub(crate) fn in_buckets(&self, buckets: &[u32]) -> Vec<(PublisherIndex, Mark)> {
        let marks = self.entries.iter().map(|(at, entry)| (at, *entry.news.mark()));
        marks.filter(|(_, mark)| buckets.binary_search(&mark.bucket()).is_ok()).collect()
    }

    fn settled(&self, now: Now) -> impl Iterator<Item = &Mark> {
        let settled = self.entries.iter().filter(move |(_, entry)| entry.is_settled(now));
        settled.map(|(_, entry)| entry.news.mark())
    }

    /// Which strangers leave for so many more, if there are too many.
    fn crowded(&self, more: usize) -> Vec<PublisherIndex> {
        let over = (self.strangers + more).saturating_sub(limits::UNKNOWN_PUBLISHERS);
        if over == 0 {
            return Vec::new();
        }
        let mut may_leave: Vec<_> = self.entries.iter().collect();
        may_leave.retain(|(_, entry)| entry.is_stranger && !entry.is_new());
        let count = over.max(limits::UNKNOWN_LEAVE).min(may_leave.len());
        if count < may_leave.len() {
            may_leave.select_nth_unstable_by_key(count, |(at, entry)| (entry.age(), *at));
        }
        may_leave.iter().take(count).map(|(at, _)| *at).collect()
    }

    /// Nothing is known of these publishers any more.
    fn forget(&mut self, keys: &mut Keys, publishers: impl IntoIterator<Item = PublisherIndex>) {
        for at in publishers {
            if let Some(entry) = self.entries.take(at) {
                self.count -= 1;
                self.strangers -= usize::from(entry.is_stranger);
                keys.release(at);
            }
            self.holders.clear_publisher(at);
            self.delivered_to.clear_publisher(at);
        }
    }
}
