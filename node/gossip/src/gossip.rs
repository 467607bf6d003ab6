//! The room's state machine: who is a neighbour, what came, whom to tell. Fetching is in
//! `pull`, comparing in `reconcile`.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::gossip::{Mark, Message};
use mercato_protocol::id::{Digest, PublicKey};
use mercato_protocol::limits::{GOSSIP_ITEMS, PUSH_ITEMS};
use mercato_protocol::time::{Deadline, Now};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

use crate::limits;
use crate::neighbour::Neighbour;
use crate::pull::Want;
use crate::shelf::Shelf;
use crate::vocabulary::{Effect, Input, News, Opened};

/// How offers spread. See the crate's page.
#[derive(Debug)]
pub struct Gossip {
    pub(crate) me: PublicKey,
    pub(crate) rng: ChaCha12Rng,
    pub(crate) known: BTreeSet<PublicKey>,
    pub(crate) neighbours: BTreeMap<PublicKey, Neighbour>,
    pub(crate) shelf: Shelf,
    pub(crate) wants: BTreeMap<Digest, Want>,
    /// When a neighbour is next compared with, monotonic.
    pub(crate) reconcile_ms: u64,
}

impl Gossip {
    /// Knows nothing yet. `me` is the key that this cluster publishes with.
    pub fn new(me: PublicKey, seed: [u8; 32]) -> Self {
        Self {
            me,
            rng: ChaCha12Rng::from_seed(seed),
            known: BTreeSet::new(),
            neighbours: BTreeMap::new(),
            shelf: Shelf::default(),
            wants: BTreeMap::new(),
            reconcile_ms: 0,
        }
    }

    /// Takes in what happened; says what is to be done.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Connected(peer) => self.on_connected(now, peer, &mut effects),
            Input::Disconnected(peer) => {
                self.neighbours.remove(&peer);
                self.wants.values_mut().for_each(|want| want.lose(&peer, now));
            }
            Input::Received { peer, message } if self.neighbours.contains_key(&peer) => {
                self.on_message(now, peer, message, &mut effects);
            }
            // A last word of one that has gone.
            Input::Received { .. } => {}
            Input::Publish(news) => {
                self.shelve(now, news);
            }
            Input::Known(publishers) => self.known = publishers,
            Input::Tick => {}
        }
        self.ask_due(now, &mut effects);
        self.reconcile_due(now, &mut effects);
        self.tell_due(now, &mut effects);
        effects
    }

    /// When [`Input::Tick`] is next needed.
    pub fn wakeup(&self) -> Option<Deadline> {
        let tells = self.neighbours.values().filter(|neighbour| !neighbour.untold.is_empty());
        let reconcile = (!self.neighbours.is_empty()).then_some(self.reconcile_ms);
        let wants = self.wants.values().map(|want| want.due_ms);
        let tells = tells.map(|neighbour| neighbour.tell_ms);
        tells.chain(wants).chain(reconcile).min().map(Deadline::Mono)
    }

    /// What is held, by publisher.
    pub fn marks(&self) -> impl Iterator<Item = Mark> {
        let held = self.shelf.slots().filter(|slot| slot.news.is_some());
        held.map(|slot| slot.mark)
    }

    fn on_connected(&mut self, now: Now, peer: PublicKey, effects: &mut Vec<Effect>) {
        if self.neighbours.is_empty() {
            let phase_ms = self.rng.random_range(0..limits::RECONCILE_MS);
            self.reconcile_ms = now.mono_ms + phase_ms;
        }
        let young = |since_ms| since_ms + limits::SETTLED_MS > now.mono_ms;
        let fresh = self.shelf.slots().filter(|slot| slot.news.is_some() && young(slot.since_ms));
        let untold = fresh.map(|slot| slot.mark.publisher).collect();
        self.neighbours.insert(peer, Neighbour::new(untold));
        // One of the two is enough.
        if self.me < peer {
            self.reconcile(now, peer, effects);
        }
    }

    fn on_message(&mut self, now: Now, peer: PublicKey, opened: Opened, effects: &mut Vec<Effect>) {
        match opened.message {
            Message::Announce { marks } => self.on_marks(now, peer, &marks),
            Message::Pull { digests } => self.on_pull(peer, &digests, effects),
            Message::Push { .. } => {
                for publication in opened.publications {
                    self.on_publication(now, peer, publication, effects);
                }
            }
            Message::BodyRequest { digest } => self.on_body_request(peer, digest, effects),
            Message::BodyReply { digest, body } => {
                self.on_body(now, peer, digest, body, effects);
            }
            Message::Root { session, root } => self.on_root(now, peer, session, root, effects),
            Message::Buckets { session, fingerprints } => {
                self.on_buckets(now, peer, session, &fingerprints, effects);
            }
            Message::Ids { session, buckets, marks } => {
                self.on_ids(now, peer, session, &buckets, &marks);
            }
        }
    }

    /// Keeps what is news, for all neighbours that do not have it; false if it is none.
    pub(crate) fn shelve(&mut self, now: Now, news: News) -> bool {
        let mark = news.mark();
        let is_news = self.shelf.put(now, news);
        if is_news {
            for neighbour in self.neighbours.values_mut().filter(|other| !other.is_told(&mark)) {
                neighbour.untold.insert(mark.publisher);
            }
        }
        is_news
    }

    /// Tells whom it is time to tell: leases by their marks; withdrawals, which are hardly
    /// larger, whole, since their publisher may be about to stop.
    fn tell_due(&mut self, now: Now, effects: &mut Vec<Effect>) {
        for (peer, neighbour) in &mut self.neighbours {
            if neighbour.untold.is_empty() || neighbour.tell_ms > now.mono_ms {
                continue;
            }
            neighbour.tell_ms = now.mono_ms + limits::ANNOUNCE_MS;
            let (mut marks, mut ends) = (Vec::new(), Vec::new());
            for publisher in std::mem::take(&mut neighbour.untold) {
                let Some(slot) = self.shelf.slot(&publisher) else { continue };
                match &slot.news {
                    Some(_) if neighbour.is_told(&slot.mark) => {}
                    Some(News::Ad { .. }) => marks.push(slot.mark),
                    Some(end @ News::End(_)) => ends.push(end.publication()),
                    None => {}
                }
            }
            let announces = marks.chunks(GOSSIP_ITEMS).map(|marks| marks.to_vec());
            let announces = announces.map(|marks| Message::Announce { marks });
            let pushes = ends.chunks(PUSH_ITEMS).map(|ends| ends.to_vec());
            let pushes = pushes.map(|publications| Message::Push { publications });
            effects.extend(pushes.chain(announces).map(|message| send(*peer, message)));
        }
    }
}

pub(crate) fn send(peer: PublicKey, message: Message) -> Effect {
    Effect::Send { peer, message }
}
