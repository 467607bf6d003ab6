//! The room's state machine: who is a neighbour, and what came. Fetching is in `pull`,
//! telling in `push`, comparing in `reconcile`, judging in `judge`.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::MutexGuard;

use mercato_protocol::bounded::Bounded;
use mercato_protocol::gossip::{Mark, Message};
use mercato_protocol::id::PublicKey;
use mercato_protocol::time::{Deadline, Now};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

use crate::bit_matrix::BitMatrix;
use crate::interner::{Interner, Keys, Numbers};
use crate::item::News;
use crate::limits;
use crate::neighbour::Neighbour;
use crate::opened::Opened;
use crate::store::{Entry, State, Store};
use crate::table::{Place, Table};
use crate::vocabulary::{Effect, Input};
use crate::want::Wants;

/// How offers spread. See the crate's page.
#[derive(Debug)]
pub struct Gossip {
    pub(crate) interner: Interner,
    pub(crate) me: PublicKey,
    pub(crate) rng: ChaCha12Rng,
    pub(crate) known: Numbers,
    pub(crate) neighbours: Table<Neighbour>,
    /// Who holds what is in the store.
    pub(crate) holders: BitMatrix,
    /// Who had the latest from us: a renewal with the same body is sent to it unasked.
    pub(crate) delivered_to: BitMatrix,
    pub(crate) store: Store,
    pub(crate) wants: Wants,
    /// Who brought what is not judged yet, in the order in which it came, in which it is judged.
    pub(crate) pending_verdicts: VecDeque<PendingVerdict>,
    /// Until when they are, monotonic.
    pub(crate) shunned: Bounded<PublicKey, u64>,
    /// Nobody is to be told anything before, monotonic.
    pub(crate) tell_ms: u64,
    /// Until then nobody is taken for one that others tell sooner: what is known of that is
    /// of before the last neighbour came. Monotonic.
    pub(crate) settled_ms: u64,
    /// When those are told next that others tell sooner, monotonic.
    pub(crate) later_ms: u64,
    /// When a neighbour is next compared with, monotonic.
    pub(crate) reconcile_ms: u64,
}

/// What one input is taken in with, and what comes of it.
pub(crate) struct Step<'a> {
    pub(crate) now: Now,
    pub(crate) keys: MutexGuard<'a, Keys>,
    pub(crate) effects: Vec<Effect>,
}

impl Step<'_> {
    pub(crate) fn send(&mut self, peer: PublicKey, message: Message) {
        self.effects.push(Effect::Send { peer, message });
    }
}

/// The neighbour that brought something.
#[derive(Debug)]
pub(crate) struct PendingVerdict {
    /// Of what it brought, in the store.
    pub(crate) place: Place,
    pub(crate) peer: Place,
    pub(crate) unasked: bool,
}

impl Gossip {
    /// Knows nothing yet. `me` is the key that this cluster publishes with.
    pub fn new(me: PublicKey, seed: [u8; 32], interner: Interner) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        Self {
            me,
            interner,
            known: Numbers::default(),
            store: Store::default(),
            neighbours: Table::new(rng.random()),
            holders: BitMatrix::default(),
            delivered_to: BitMatrix::default(),
            wants: Wants::new(),
            pending_verdicts: VecDeque::new(),
            shunned: Bounded::new(limits::SHUNNED),
            tell_ms: u64::MAX,
            settled_ms: 0,
            later_ms: 0,
            reconcile_ms: 0,
            rng,
        }
    }

    /// Takes in what happened; says what is to be done.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let interner = self.interner.clone();
        let step = &mut Step { now, keys: interner.keys(), effects: Vec::new() };
        match input {
            Input::Connected(peer) => self.on_connected(step, peer),
            Input::Disconnected(peer) => {
                if let Some(place) = self.neighbours.find(&peer) {
                    self.leave(step, place);
                }
            }
            Input::Received { peer, message } => {
                // It may be a last word of one that has gone.
                if let Some(from) = self.neighbours.find(&peer) {
                    self.on_message(step, from, message);
                }
            }
            Input::Publish(news) => self.publish(step, news),
            Input::Judged(verdicts) => self.on_judged(step, &verdicts),
            Input::Known(publishers) => {
                self.known.clear(&mut step.keys);
                publishers.iter().for_each(|key| self.known.insert(&mut step.keys, *key));
                self.recount(&mut step.keys);
            }
            Input::AlsoKnown(publisher) => {
                self.known.insert(&mut step.keys, publisher);
                let at = step.keys.find(&publisher);
                let again = at.filter(|at| self.store.acquaint(*at));
                self.forget(&mut step.keys, again);
            }
            Input::Tick => {}
        }
        self.ask_due(step);
        self.reconcile_due(step);
        self.tell_due(step);
        std::mem::take(&mut step.effects)
    }

    /// When [`Input::Tick`] is next needed.
    pub fn wakeup(&self) -> Option<Deadline> {
        let tell = (self.tell_ms < u64::MAX).then_some(self.tell_ms);
        let reconcile = (self.neighbours.len() > 0).then_some(self.reconcile_ms);
        [tell, self.wants.wakeup_ms(), reconcile].into_iter().flatten().min().map(Deadline::Mono)
    }

    /// What is held, of each publisher one.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.news().map(News::mark)
    }

    /// What is held of `publisher`.
    pub fn latest(&self, publisher: &PublicKey) -> Option<&News> {
        let place = self.interner.keys().find(publisher)?;
        self.store.slot(place).filter(|slot| slot.is_held()).map(|slot| &slot.news)
    }

    /// Neighbours that are not shunned.
    pub fn neighbours(&self) -> impl Iterator<Item = &PublicKey> {
        self.neighbours.iter().map(|(_, neighbour)| &neighbour.key)
    }

    /// What is held, of each publisher one, with its body.
    pub fn news(&self) -> impl Iterator<Item = &News> {
        self.store.slots().filter(|(_, slot)| slot.is_held()).map(|(_, slot)| &slot.news)
    }

    /// Whether nothing is taken from this peer now, since it brought too much that is forged.
    pub fn shuns(&self, now: Now, peer: &PublicKey) -> bool {
        self.shunned.get(peer).is_some_and(|until_ms| *until_ms > now.mono_ms)
    }

    fn on_connected(&mut self, step: &mut Step<'_>, peer: PublicKey) {
        let now = step.now;
        if self.shuns(now, &peer) || self.neighbours.len() == limits::NEIGHBOURS {
            return;
        }
        if self.neighbours.len() == 0 {
            let phase_ms = self.rng.random_range(0..limits::RECONCILE_MS);
            self.reconcile_ms = now.mono_ms + phase_ms;
        }
        let slots = self.store.slots();
        let young = slots.filter(|(_, slot)| slot.is_held() && !slot.is_settled(now));
        let untold = young.map(|(place, _)| place).collect();
        let place = self.neighbours.insert(Neighbour::new(now, peer, untold));
        self.tell_ms = 0;
        self.settled_ms = now.mono_ms + limits::UNSETTLED_MS;
        self.recount(&mut step.keys);
        // One of the two is enough.
        if self.me < peer {
            self.reconcile(step, place);
        }
    }

    /// `peer` is no neighbour any more.
    pub(crate) fn leave(&mut self, step: &mut Step<'_>, peer: Place) {
        let now = step.now;
        if self.neighbours.remove(peer).is_some() {
            self.wants.lose(peer, now.mono_ms);
            self.holders.clear_peer(peer);
            self.delivered_to.clear_peer(peer);
            self.pending_verdicts.retain(|giver| giver.peer != peer);
            // Others tell us later what it told.
            self.reconcile_ms = now.mono_ms;
            self.recount(&mut step.keys);
        }
    }

    fn on_message(&mut self, step: &mut Step<'_>, peer: Place, opened: Opened) {
        let forged = opened.forged() as u64;
        match opened.message {
            Message::Announce { marks } => self.on_announced(step, peer, &marks),
            Message::Pull { wants } => self.on_pull(step, peer, &wants),
            Message::Push { .. } => {
                self.on_push(step, peer, forged, (opened.carried, opened.unopened));
            }
            Message::Root { session, root } => self.on_root(step, peer, session, root),
            Message::Buckets { session, fingerprints } => {
                self.on_buckets(step, peer, session, &fingerprints);
            }
            Message::Ids { session, buckets, marks } => {
                self.on_ids(step, peer, session, &buckets, &marks);
            }
        }
    }

    /// What is kept of ten thousand publishers is far away from a processor, which fetches many
    /// things in the time of one if it need not know one for the next. So what is about to be
    /// worked on is looked at before, without a question.
    pub(crate) fn read_ahead(&self, places: impl Iterator<Item = Place> + Clone) {
        let entries: usize = places.clone().map(|place| self.store.peek(place)).sum();
        let rows = |place| self.holders.peek(place) + self.delivered_to.peek(place);
        let rows: usize = places.clone().map(rows).sum();
        let lacked = places.filter(|place| self.store.peek(*place) == 0);
        let wants: usize = lacked.map(|place| self.wants.peek(place)).sum();
        black_box((entries, rows, wants));
    }

    /// What we say ourselves needs no judgement.
    fn publish(&mut self, step: &mut Step<'_>, news: News) {
        let at = step.keys.find(&news.mark().publisher);
        let held = at.and_then(|at| self.store.slot(at)).map(|slot| slot.news.mark());
        if held.is_none_or(|held| news.mark().supersedes(held)) {
            let place = self.shelve(step, news, State::Held, at);
            let renews = self.delivered_to.any(place);
            let audience = self.audience(step.now);
            self.tell_others(&audience, place, renews);
        }
    }

    /// Puts what is later in the store, at the number of its publisher if that has one. Nobody
    /// is known to hold it.
    pub(crate) fn shelve(
        &mut self,
        step: &mut Step<'_>,
        news: News,
        state: State,
        at: Option<Place>,
    ) -> Place {
        let before = at.and_then(|at| self.store.slot(at));
        if before.is_some_and(Entry::is_new) {
            self.pending_verdicts.retain(|giver| Some(giver.place) != at);
        }
        let stranger = !self.is_known(&news.mark().publisher, at);
        if stranger && before.is_none() {
            let leave = self.store.crowded(1);
            self.forget(&mut step.keys, leave);
        }
        let (place, renews) = self.store.put(step, news, state, at, stranger);
        for grid in [&mut self.holders, &mut self.delivered_to] {
            grid.expect(self.store.room());
        }
        self.holders.clear_place(place);
        if !renews {
            self.delivered_to.clear_place(place);
        }
        place
    }

    /// Whether the publisher there is known.
    pub(crate) fn is_known(&self, publisher: &PublicKey, at: Option<Place>) -> bool {
        is_known(self.me, &self.known, &self.neighbours, publisher, at)
    }

    /// Whoever was a neighbour may be a stranger now: there is no more room for those for that.
    fn recount(&mut self, keys: &mut Keys) {
        let Self { me, known, neighbours, store, .. } = self;
        let is_known = |key: &PublicKey, at| is_known(*me, known, neighbours, key, Some(at));
        let again = store.recount(is_known);
        self.forget(keys, again);
        let leave = self.store.crowded(0);
        self.forget(keys, leave);
    }

    /// Nothing is known of the publishers there any more.
    fn forget(&mut self, keys: &mut Keys, places: impl IntoIterator<Item = Place>) {
        for place in places {
            self.store.remove(keys, place);
            self.holders.clear_place(place);
            self.delivered_to.clear_place(place);
        }
    }
}

fn is_known(
    me: PublicKey,
    known: &Numbers,
    neighbours: &Table<Neighbour>,
    publisher: &PublicKey,
    at: Option<Place>,
) -> bool {
    at.is_some_and(|at| known.has(at)) || *publisher == me || neighbours.find(publisher).is_some()
}

impl Drop for Gossip {
    /// Others may use the numbers.
    fn drop(&mut self) {
        let mut keys = self.interner.keys();
        self.store.slots().for_each(|(place, _)| keys.release(place));
        self.wants.publishers().for_each(|place| keys.release(place));
        self.known.clear(&mut keys);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use mercato_protocol::gossip::Mark;
    use mercato_protocol::id::{Digest, FederationId};

    use super::*;

    #[test]
    fn one_that_ends_gives_its_numbers_back() {
        let key = |n| PublicKey([n; 32]);
        let interner = Interner::new(7);
        let [mut one, mut other] = [1, 2].map(|n| Gossip::new(key(n), [n; 32], interner.clone()));
        let now = Now::default();
        for gossip in [&mut one, &mut other] {
            let known: BTreeSet<PublicKey> = (10..20).map(key).collect();
            gossip.handle(now, Input::Known(Arc::new(known)));
            gossip.handle(now, Input::Connected(key(3)));
            let mark = |n| Mark { publisher: key(n), epoch: 1, seq: 1, digest: Digest([n; 32]) };
            let message = Message::Announce { marks: (15..25).map(mark).collect() };
            let message = Opened::open(message, FederationId::lan(), now);
            let asked = gossip.handle(now, Input::Received { peer: key(3), message });
            assert!(matches!(&asked[..], [Effect::Send { message: Message::Pull { wants }, .. }]
                if wants.len() == 10));
        }
        assert_eq!(interner.keys().len(), 15);
        drop(one);
        assert_eq!(interner.keys().len(), 15);
        drop(other);
        assert_eq!(interner.keys().len(), 0);
    }
}
