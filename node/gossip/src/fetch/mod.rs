//! Fetching what neighbours advertise (IWANT): the latest of a publisher, from the neighbour
//! that advertised it first, then from the others.

mod advertised;
mod queue;
mod requests;

use std::collections::BTreeMap;

use mercato_protocol::gossip::{Mark, Pull};
use mercato_protocol::time::Now;

use crate::index::{NeighbourIndex, PublisherIndex};
use crate::interner::Keys;
use crate::limits;
use crate::prefetch::prefetch;
use crate::step::Step;
use crate::store::{Entry, Relation, Store};
use crate::table::Column;

use advertised::Fetch;
use queue::Queue;
use requests::Requests;

/// All that is being fetched, and of whom.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    queue: Queue,
    requests: Column<NeighbourIndex, Requests>,
}

impl Fetches {
    pub(crate) fn join(&mut self, peer: NeighbourIndex) {
        self.requests.set(peer, Requests::default());
    }

    /// What `peer` was asked for is asked of others.
    pub(crate) fn leave(&mut self, now: Now, peer: NeighbourIndex) {
        self.requests.take(peer);
        self.queue.leave(peer, now.mono_ms);
    }

    /// When [`take_due`](Self::take_due) is next needed; never is `u64::MAX`.
    pub(crate) fn next_ms(&self) -> u64 {
        self.queue.next_ms()
    }

    /// Gives all publishers' numbers back.
    pub(crate) fn release(&self, keys: &mut Keys) {
        self.queue.publishers().for_each(|publisher| keys.release(publisher));
    }

    /// Reads what is fetched of these publishers before it is worked on.
    pub(crate) fn prefetch(&self, publishers: impl Iterator<Item = PublisherIndex>) {
        prefetch(publishers.map(|publisher| self.queue.peek(publisher)));
    }

    pub(crate) fn is_asked_of(&self, publisher: PublisherIndex, peer: NeighbourIndex) -> bool {
        self.queue.get(publisher).is_some_and(|fetch| fetch.is_asked_of(peer))
    }

    /// Whether this neighbour may bring one more unknown publisher.
    pub(crate) fn admit(&mut self, now: Now, peer: NeighbourIndex) -> bool {
        self.requests.get_mut(peer).is_some_and(|requests| requests.admit(now.mono_ms))
    }

    /// `peer` holds this, of the publisher at this number. Gives the number if it is what is
    /// here; fetches what is later.
    pub(crate) fn on_advertised(
        &mut self,
        step: &mut Step<'_>,
        store: &mut Store,
        peer: NeighbourIndex,
        mark: &Mark,
        at: Option<PublisherIndex>,
    ) -> Option<PublisherIndex> {
        let now_ms = step.now.mono_ms;
        let (is_held, due_ms) = match store.relation(mark, at) {
            Relation::New => (false, now_ms),
            Relation::Later(rested_ms) => (true, rested_ms.max(now_ms)),
            Relation::Conflict => (true, now_ms),
            Relation::Same => {
                store.holders.set(at?, peer);
                return at;
            }
            Relation::Older => return None,
        };
        // It may have a number since a moment ago.
        let at = at.or_else(|| step.keys.find(&mark.publisher));
        if let Some(fetch) = at.and_then(|at| self.queue.get_mut(at)) {
            fetch.advertise(peer, mark);
            return None;
        }
        if self.has_room(peer) && (is_held || self.admits(step, store, peer, mark, at)) {
            self.count(Some(peer));
            let publisher = step.keys.hold(mark.publisher, at);
            self.queue.insert(publisher, mark, peer, due_ms);
        }
        None
    }

    /// Whether one more fetch may begin with what this neighbour advertises.
    fn has_room(&self, peer: NeighbourIndex) -> bool {
        let requests = self.requests.get(peer);
        requests.is_some_and(|requests| requests.first < limits::FETCHES_PER_NEIGHBOUR)
    }

    /// Whether there is room for a publisher of which nothing is here: for strangers others of
    /// them leave, but they come through a lane.
    fn admits(
        &mut self,
        step: &Step<'_>,
        store: &Store,
        peer: NeighbourIndex,
        mark: &Mark,
        at: Option<PublisherIndex>,
    ) -> bool {
        match store.is_known(step.neighbours, &mark.publisher, at) {
            true => store.known_publishers() <= limits::KNOWN_PUBLISHERS + limits::NEIGHBOURS,
            false => self.admit(step.now, peer),
        }
    }

    /// One fetch more, or one less, began with what this neighbour advertised.
    fn count(&mut self, first: Option<NeighbourIndex>) {
        if let Some(requests) = first.and_then(|first| self.requests.get_mut(first)) {
            requests.first += 1;
        }
    }

    fn discount(&mut self, first: Option<NeighbourIndex>) {
        if let Some(requests) = first.and_then(|first| self.requests.get_mut(first)) {
            requests.first = requests.first.saturating_sub(1);
        }
    }

    /// Takes what is due, to be asked for by [`ask`](Self::ask), and the neighbours that did not
    /// answer in time, once for each request.
    pub(crate) fn take_due(&mut self, now: Now) -> (Vec<PublisherIndex>, Vec<NeighbourIndex>) {
        let due = self.queue.take_due(now.mono_ms);
        let mut late = Vec::new();
        for publisher in &due {
            let fetch = self.queue.get_mut(*publisher);
            if let Some(peer) = fetch.and_then(Fetch::give_up) {
                if let Some(requests) = self.requests.get_mut(peer) {
                    requests.slow();
                }
                self.release_request(now, peer);
                late.push(peer);
            }
        }
        (due, late)
    }

    /// Adds to what each neighbour is asked for: of each publisher that is due, the next that
    /// advertises it.
    pub(crate) fn ask(
        &mut self,
        step: &mut Step<'_>,
        store: &Store,
        due: &[PublisherIndex],
        pulls: &mut BTreeMap<NeighbourIndex, Vec<Pull>>,
    ) {
        let room = due.len().min(limits::ASKED_OF_NEIGHBOUR);
        for publisher in due {
            if let Some((peer, pull)) = self.ask_next(step, store, *publisher) {
                pulls.entry(peer).or_insert_with(|| Vec::with_capacity(room)).push(pull);
            }
        }
    }

    /// Whom to ask next for what is fetched of this publisher, if there is anybody.
    fn ask_next(
        &mut self,
        step: &mut Step<'_>,
        store: &Store,
        publisher: PublisherIndex,
    ) -> Option<(NeighbourIndex, Pull)> {
        let Some(peer) = self.queue.get(publisher)?.next() else {
            let fetch = self.queue.remove(&mut step.keys, publisher)?;
            self.discount(fetch.first);
            return None;
        };
        let requests = self.requests.get_mut(peer)?;
        if requests.asked >= limits::ASKED_OF_NEIGHBOUR {
            requests.waiting.push_back(publisher);
            return None;
        }
        requests.asked += 1;
        let due_ms = step.now.mono_ms + requests.patience_ms();
        let due_ms = due_ms.next_multiple_of(limits::PATIENCE_STEP_MS);
        let is_whole = self.queue.ask(publisher, peer, step.now.mono_ms, due_ms);
        let body = store.entry(publisher).and_then(|entry| entry.news.0.body());
        let held = body.filter(|_| !is_whole).map(|body| body.prefix());
        Some((peer, Pull { publisher: step.keys.key(publisher)?, held }))
    }

    /// One answer of `peer` is not awaited any more: it is asked for what waits.
    fn release_request(&mut self, now: Now, peer: NeighbourIndex) {
        let Some(requests) = self.requests.get_mut(peer) else { return };
        requests.asked = requests.asked.saturating_sub(1);
        while let Some(publisher) = requests.waiting.pop_front() {
            let fetch = self.queue.get(publisher).filter(|fetch| fetch.is_parked());
            let Some(next) = fetch.map(Fetch::next) else { continue };
            self.queue.schedule(publisher, now.mono_ms);
            // Another may be asked for it by now.
            if next == Some(peer) {
                break;
            }
        }
    }

    /// `peer` sent what it holds of this publisher: if it was asked, its time is measured.
    pub(crate) fn on_answer(&mut self, now: Now, peer: NeighbourIndex, publisher: PublisherIndex) {
        let fetch = self.queue.get_mut(publisher);
        if let Some(asked_ms) = fetch.and_then(|fetch| fetch.answer(peer)) {
            if let Some(requests) = self.requests.get_mut(peer) {
                requests.measure(now.mono_ms.saturating_sub(asked_ms));
            }
            self.release_request(now, peer);
        }
    }

    /// The answer was less than what was advertised: the next neighbour is asked at once.
    pub(crate) fn on_older(&mut self, now: Now, publisher: PublisherIndex) {
        self.queue.schedule(publisher, now.mono_ms);
    }

    /// The answer came without its body, which was taken for one that is here: `peer` is asked
    /// once more, for all of it.
    pub(crate) fn on_missing_body(
        &mut self,
        now: Now,
        peer: NeighbourIndex,
        publisher: PublisherIndex,
    ) {
        let Some(fetch) = self.queue.get_mut(publisher) else { return };
        if !std::mem::replace(&mut fetch.is_whole, true) {
            fetch.ask_again(peer);
        }
        self.queue.schedule(publisher, now.mono_ms);
    }

    /// `held` is here now: of its publisher only what is later, or contradicts it, is fetched
    /// from now on. Who advertised `held` has it.
    pub(crate) fn settle(
        &mut self,
        step: &mut Step<'_>,
        store: &mut Store,
        publisher: PublisherIndex,
        held: &Mark,
    ) {
        let Some(fetch) = self.queue.get_mut(publisher) else { return };
        if store.entry(publisher).is_some() {
            fetch.holders(held).iter().for_each(|peer| store.holders.set(publisher, peer));
        }
        let (first, awaited) = (fetch.first, fetch.give_up());
        let rest = self.queue.narrow(&mut step.keys, publisher, held).map(|fetch| {
            let is_urgent = fetch.contradicts(held) || fetch.is_proof();
            let entry = store.entry(publisher).filter(|_| !is_urgent);
            (fetch.first, entry.map_or(0, Entry::rested_ms).max(step.now.mono_ms))
        });
        self.discount(first);
        if let Some((first, due_ms)) = rest {
            self.count(first);
            self.queue.schedule(publisher, due_ms);
        }
        if let Some(awaited) = awaited {
            self.release_request(step.now, awaited);
        }
    }
}
