//! The room's state machine: who is a neighbour, and what came. Fetching is in `pull`,
//! telling in `push`, comparing in `reconcile`, judging in `judge`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_protocol::gossip::{Mark, Message};
use mercato_protocol::id::PublicKey;
use mercato_protocol::time::{Deadline, Now};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

use crate::item::News;
use crate::limits;
use crate::neighbour::Neighbour;
use crate::opened::Opened;
use crate::shelf::{Shelf, State};
use crate::vocabulary::{Effect, Input};
use crate::want::Wants;

/// How offers spread. See the crate's page.
#[derive(Debug)]
pub struct Gossip {
    pub(crate) me: PublicKey,
    pub(crate) rng: ChaCha12Rng,
    pub(crate) known: Arc<BTreeSet<PublicKey>>,
    pub(crate) neighbours: BTreeMap<PublicKey, Neighbour>,
    pub(crate) shelf: Shelf,
    pub(crate) wants: Wants,
    /// Who brought what is not judged yet, by publisher.
    pub(crate) givers: BTreeMap<PublicKey, PublicKey>,
    /// Until when they are, monotonic.
    pub(crate) shunned: BTreeMap<PublicKey, u64>,
    /// Nobody is to be told anything before, monotonic.
    pub(crate) tell_ms: u64,
    /// When a neighbour is next compared with, monotonic.
    pub(crate) reconcile_ms: u64,
}

impl Gossip {
    /// Knows nothing yet. `me` is the key that this cluster publishes with.
    pub fn new(me: PublicKey, seed: [u8; 32]) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        Self {
            me,
            shelf: Shelf::new(rng.random()),
            rng,
            known: Arc::default(),
            neighbours: BTreeMap::new(),
            wants: Wants::default(),
            givers: BTreeMap::new(),
            shunned: BTreeMap::new(),
            tell_ms: u64::MAX,
            reconcile_ms: 0,
        }
    }

    /// Takes in what happened; says what is to be done.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Connected(peer) => self.on_connected(now, peer, &mut effects),
            Input::Disconnected(peer) => self.leave(now, &peer),
            Input::Received { peer, message } if self.neighbours.contains_key(&peer) => {
                self.on_message(now, peer, message, &mut effects);
            }
            // A last word of one that has gone.
            Input::Received { .. } => {}
            Input::Publish(news) => self.publish(now, news),
            Input::Judged(verdicts) => self.on_judged(now, &verdicts, &mut effects),
            Input::Known(publishers) => {
                self.known = publishers;
                self.recount();
            }
            Input::Tick => {}
        }
        self.ask_due(now, &mut effects);
        self.reconcile_due(now, &mut effects);
        self.tell_due(now, &mut effects);
        effects
    }

    /// When [`Input::Tick`] is next needed.
    pub fn wakeup(&self) -> Option<Deadline> {
        let tell = (self.tell_ms < u64::MAX).then_some(self.tell_ms);
        let reconcile = (!self.neighbours.is_empty()).then_some(self.reconcile_ms);
        [tell, self.wants.wakeup_ms(), reconcile].into_iter().flatten().min().map(Deadline::Mono)
    }

    /// What is held, of each publisher one.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.news().map(News::mark)
    }

    /// What is held of `publisher`.
    pub fn latest(&self, publisher: &PublicKey) -> Option<&News> {
        self.shelf.of(publisher).filter(|slot| slot.is_held()).map(|slot| &slot.news)
    }

    /// Neighbours that are not shunned.
    pub fn neighbours(&self) -> impl Iterator<Item = &PublicKey> {
        self.neighbours.keys()
    }

    /// What is held, of each publisher one, with its body.
    pub fn news(&self) -> impl Iterator<Item = &News> {
        self.shelf.slots().filter(|(_, slot)| slot.is_held()).map(|(_, slot)| &slot.news)
    }

    fn on_connected(&mut self, now: Now, peer: PublicKey, effects: &mut Vec<Effect>) {
        self.shunned.retain(|_, until_ms| *until_ms > now.mono_ms);
        if self.shunned.contains_key(&peer) || self.neighbours.len() == limits::NEIGHBOURS {
            return;
        }
        if self.neighbours.is_empty() {
            let phase_ms = self.rng.random_range(0..limits::RECONCILE_MS);
            self.reconcile_ms = now.mono_ms + phase_ms;
        }
        let young_ms = now.mono_ms.saturating_sub(limits::SETTLED_MS);
        let slots = self.shelf.slots();
        let young = slots.filter(|(_, slot)| slot.is_held() && slot.since_ms() >= young_ms);
        let untold = young.map(|(place, _)| place).collect();
        self.neighbours.insert(peer, Neighbour::new(untold));
        self.tell_ms = 0;
        self.recount();
        // One of the two is enough.
        if self.me < peer {
            self.reconcile(now, peer, effects);
        }
    }

    /// `peer` is no neighbour any more.
    pub(crate) fn leave(&mut self, now: Now, peer: &PublicKey) {
        if self.neighbours.remove(peer).is_some() {
            self.wants.lose(peer, now.mono_ms);
            self.recount();
        }
    }

    fn on_message(&mut self, now: Now, peer: PublicKey, opened: Opened, effects: &mut Vec<Effect>) {
        match opened.message {
            Message::Announce { marks } => self.on_marks(now, peer, &marks),
            Message::Pull { wants } => self.on_pull(peer, &wants, effects),
            Message::Push { .. } => self.on_push(now, peer, &opened, effects),
            Message::Root { session, root } => self.on_root(now, peer, session, root, effects),
            Message::Buckets { session, fingerprints } => {
                self.on_buckets(now, peer, session, &fingerprints, effects);
            }
            Message::Ids { session, buckets, marks } => {
                self.on_ids(now, peer, session, &buckets, &marks);
            }
        }
    }

    /// What we say ourselves needs no judgement.
    fn publish(&mut self, now: Now, news: News) {
        let held = self.shelf.of(&news.mark().publisher).map(|slot| *slot.news.mark());
        if held.is_none_or(|held| news.mark().supersedes(&held)) {
            let place = self.shelve(now, news, State::Held);
            self.tell_others(place);
        }
    }

    /// Puts what is later on the shelf. Nobody is known to hold it.
    pub(crate) fn shelve(&mut self, now: Now, news: News, state: State) -> u32 {
        let stranger = !self.is_known(&news.mark().publisher);
        let place = self.shelf.put(now, news, state, stranger);
        self.neighbours.values_mut().for_each(|neighbour| neighbour.knows.clear(place));
        place
    }

    pub(crate) fn is_known(&self, publisher: &PublicKey) -> bool {
        *publisher == self.me
            || self.neighbours.contains_key(publisher)
            || self.known.contains(publisher)
    }

    fn recount(&mut self) {
        let (me, known, neighbours) = (self.me, &self.known, &self.neighbours);
        self.shelf.recount(|publisher| {
            *publisher == me || neighbours.contains_key(publisher) || known.contains(publisher)
        });
    }
}

pub(crate) fn send(peer: PublicKey, message: Message) -> Effect {
    Effect::Send { peer, message }
}
