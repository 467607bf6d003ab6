//! The room's state machine: who is a neighbour, and what came. Fetching is in `pull`,
//! telling in `push`, comparing in `reconcile`, judging in `judge`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_protocol::gossip::{Mark, Message};
use mercato_protocol::id::PublicKey;
use mercato_protocol::time::{Deadline, Now};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

use crate::grid::Grid;
use crate::item::News;
use crate::limits;
use crate::neighbour::Neighbour;
use crate::opened::Opened;
use crate::shelf::{Shelf, State};
use crate::table::{Place, Table};
use crate::vocabulary::{Effect, Input};
use crate::want::Wants;

/// How offers spread. See the crate's page.
#[derive(Debug)]
pub struct Gossip {
    pub(crate) me: PublicKey,
    pub(crate) rng: ChaCha12Rng,
    pub(crate) known: Arc<BTreeSet<PublicKey>>,
    pub(crate) neighbours: Table<Neighbour>,
    /// Who holds what is on the shelf.
    pub(crate) holders: Grid,
    /// Who had the latest from us: a renewal with the same body is sent to it unasked.
    pub(crate) takers: Grid,
    pub(crate) shelf: Shelf,
    pub(crate) wants: Wants,
    /// Who brought what is not judged yet: a few.
    pub(crate) givers: Vec<Giver>,
    /// Until when they are, monotonic.
    pub(crate) shunned: BTreeMap<PublicKey, u64>,
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

/// The neighbour that brought something.
#[derive(Debug)]
pub(crate) struct Giver {
    /// Of what it brought, on the shelf.
    pub(crate) place: Place,
    pub(crate) peer: Place,
    pub(crate) unasked: bool,
}

impl Gossip {
    /// Knows nothing yet. `me` is the key that this cluster publishes with.
    pub fn new(me: PublicKey, seed: [u8; 32]) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        Self {
            me,
            shelf: Shelf::new(rng.random()),
            known: Arc::default(),
            neighbours: Table::new(rng.random()),
            holders: Grid::default(),
            takers: Grid::default(),
            wants: Wants::new(rng.random()),
            givers: Vec::new(),
            shunned: BTreeMap::new(),
            tell_ms: u64::MAX,
            settled_ms: 0,
            later_ms: 0,
            reconcile_ms: 0,
            rng,
        }
    }

    /// Takes in what happened; says what is to be done.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Connected(peer) => self.on_connected(now, peer, &mut effects),
            Input::Disconnected(peer) => {
                if let Some(place) = self.neighbours.find(&peer) {
                    self.leave(now, place);
                }
            }
            Input::Received { peer, message } => {
                // It may be a last word of one that has gone.
                if let Some(from) = self.neighbours.find(&peer) {
                    self.on_message(now, from, message, &mut effects);
                }
            }
            Input::Publish(news) => self.publish(now, news),
            Input::Judged(verdicts) => self.on_judged(now, &verdicts, &mut effects),
            Input::Known(publishers) => {
                self.known = publishers;
                self.recount();
            }
            Input::AlsoKnown(publisher) => {
                Arc::make_mut(&mut self.known).insert(publisher);
                self.shelf.acquaint(&publisher);
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
        let reconcile = (self.neighbours.len() > 0).then_some(self.reconcile_ms);
        [tell, self.wants.wakeup_ms(), reconcile].into_iter().flatten().min().map(Deadline::Mono)
    }

    /// What is held, of each publisher one.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.news().map(News::mark)
    }

    /// What is held of `publisher`.
    pub fn latest(&self, publisher: &PublicKey) -> Option<&News> {
        self.shelf.find(publisher).filter(|(_, slot)| slot.is_held()).map(|(_, slot)| &slot.news)
    }

    /// Neighbours that are not shunned.
    pub fn neighbours(&self) -> impl Iterator<Item = &PublicKey> {
        self.neighbours.iter().map(|(_, neighbour)| &neighbour.key)
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
        if self.neighbours.len() == 0 {
            let phase_ms = self.rng.random_range(0..limits::RECONCILE_MS);
            self.reconcile_ms = now.mono_ms + phase_ms;
        }
        let slots = self.shelf.slots();
        let young = slots.filter(|(_, slot)| slot.is_held() && !slot.is_settled(now));
        let untold = young.map(|(place, _)| place).collect();
        let place = self.neighbours.insert(Neighbour::new(now, peer, untold));
        self.tell_ms = 0;
        self.settled_ms = now.mono_ms + limits::UNSETTLED_MS;
        self.recount();
        // One of the two is enough.
        if self.me < peer {
            self.reconcile(now, place, effects);
        }
    }

    /// `peer` is no neighbour any more.
    pub(crate) fn leave(&mut self, now: Now, peer: Place) {
        if self.neighbours.remove(peer).is_some() {
            self.wants.lose(peer, now.mono_ms);
            self.holders.clear_peer(peer);
            self.takers.clear_peer(peer);
            self.givers.retain(|giver| giver.peer != peer);
            // Others tell us later what it told.
            self.reconcile_ms = now.mono_ms;
            self.recount();
        }
    }

    fn on_message(&mut self, now: Now, peer: Place, opened: Opened, effects: &mut Vec<Effect>) {
        match opened.message {
            Message::Announce { marks } => {
                for mark in &marks {
                    self.on_announced(now, peer, mark);
                }
            }
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
        let held = self.shelf.find(&news.mark().publisher).map(|(_, slot)| *slot.news.mark());
        if held.is_none_or(|held| news.mark().supersedes(&held)) {
            let place = self.shelve(now, news, State::Held);
            let renews = self.takers.any(place);
            self.tell_others(now, place, renews);
        }
    }

    /// Puts what is later on the shelf. Nobody is known to hold it.
    pub(crate) fn shelve(&mut self, now: Now, news: News, state: State) -> Place {
        let Self { me, known, neighbours, shelf, .. } = self;
        let is_known = |key: &PublicKey| is_known(*me, known, neighbours, key);
        let (place, renews) = shelf.put(now, news, state, is_known);
        self.holders.clear_place(place);
        if !renews {
            self.takers.clear_place(place);
        }
        place
    }

    pub(crate) fn is_known(&self, publisher: &PublicKey) -> bool {
        is_known(self.me, &self.known, &self.neighbours, publisher)
    }

    fn recount(&mut self) {
        let Self { me, known, neighbours, shelf, .. } = self;
        shelf.recount(|publisher| is_known(*me, known, neighbours, publisher));
    }
}

fn is_known(
    me: PublicKey,
    known: &BTreeSet<PublicKey>,
    neighbours: &Table<Neighbour>,
    publisher: &PublicKey,
) -> bool {
    *publisher == me || known.contains(publisher) || neighbours.find(publisher).is_some()
}

pub(crate) fn send(peer: PublicKey, message: Message) -> Effect {
    Effect::Send { peer, message }
}
