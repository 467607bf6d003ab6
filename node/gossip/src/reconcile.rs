//! Comparing all that two neighbours hold: roots, then fingerprints of buckets, then the
//! marks in those that differ. The one that answers wants what it lacks, and tells what
//! the other lacks.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::gossip::{Fingerprint, Mark, Message};
use mercato_protocol::id::Digest;
use mercato_protocol::limits::GOSSIP_ITEMS;
use rand::RngExt as _;

use crate::gossip::{Gossip, Step};
use crate::limits;
use crate::store::Entry;
use crate::table::Place;

impl Gossip {
    /// With a random neighbour, now and then; also drops what is over.
    pub(crate) fn reconcile_due(&mut self, step: &mut Step<'_>) {
        let now = step.now;
        if self.neighbours.len() == 0 || self.reconcile_ms > now.mono_ms {
            return;
        }
        self.reconcile_ms = now.mono_ms + limits::RECONCILE_MS;
        for place in self.store.sweep(&mut step.keys, now) {
            self.holders.clear_place(place);
            self.delivered_to.clear_place(place);
        }
        self.pending_verdicts
            .retain(|giver| self.store.slot(giver.place).is_some_and(Entry::is_new));
        let count = self.neighbours.len() as u32;
        for (_, neighbour) in self.neighbours.iter_mut() {
            neighbour.is_told_later = self.rng.random_ratio(limits::TOLD_LATER.min(count), count);
        }
        let nth = self.rng.random_range(0..self.neighbours.len());
        let peer = self.neighbours.iter().nth(nth).map(|(peer, _)| peer);
        if let Some(peer) = peer {
            self.reconcile(step, peer);
        }
    }

    /// Opens a reconciliation, in the place of one that is under way.
    pub(crate) fn reconcile(&mut self, step: &mut Step<'_>, peer: Place) {
        let Some(neighbour) = self.neighbours.get_mut(peer) else { return };
        let session = self.rng.random();
        neighbour.opened = Some(session);
        let root = self.store.root(step.now, session);
        step.send(neighbour.key, Message::Root { session, root });
    }

    pub(crate) fn on_root(
        &mut self,
        step: &mut Step<'_>,
        peer: Place,
        session: u64,
        root: Fingerprint,
    ) {
        let now = step.now;
        let Some(neighbour) = self.neighbours.get_mut(peer) else { return };
        if neighbour.answer_ms > now.mono_ms {
            return;
        }
        neighbour.answer_ms = now.mono_ms + limits::ANSWER_ROOT_MS;
        if self.store.root(now, session) != root {
            neighbour.answered = Some(session);
            let fingerprints = self.store.buckets(now, session);
            step.send(neighbour.key, Message::Buckets { session, fingerprints });
        }
    }

    /// Sends all our marks in the buckets that differ, each bucket whole in one message.
    pub(crate) fn on_buckets(
        &mut self,
        step: &mut Step<'_>,
        peer: Place,
        session: u64,
        theirs: &[Fingerprint],
    ) {
        let Some(neighbour) = self.neighbours.get_mut(peer) else { return };
        if neighbour.opened.take_if(|opened| *opened == session).is_none() {
            return;
        }
        let peer = neighbour.key;
        let ours = self.store.buckets(step.now, session);
        let differs = |(_, (ours, theirs)): &(u32, (&Fingerprint, &Fingerprint))| ours != theirs;
        let differ = (0..).zip(ours.iter().zip(theirs)).filter(differs);
        let mut differ: BTreeMap<u32, Vec<Mark>> =
            differ.map(|(bucket, _)| (bucket, Vec::new())).collect();
        for mark in self.marks() {
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

    pub(crate) fn on_ids(
        &mut self,
        step: &mut Step<'_>,
        peer: Place,
        session: u64,
        buckets: &[u32],
        marks: &[Mark],
    ) {
        let Some(neighbour) = self.neighbours.get_mut(peer) else { return };
        if neighbour.answered != Some(session) {
            return;
        }
        // These marks are all that it holds there, whatever it said before.
        let is_there = |mark: &Mark| buckets.binary_search(&mark.bucket()).is_ok();
        let ours = self.store.slots().filter(|(_, slot)| is_there(slot.news.mark()));
        let ours: Vec<(Place, Mark)> =
            ours.map(|(place, slot)| (place, *slot.news.mark())).collect();
        ours.iter().for_each(|(place, _)| self.holders.clear(*place, peer));
        let places = step.keys.find_each(marks.iter().map(|mark| &mark.publisher));
        for (mark, at) in marks.iter().zip(places) {
            self.on_mark(step, peer, mark, at);
        }
        let theirs: BTreeSet<&Mark> = marks.iter().collect();
        let later = |ours: &Mark| {
            let least = Mark { digest: Digest([0; 32]), ..*ours };
            theirs.range(least..).next().is_some_and(|their| their.publisher == ours.publisher)
        };
        let untold = ours.iter().filter(|(_, ours)| !later(ours)).map(|(place, _)| *place);
        if let Some(neighbour) = self.neighbours.get_mut(peer) {
            let before = neighbour.untold.len();
            neighbour.untold.extend(untold);
            if neighbour.untold.len() > before {
                // Nobody told it in time.
                neighbour.unpulled = 0;
            }
            self.tell_ms = self.tell_ms.min(neighbour.tell_ms);
        }
    }
}
