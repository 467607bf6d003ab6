//! The directory: sightings per peer, and what became of dials. Dialling, and proving who
//! answers, is left to the network layer.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use indexmap::map::Entry;
use mercato_protocol::id::PublicKey;
use mercato_protocol::time::{Deadline, Now};
use rand::SeedableRng as _;
use rand_chacha::ChaCha12Rng;

use crate::contact::{Contact, Seen, Who};
use crate::limits;
use crate::sample::{Rank, Sample, Secret};
use crate::sighting::{Report, Sighting, Source};
use crate::vocabulary::{DialFailure, Effect, Input, Known};

/// A dial under way.
pub(crate) struct Dialling {
    pub(crate) who: Who,
    /// When it counts as failed without an answer.
    pub(crate) until_ms: u64,
}

/// A connection.
pub(crate) struct Link {
    /// Whether we dialled.
    pub(crate) dialled: bool,
    /// When it came up, monotonic.
    since_ms: u64,
}

/// Whom we know. See the crate's page.
pub struct Directory {
    pub(crate) me: PublicKey,
    pub(crate) rng: ChaCha12Rng,
    /// With what is seen of each, in an order that depends on no hash: it decides who is drawn to
    /// be dialled;
    pub(crate) contacts: IndexMap<Who, Contact, Secret>,
    /// and to whom each sighting belongs.
    pub(crate) sample: Sample,
    pub(crate) connected: BTreeMap<PublicKey, Link>,
    pub(crate) blocked: BTreeSet<PublicKey>,
    pub(crate) kept: BTreeSet<PublicKey>,
    /// Those that nobody needs any more, and until when they are dialled again if they break off;
    /// then we part with them if we dialled.
    pub(crate) released: BTreeMap<PublicKey, u64>,
    pub(crate) dials: BTreeMap<u64, Dialling>,
    pub(crate) attempts: u64,
    /// When one more neighbour may be dialled, where those of our own choice are there.
    pub(crate) more_ms: u64,
    /// When something is next due, at the earliest.
    wake_ms: Option<u64>,
}

impl Directory {
    /// An empty directory of the cluster that signs with `me`.
    pub fn new(me: PublicKey, seed: [u8; 32]) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        let contacts = IndexMap::with_hasher(Secret::new(&mut rng));
        Self {
            me,
            sample: Sample::new(&mut rng),
            rng,
            contacts,
            connected: BTreeMap::new(),
            blocked: BTreeSet::new(),
            kept: BTreeSet::new(),
            released: BTreeMap::new(),
            dials: BTreeMap::new(),
            attempts: 0,
            more_ms: 0,
            wake_ms: None,
        }
    }

    /// Takes in what happened; says what is to be done.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let now_ms = now.mono_ms;
        let mut effects = Vec::new();
        let mut is_new = true;
        match input {
            Input::Report(Report::Seen(sighting)) => {
                if let Some(who) = self.on_seen(now_ms, sighting, &mut effects) {
                    self.wake_for(now_ms, &who);
                }
                is_new = false;
            }
            Input::Report(Report::Gone(id)) => {
                self.remove(self.sample.rank(id.name()), &mut effects);
            }
            Input::Dialled { attempt, result } => {
                self.on_dialled(now_ms, attempt, result, &mut effects);
            }
            Input::Connected { peer, dialled } => self.on_connected(now_ms, peer, dialled),
            Input::Disconnected(peer) => self.on_disconnected(now_ms, peer, &mut effects),
            Input::Block(peer) => drop(self.blocked.insert(peer)),
            Input::Unblock(peer) => drop(self.blocked.remove(&peer)),
            Input::Keep(peer) => is_new = self.on_keep(peer),
            Input::Release(peer) => is_new = self.on_release(now_ms, peer),
            Input::Replaced(peer) => self.on_replaced(now_ms, peer, &mut effects),
            Input::Tick => is_new = false,
        }
        if is_new || self.wake_ms.is_some_and(|wake_ms| wake_ms <= now_ms) {
            self.expire(now_ms, &mut effects);
            self.hang_up_due(now_ms, &mut effects);
            self.trim(&mut effects);
            self.dial_due(now_ms, &mut effects);
            self.wake_ms = self.next_ms();
        }
        effects
    }

    /// When [`Input::Tick`] is next needed.
    pub fn wakeup(&self) -> Option<Deadline> {
        self.wake_ms.map(Deadline::Mono)
    }

    /// Of one about whom something new was said, when all are looked at again: there may be
    /// thousands, and most of the time nobody is to be dialled.
    fn wake_for(&mut self, now_ms: u64, who: &Who) {
        let contact = self.contacts.get(who).filter(|_| self.dials.len() < limits::DIALS);
        let due_ms = contact.and_then(|contact| self.due_ms(who, contact, self.room()));
        let expires_ms = now_ms + limits::FORGET_MS;
        let next_ms = due_ms.map_or(expires_ms, |due_ms| due_ms.min(expires_ms));
        self.wake_ms = Some(self.wake_ms.map_or(next_ms, |wake_ms| wake_ms.min(next_ms)));
    }

    fn next_ms(&self) -> Option<u64> {
        // Whether one counts is costly to tell: only those before the earliest so far are asked.
        let given_up = self.dials.values().map(|dial| dial.until_ms);
        let parting = self.released.values().copied();
        let mut next_ms = given_up.chain(parting).min().unwrap_or(u64::MAX);
        if self.dials.len() < limits::DIALS {
            let room = self.room();
            for (who, contact) in &self.contacts {
                if contact.due_ms < next_ms
                    && let Some(due_ms) = self.due_ms(who, contact, room)
                {
                    next_ms = next_ms.min(due_ms);
                }
            }
        }
        for (who, seen) in self.seen() {
            let expires_ms = seen.at_ms + limits::FORGET_MS;
            if expires_ms < next_ms && self.may_expire(who, seen) {
                next_ms = expires_ms;
            }
        }
        Some(next_ms).filter(|next_ms| *next_ms < u64::MAX)
    }

    /// Whether it knows where this peer may be found.
    pub fn knows(&self, peer: &PublicKey) -> bool {
        let contact = self.contacts.get(&Who::Peer(*peer));
        contact.is_some_and(|contact| !contact.sightings.is_empty())
    }

    /// Everybody that is kept, by key, then those without one.
    pub fn known(&self) -> impl Iterator<Item = Known> {
        let others = self.contacts.iter().filter(|(who, _)| **who != Who::Peer(self.me));
        let mut others: Vec<(&Who, &Contact)> = others.collect();
        others.sort_unstable_by_key(|(who, _)| *who);
        others.into_iter().map(|(who, contact)| {
            let peer = who.key();
            let mut sources: Vec<Source> = contact.sources().collect();
            sources.dedup();
            Known {
                peer,
                sources,
                addresses: contact.addresses(),
                connected: peer.is_some_and(|peer| self.connected.contains_key(&peer)),
                blocked: peer.is_some_and(|peer| self.blocked.contains(&peer)),
                failures: contact.failures,
            }
        })
    }

    /// Of whom it says anything new.
    fn on_seen(
        &mut self,
        now_ms: u64,
        mut sighting: Sighting,
        effects: &mut Vec<Effect>,
    ) -> Option<Who> {
        if !sighting.bound() || sighting.peer == Some(self.me) {
            return None;
        }
        let rank = self.sample.rank(sighting.id.name());
        if let Some(whose) = self.sample.whose(rank) {
            let seen = self.contacts.get_mut(whose)?.sighting_mut(sighting.id.name())?;
            seen.at_ms = now_ms;
            if seen.says(whose, &sighting) {
                return None;
            }
        } else if !self.make_room(now_ms, rank, &sighting, effects) {
            return None;
        }
        let who = Who::new(sighting.peer, sighting.id.name());
        self.insert(now_ms, rank, who.clone(), Seen::new(now_ms, sighting), effects);
        Some(who)
    }

    /// Puts the sighting with those of its party, who is soon worth a try, and takes it
    /// from whose it was before.
    fn insert(&mut self, now_ms: u64, rank: Rank, who: Who, seen: Seen, effects: &mut Vec<Effect>) {
        let rng = &mut self.rng;
        let contact = self.contacts.entry(who.clone()).or_insert_with(|| Contact::new(now_ms, rng));
        contact.refresh(now_ms, rng);
        contact.put(seen);
        let before = self.sample.put(rank, who.clone());
        if let Some(before) = before.filter(|before| *before != who) {
            self.detach(before, Some(rank), effects);
        }
    }

    pub(crate) fn remove(&mut self, rank: Rank, effects: &mut Vec<Effect>) {
        if let Some(who) = self.sample.remove(rank) {
            self.detach(who, Some(rank), effects);
        }
    }

    /// Takes this sighting, if any, from its party, who is forgotten if that was the last word and
    /// no connection is up.
    fn detach(&mut self, who: Who, rank: Option<Rank>, effects: &mut Vec<Effect>) {
        let peer = who.key();
        let Entry::Occupied(mut of) = self.contacts.entry(who) else { return };
        of.get_mut().sightings.retain(|seen| Some(self.sample.rank(seen.name())) != rank);
        let is_up = peer.is_some_and(|peer| self.connected.contains_key(&peer));
        if of.get().sightings.is_empty() && !is_up {
            of.swap_remove();
            effects.extend(peer.filter(|peer| *peer != self.me).map(Effect::Forget));
        }
    }

    /// Gives those that do not say whose they are to who proved to be there.
    fn assign(
        &mut self,
        now_ms: u64,
        from: &Who,
        to: Option<PublicKey>,
        effects: &mut Vec<Effect>,
    ) {
        let contact = self.contacts.get_mut(from).filter(|_| from.key() != to);
        let Some(contact) = contact else { return };
        let unclaimed = contact.sightings.extract_if(.., |seen| !seen.is_claimed);
        for seen in unclaimed.collect::<Vec<_>>() {
            let (rank, who) = (self.sample.rank(seen.name()), Who::new(to, seen.name()));
            self.insert(now_ms, rank, who, seen, effects);
        }
    }

    fn on_dialled(
        &mut self,
        now_ms: u64,
        attempt: u64,
        result: Result<PublicKey, DialFailure>,
        effects: &mut Vec<Effect>,
    ) {
        // An unknown attempt is late: it has been given up.
        let Some(Dialling { who, .. }) = self.dials.remove(&attempt) else { return };
        let Some(contact) = self.contacts.get_mut(&who) else { return };
        if result.is_err() {
            contact.fail(now_ms, who.longest_pause(&self.kept), &mut self.rng);
        }
        let proven = match result {
            Ok(peer) => Some(peer),
            Err(DialFailure::Ourselves) => Some(self.me),
            Err(DialFailure::WrongPeer) => None,
            Err(DialFailure::Unreachable) => return,
        };
        self.assign(now_ms, &who, proven, effects);
        if let Ok(peer) = result
            && let Some(contact) = self.contacts.get_mut(&Who::Peer(peer))
        {
            contact.answered(now_ms);
        }
    }

    fn on_connected(&mut self, now_ms: u64, peer: PublicKey, dialled: bool) {
        let link = self.connected.entry(peer).or_insert(Link { dialled, since_ms: now_ms });
        link.dialled = dialled;
        if let Some(until_ms) = self.released.get_mut(&peer) {
            *until_ms = now_ms + limits::LINGER_MS;
        }
        let rng = &mut self.rng;
        self.contacts.entry(Who::Peer(peer)).or_insert_with(|| Contact::new(now_ms, rng));
    }

    fn on_disconnected(&mut self, now_ms: u64, peer: PublicKey, effects: &mut Vec<Effect>) {
        let link = self.connected.remove(&peer);
        let lasted_ms = link.map_or(0, |link| now_ms - link.since_ms);
        if let Some(until_ms) = self.released.get_mut(&peer) {
            *until_ms = now_ms + limits::OWED_MS;
        }
        let who = Who::Peer(peer);
        let Some(contact) = self.contacts.get_mut(&who) else { return };
        contact.down(now_ms, lasted_ms, who.longest_pause(&self.kept), &mut self.rng);
        // To have been connected is as good as to be seen.
        contact.sightings.iter_mut().for_each(|seen| seen.at_ms = now_ms);
        self.detach(who, None, effects);
    }

    fn on_replaced(&mut self, now_ms: u64, peer: PublicKey, effects: &mut Vec<Effect>) {
        self.kept.remove(&peer);
        let who = Who::Peer(peer);
        self.assign(now_ms, &who, None, effects);
        let claimed = self.contacts.get(&who).into_iter().flat_map(|contact| &contact.sightings);
        let claimed: Vec<Rank> = claimed.map(|seen| self.sample.rank(seen.name())).collect();
        claimed.into_iter().for_each(|rank| self.remove(rank, effects));
    }

    /// Drops what nobody saw for long, and fails dials without an answer.
    fn expire(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        let unseen = self.seen().filter(|(_, of)| of.at_ms + limits::FORGET_MS <= now_ms);
        let unseen = unseen.filter(|(who, seen)| self.may_expire(who, seen));
        let unseen: Vec<Rank> = unseen.map(|(_, seen)| self.sample.rank(seen.name())).collect();
        unseen.into_iter().for_each(|rank| self.remove(rank, effects));
        for (_, dial) in self.dials.extract_if(.., |_, dial| dial.until_ms <= now_ms) {
            if let Some(contact) = self.contacts.get_mut(&dial.who) {
                contact.fail(now_ms, dial.who.longest_pause(&self.kept), &mut self.rng);
            }
        }
    }

    pub(crate) fn may_expire(&self, who: &Who, seen: &Seen) -> bool {
        let is_needed = who.key().is_some_and(|peer| self.is_needed(peer));
        seen.name().0 != Source::List && !is_needed
    }

    fn is_needed(&self, peer: PublicKey) -> bool {
        self.connected.contains_key(&peer) || self.kept.contains(&peer)
    }

    /// The same, or we may owe it a last word: others give way.
    pub(crate) fn has_room(&self, who: &Who) -> bool {
        let has_room = |peer| self.is_needed(peer) || self.released.contains_key(&peer);
        who.key().is_some_and(has_room)
    }

    /// All sightings, and whose they are.
    pub(crate) fn seen(&self) -> impl Iterator<Item = (&Who, &Seen)> {
        self.contacts
            .iter()
            .flat_map(|(who, contact)| contact.sightings.iter().map(move |seen| (who, seen)))
    }
}
