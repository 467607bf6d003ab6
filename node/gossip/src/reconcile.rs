//! Anti-entropy: two neighbours compare all that they hold, so that whatever got lost is made up
//! for. First roots, then fingerprints of buckets, then the marks in the buckets that differ.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::gossip::{Fingerprint, Mark, Message};
use mercato_protocol::id::Digest;
use mercato_protocol::limits::GOSSIP_ITEMS;
use mercato_protocol::time::Now;
use rand::RngExt as _;

use crate::index::{NeighbourIndex, PublisherIndex};
use crate::limits;
use crate::step::Step;
use crate::store::Store;
use crate::table::Column;

/// The reconciliations with each neighbour, and when the next is opened.
#[derive(Debug, Default)]
pub(crate) struct Reconciler {
    sessions: Column<NeighbourIndex, Sessions>,
    /// When one is next opened with a random neighbour, monotonic.
    next_ms: u64,
}

/// The reconciliations with one neighbour.
#[derive(Debug, Default)]
struct Sessions {
    /// The one that we opened.
    opened: Option<u64>,
    /// The one that it opened, and we answered.
    answered: Option<u64>,
    /// When we answer the next, monotonic.
    answer_ms: u64,
}

impl Reconciler {
    /// A new neighbour is compared with at once, by one of the two.
    pub(crate) fn join(&mut self, step: &mut Step<'_>, store: &Store, peer: NeighbourIndex) {
        self.sessions.set(peer, Sessions::default());
        if step.neighbours.key(peer).is_some_and(|key| step.neighbours.me < key) {
            self.open(step, store, peer);
        }
    }

    /// The first neighbour begins a phase of its own.
    pub(crate) fn begin(&mut self, step: &mut Step<'_>) {
        self.next_ms = step.now.mono_ms + step.rng.random_range(0..limits::RECONCILE_MS);
    }

    /// Others tell us later what this neighbour told.
    pub(crate) fn leave(&mut self, now: Now, peer: NeighbourIndex) {
        self.sessions.take(peer);
        self.next_ms = now.mono_ms;
    }

    /// When [`take_due`](Self::take_due) is next needed, if there is a neighbour.
    pub(crate) fn next_ms(&self) -> u64 {
        self.next_ms
    }

    /// Whether one is to be opened now; the next is at a later time.
    pub(crate) fn take_due(&mut self, step: &Step<'_>) -> bool {
        let is_due = step.neighbours.keys.len() > 0 && self.next_ms <= step.now.mono_ms;
        if is_due {
            self.next_ms = step.now.mono_ms + limits::RECONCILE_MS;
        }
        is_due
    }

    /// Opens one with a random neighbour.
    pub(crate) fn open_any(&mut self, step: &mut Step<'_>, store: &Store) {
        let nth = step.rng.random_range(0..step.neighbours.keys.len());
        let peer = step.neighbours.keys.iter().nth(nth).map(|(peer, _)| peer);
        if let Some(peer) = peer {
            self.open(step, store, peer);
        }
    }

    /// Opens one, in the place of one that is under way.
    fn open(&mut self, step: &mut Step<'_>, store: &Store, peer: NeighbourIndex) {
        let Some(sessions) = self.sessions.get_mut(peer) else { return };
        let session = step.rng.random();
        sessions.opened = Some(session);
        let root = store.root(step.now, session);
        step.send(peer, Message::Root { session, root });
    }

    pub(crate) fn on_root(
        &mut self,
        step: &mut Step<'_>,
        store: &Store,
        peer: NeighbourIndex,
        session: u64,
        root: Fingerprint,
    ) {
        let now = step.now;
        let Some(sessions) = self.sessions.get_mut(peer) else { return };
        if sessions.answer_ms > now.mono_ms {
            return;
        }
        sessions.answer_ms = now.mono_ms + limits::ANSWER_ROOT_MS;
        if store.root(now, session) != root {
            sessions.answered = Some(session);
            let fingerprints = store.buckets(now, session);
            step.send(peer, Message::Buckets { session, fingerprints });
        }
    }

    /// Sends all our marks in the buckets that differ, each bucket whole in one message.
    pub(crate) fn on_buckets(
        &mut self,
        step: &mut Step<'_>,
        store: &Store,
        peer: NeighbourIndex,
        session: u64,
        theirs: &[Fingerprint],
    ) {
        let opened = self.sessions.get_mut(peer).map(|sessions| &mut sessions.opened);
        if opened.and_then(|opened| opened.take_if(|opened| *opened == session)).is_none() {
            return;
        }
        let ours = store.buckets(step.now, session);
        let differs = |(_, (ours, theirs)): &(u32, (&Fingerprint, &Fingerprint))| ours != theirs;
        let differ = (0..).zip(ours.iter().zip(theirs)).filter(differs);
        let mut differ: BTreeMap<u32, Vec<Mark>> =
            differ.map(|(bucket, _)| (bucket, Vec::new())).collect();
        for mark in store.held().map(|(_, entry)| entry.news.mark()) {
            if let Some(marks) = differ.get_mut(&mark.bucket())
                && marks.len() < GOSSIP_ITEMS
            {
                marks.push(*mark);
            }
        }
        let (mut buckets, mut marks) = (Vec::new(), Vec::new());
        for (bucket, more) in differ {
            if marks.len() + more.len() > GOSSIP_ITEMS {
                let (buckets, marks) = (std::mem::take(&mut buckets), std::mem::take(&mut marks));
                step.send(peer, Message::Ids { session, buckets, marks });
            }
            buckets.push(bucket);
            marks.extend(more);
        }
        if !buckets.is_empty() {
            step.send(peer, Message::Ids { session, buckets, marks });
        }
    }

    /// Whether this neighbour opened this one, and we answered it.
    pub(crate) fn is_answered(&self, peer: NeighbourIndex, session: u64) -> bool {
        self.sessions.get(peer).is_some_and(|sessions| sessions.answered == Some(session))
    }
}

/// Which of our publishers the other lacks, or has only older publications of, where `theirs` are
/// all of its marks.
pub(crate) fn lacking<'a>(
    ours: &'a [(PublisherIndex, Mark)],
    theirs: &'a [Mark],
) -> impl Iterator<Item = PublisherIndex> + 'a {
    let theirs: BTreeSet<&Mark> = theirs.iter().collect();
    let has = move |ours: &Mark| {
        let least = Mark { digest: Digest([0; 32]), ..*ours };
        theirs.range(least..).next().is_some_and(|their| their.publisher == ours.publisher)
    };
    ours.iter().filter(move |(_, ours)| !has(ours)).map(|(publisher, _)| *publisher)
}
