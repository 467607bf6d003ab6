//! The directory: sightings per peer, and what became of dials. Dialling, and proving who
//! answers, is left to the network layer.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::PublicKey;
use mercato_protocol::time::{Deadline, Now};
use rand::SeedableRng as _;
use rand_chacha::ChaCha12Rng;

use crate::address::{self, Address};
use crate::contact::{Contact, Seen, Who};
use crate::limits;
use crate::sample::Sample;
use crate::sighting::{Kind, Report, Sighting, SightingId, Source};
use crate::vocabulary::{DialFailure, Effect, Input, Known};

/// A dial under way.
pub(crate) struct Dialling {
    pub(crate) who: Who,
    /// When it counts as failed without an answer.
    pub(crate) until_ms: u64,
}

/// Whom we know. See the crate's page.
pub struct Directory {
    pub(crate) me: PublicKey,
    pub(crate) rng: ChaCha12Rng,
    seen: BTreeMap<SightingId, Seen>,
    /// Of what is seen.
    sample: Sample,
    pub(crate) contacts: BTreeMap<Who, Contact>,
    /// And whether we dialled.
    pub(crate) connected: BTreeMap<PublicKey, bool>,
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
        Self {
            me,
            sample: Sample::new(&mut rng),
            rng,
            seen: BTreeMap::new(),
            contacts: BTreeMap::new(),
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
            Input::Report(Report::Gone(id)) => self.remove(&id, &mut effects),
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
        for seen in self.seen.values() {
            let expires_ms = seen.at_ms + limits::FORGET_MS;
            if expires_ms < next_ms && self.may_expire(seen) {
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

    /// Everybody seen, by key, then those without one.
    pub fn known(&self) -> impl Iterator<Item = Known> {
        let others = self.contacts.iter().filter(|(who, _)| **who != Who::Peer(self.me));
        others.map(|(who, contact)| {
            let peer = key(who);
            let mut sources: Vec<Source> =
                self.sightings_of(contact).map(|seen| seen.sighting.id.source).collect();
            sources.dedup();
            Known {
                peer,
                sources,
                addresses: self.addresses_of(contact),
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
        sighting: Sighting,
        effects: &mut Vec<Effect>,
    ) -> Option<Who> {
        let sighting = sighting.bounded().filter(|of| of.peer != Some(self.me))?;
        let id = sighting.id.clone();
        if let Some(seen) = self.seen.get_mut(&id) {
            seen.at_ms = now_ms;
            if seen.sighting == sighting {
                return None;
            }
        } else if !self.make_room(now_ms, &sighting, effects) {
            return None;
        }
        let seen = Seen { sighting, proven: None, at_ms: now_ms };
        let who = seen.who();
        self.insert(now_ms, seen, effects);
        Some(who)
    }

    /// Puts the sighting with those of its party, who is soon worth a try, and takes it
    /// from whose it was before.
    fn insert(&mut self, now_ms: u64, seen: Seen, effects: &mut Vec<Effect>) {
        let (id, who, rng) = (seen.sighting.id.clone(), seen.who(), &mut self.rng);
        let contact = self.contacts.entry(who.clone()).or_insert_with(|| Contact::new(now_ms, rng));
        contact.refresh(now_ms, rng);
        contact.sighted(&id);
        self.sample.insert(&id);
        if let Some(before) = self.seen.insert(id.clone(), seen)
            && before.who() != who
        {
            self.detach(&before.who(), &id, effects);
        }
    }

    fn remove(&mut self, id: &SightingId, effects: &mut Vec<Effect>) {
        if let Some(seen) = self.seen.remove(id) {
            self.sample.remove(id);
            self.detach(&seen.who(), id, effects);
        }
    }

    fn detach(&mut self, who: &Who, id: &SightingId, effects: &mut Vec<Effect>) {
        if let Some(contact) = self.contacts.get_mut(who) {
            contact.sightings.retain(|of| of != id);
        }
        self.forget_if_gone(who, effects);
    }

    fn forget_if_gone(&mut self, who: &Who, effects: &mut Vec<Effect>) {
        let gone = |contact: &Contact| contact.sightings.is_empty() && contact.up_ms.is_none();
        if self.contacts.get(who).is_some_and(gone) {
            self.contacts.remove(who);
            if let Who::Peer(peer) = who
                && *peer != self.me
            {
                effects.push(Effect::Forget(*peer));
            }
        }
    }

    /// Whether one more sighting may be kept. The oldest by the same peer's word gives way, or
    /// whoever the sample can do without.
    fn make_room(&mut self, now_ms: u64, sighting: &Sighting, effects: &mut Vec<Effect>) -> bool {
        let (id, kind) = (&sighting.id, sighting.id.source.kind());
        let by_witness = || self.by_witness(id.source);
        if kind == Kind::Peer && by_witness().count() >= limits::SIGHTINGS_PER_WITNESS {
            let may_go = by_witness().filter(|(_, seen)| self.may_expire(seen));
            let oldest = may_go.min_by_key(|(_, seen)| seen.at_ms).map(|(id, _)| id.clone());
            oldest.iter().for_each(|oldest| self.remove(oldest, effects));
            return oldest.is_some();
        }
        if !self.sample.is_full(kind) {
            return true;
        }
        let may_go = |seen: &&Seen| self.may_expire(seen) && !self.has_room(&seen.who());
        let stale_ms = now_ms.saturating_sub(limits::STALE_MS);
        let is_stale = |id: &SightingId| {
            self.seen.get(id).filter(may_go).is_some_and(|of| of.at_ms < stale_ms)
        };
        let stale = self.sample.stale(now_ms, kind, is_stale).cloned();
        let needed = sighting.peer.is_some_and(|peer| self.has_room(&Who::Peer(peer)));
        let may_go = |id: &SightingId| self.seen.get(id).filter(may_go).is_some();
        let worst = || self.sample.worst(id, needed, may_go).cloned();
        let (found, gives_way) = (stale.is_some(), stale.or_else(worst));
        if kind == Kind::Peer && !found {
            self.sample.pause(now_ms);
        }
        gives_way.iter().for_each(|id| self.remove(id, effects));
        gives_way.is_some() || needed
    }

    fn by_witness(&self, source: Source) -> impl Iterator<Item = (&SightingId, &Seen)> {
        let first = SightingId { source, instance: String::new() };
        self.seen.range(first..).take_while(move |(id, _)| id.source == source)
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
        for id in contact.sightings.clone() {
            if let Some(seen) = self.seen.get(&id)
                && seen.proven != proven
                && seen.sighting.peer.is_none()
            {
                let (sighting, at_ms) = (seen.sighting.clone(), seen.at_ms);
                self.insert(now_ms, Seen { sighting, proven, at_ms }, effects);
            }
        }
        if let Ok(peer) = result
            && let Some(contact) = self.contacts.get_mut(&Who::Peer(peer))
        {
            contact.answered(now_ms);
        }
    }

    fn on_connected(&mut self, now_ms: u64, peer: PublicKey, dialled: bool) {
        self.connected.insert(peer, dialled);
        if let Some(until_ms) = self.released.get_mut(&peer) {
            *until_ms = now_ms + limits::LINGER_MS;
        }
        let rng = &mut self.rng;
        let contact =
            self.contacts.entry(Who::Peer(peer)).or_insert_with(|| Contact::new(now_ms, rng));
        contact.up_ms.get_or_insert(now_ms);
    }

    fn on_disconnected(&mut self, now_ms: u64, peer: PublicKey, effects: &mut Vec<Effect>) {
        self.connected.remove(&peer);
        if let Some(until_ms) = self.released.get_mut(&peer) {
            *until_ms = now_ms + limits::OWED_MS;
        }
        let who = Who::Peer(peer);
        let Some(contact) = self.contacts.get_mut(&who) else { return };
        contact.down(now_ms, who.longest_pause(&self.kept), &mut self.rng);
        // To have been connected is as good as to be seen.
        for id in &contact.sightings {
            if let Some(seen) = self.seen.get_mut(id) {
                seen.at_ms = now_ms;
            }
        }
        self.forget_if_gone(&who, effects);
    }

    fn on_replaced(&mut self, now_ms: u64, peer: PublicKey, effects: &mut Vec<Effect>) {
        self.kept.remove(&peer);
        let seen = self.contacts.get(&Who::Peer(peer)).map(|contact| contact.sightings.clone());
        for id in seen.unwrap_or_default() {
            match self.seen.get(&id) {
                Some(Seen { sighting, at_ms, .. }) if sighting.peer.is_none() => {
                    let seen = Seen { sighting: sighting.clone(), proven: None, at_ms: *at_ms };
                    self.insert(now_ms, seen, effects);
                }
                Some(_) | None => self.remove(&id, effects),
            }
        }
    }

    /// Drops what nobody saw for long, and fails dials without an answer.
    fn expire(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        let unseen = self.seen.iter().filter(|(_, of)| of.at_ms + limits::FORGET_MS <= now_ms);
        let unseen = unseen.filter(|(_, seen)| self.may_expire(seen));
        let unseen: Vec<SightingId> = unseen.map(|(id, _)| id.clone()).collect();
        unseen.iter().for_each(|id| self.remove(id, effects));
        for (_, dial) in self.dials.extract_if(.., |_, dial| dial.until_ms <= now_ms) {
            if let Some(contact) = self.contacts.get_mut(&dial.who) {
                contact.fail(now_ms, dial.who.longest_pause(&self.kept), &mut self.rng);
            }
        }
    }

    fn may_expire(&self, seen: &Seen) -> bool {
        let is_needed = key(&seen.who()).is_some_and(|peer| self.is_needed(peer));
        seen.sighting.id.source != Source::List && !is_needed
    }

    fn is_needed(&self, peer: PublicKey) -> bool {
        self.connected.contains_key(&peer) || self.kept.contains(&peer)
    }

    /// The same, or we may owe it a last word: others give way.
    fn has_room(&self, who: &Who) -> bool {
        let has_room = |peer| self.is_needed(peer) || self.released.contains_key(&peer);
        key(who).is_some_and(has_room)
    }

    fn sightings_of(&self, contact: &Contact) -> impl Iterator<Item = &Seen> {
        contact.sightings.iter().filter_map(|id| self.seen.get(id))
    }

    pub(crate) fn addresses_of(&self, contact: &Contact) -> Vec<Address> {
        let all = self.sightings_of(contact).map(|seen| seen.sighting.addresses.as_slice());
        address::choose(&all.collect::<Vec<_>>(), contact.failures as usize)
    }
}

pub(crate) fn key(who: &Who) -> Option<PublicKey> {
    match who {
        Who::Peer(peer) => Some(*peer),
        Who::Unknown(_) => None,
    }
}
