//! Everybody that was seen, with what is seen of each: within bounds, and for as long as somebody
//! says so or is connected.

use indexmap::IndexMap;
use indexmap::map::Entry;
use mercato_protocol::id::PublicKey;
use rand_chacha::ChaCha12Rng;

use crate::contact::{Contact, Seen, Who};
use crate::limits;
use crate::links::Links;
use crate::sample::{Rank, Sample, Secret};
use crate::sighting::{Kind, Name, Sighting, Source};

/// The contacts of a directory.
#[derive(Debug)]
pub(crate) struct Contacts {
    me: PublicKey,
    /// In an order that depends on no hash: it decides who is drawn to be dialled.
    contacts: IndexMap<Who, Contact, Secret>,
    /// To whom each sighting belongs.
    sample: Sample,
    /// Of whom no sighting is left, nor a connection, and nobody was told yet.
    forgotten: Vec<PublicKey>,
}

impl Contacts {
    pub(crate) fn new(me: PublicKey, rng: &mut ChaCha12Rng) -> Self {
        let contacts = IndexMap::with_hasher(Secret::new(rng));
        Self { me, contacts, sample: Sample::new(rng), forgotten: Vec::new() }
    }

    pub(crate) fn get(&self, who: &Who) -> Option<&Contact> {
        self.contacts.get(who)
    }

    pub(crate) fn get_mut(&mut self, who: &Who) -> Option<&mut Contact> {
        self.contacts.get_mut(who)
    }

    /// All contacts, each with its name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Who, &Contact)> {
        self.contacts.iter()
    }

    /// Whom the directory has to forget, each said once.
    pub(crate) fn take_forgotten(&mut self) -> Vec<PublicKey> {
        std::mem::take(&mut self.forgotten)
    }

    /// Of whom the sighting says anything new.
    pub(crate) fn see(
        &mut self,
        now_ms: u64,
        mut sighting: Sighting,
        links: &Links,
        rng: &mut ChaCha12Rng,
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
        } else if !self.make_room(now_ms, rank, &sighting, links) {
            return None;
        }
        let who = Who::new(sighting.peer, sighting.id.name());
        self.insert(now_ms, who.clone(), Seen::new(now_ms, sighting), links, rng);
        Some(who)
    }

    /// A source says that it is gone.
    pub(crate) fn lose(&mut self, name: Name<'_>, links: &Links) {
        self.remove(self.sample.rank(name), links);
    }

    /// A connection with it is up: it is known for as long, if nobody else knows it.
    pub(crate) fn connect(&mut self, now_ms: u64, peer: PublicKey, rng: &mut ChaCha12Rng) {
        self.contacts.entry(Who::Peer(peer)).or_insert_with(|| Contact::new(now_ms, rng));
    }

    /// The last connection with it is gone, after so many ms.
    pub(crate) fn disconnect(
        &mut self,
        now_ms: u64,
        peer: PublicKey,
        lasted_ms: u64,
        links: &Links,
        rng: &mut ChaCha12Rng,
    ) {
        let who = Who::Peer(peer);
        let Some(contact) = self.contacts.get_mut(&who) else { return };
        contact.down(now_ms, lasted_ms, links.longest_pause_ms(Some(peer)), rng);
        // To have been connected is as good as to be seen.
        contact.sightings.iter_mut().for_each(|seen| seen.at_ms = now_ms);
        self.detach(who, None, links);
    }

    /// Gives the sightings that do not say whose they are to who proved to be there.
    pub(crate) fn assign(
        &mut self,
        now_ms: u64,
        from: &Who,
        to: Option<PublicKey>,
        links: &Links,
        rng: &mut ChaCha12Rng,
    ) {
        let contact = self.contacts.get_mut(from).filter(|_| from.key() != to);
        let Some(contact) = contact else { return };
        let unclaimed = contact.sightings.extract_if(.., |seen| !seen.is_claimed);
        for seen in unclaimed.collect::<Vec<_>>() {
            self.insert(now_ms, Who::new(to, seen.name()), seen, links, rng);
        }
    }

    /// The key speaks for nobody any more: where it was seen somebody else is.
    pub(crate) fn replace(
        &mut self,
        now_ms: u64,
        peer: PublicKey,
        links: &Links,
        rng: &mut ChaCha12Rng,
    ) {
        let who = Who::Peer(peer);
        self.assign(now_ms, &who, None, links, rng);
        let claimed = self.contacts.get(&who).into_iter().flat_map(|contact| &contact.sightings);
        let claimed: Vec<Rank> = claimed.map(|seen| self.sample.rank(seen.name())).collect();
        claimed.into_iter().for_each(|rank| self.remove(rank, links));
    }

    /// Drops what nobody saw for long.
    pub(crate) fn expire(&mut self, now_ms: u64, links: &Links) {
        let unseen = self.seen().filter(|(_, of)| of.at_ms + limits::FORGET_MS <= now_ms);
        let unseen = unseen.filter(|(who, seen)| may_expire(who, seen, links));
        let unseen: Vec<Rank> = unseen.map(|(_, seen)| self.sample.rank(seen.name())).collect();
        unseen.into_iter().for_each(|rank| self.remove(rank, links));
    }

    /// When something is dropped next, if that is before the given time, in ms.
    pub(crate) fn next_expiry_ms(&self, before_ms: u64, links: &Links) -> u64 {
        // Whether one may go is costly to tell: only those before the earliest so far are asked.
        let mut next_ms = before_ms;
        for (who, seen) in self.seen() {
            let expires_ms = seen.at_ms + limits::FORGET_MS;
            if expires_ms < next_ms && may_expire(who, seen, links) {
                next_ms = expires_ms;
            }
        }
        next_ms
    }

    /// Whether this peer's own word of where it is may be kept.
    pub(crate) fn listens_to(&self, now_ms: u64, peer: &PublicKey, links: &Links) -> bool {
        let rank = self.sample.rank(Name { source: Source::Peer(*peer), instance: "" });
        let is_barred = self.is_full(rank.kind(), links) && self.sample.bars(rank);
        // Those above the bar are kept because their peers have room.
        !is_barred || self.sample.sweeps(now_ms, rank.kind()) || links.has_room(Some(*peer))
    }

    /// Others may be needed than before: those that there is no room for any more give way.
    pub(crate) fn trim(&mut self, links: &Links) {
        self.sample.lift_bars();
        let over = self.sample.len(Kind::Peer).saturating_sub(capacity(Kind::Peer, links));
        let may_go = self.sample.descending(Kind::Peer);
        let may_go = may_go.filter(|(_, who)| !links.has_room(who.key()));
        let worst: Vec<Rank> = may_go.take(over).map(|(rank, _)| rank).collect();
        worst.into_iter().for_each(|rank| self.remove(rank, links));
    }

    /// Whether one more sighting may be kept. The oldest by the same peer's word gives way, or
    /// whoever the sample can do without.
    fn make_room(&mut self, now_ms: u64, rank: Rank, sighting: &Sighting, links: &Links) -> bool {
        let by_witness = || self.by_witness(sighting.id.name());
        if by_witness().count() >= limits::SIGHTINGS_PER_WITNESS {
            let may_go = by_witness().filter(|(who, seen)| may_expire(who, seen, links));
            let oldest = may_go.min_by_key(|(_, seen)| seen.at_ms);
            let oldest = oldest.map(|(_, seen)| self.sample.rank(seen.name()));
            oldest.into_iter().for_each(|oldest| self.remove(oldest, links));
            return oldest.is_some();
        }
        if !self.is_full(rank.kind(), links) {
            return true;
        }
        let needed = links.has_room(sighting.peer);
        let sweeps = self.sample.sweeps(now_ms, rank.kind());
        if self.sample.bars(rank) && !sweeps && !needed {
            return false;
        }
        let stale = sweeps.then(|| self.stale(now_ms, links)).flatten();
        let gives_way = stale.or_else(|| {
            let may_go = |who: &Who| rank.kind() != Kind::List && !links.has_room(who.key());
            self.sample.worst(rank, needed, may_go)
        });
        gives_way.into_iter().for_each(|rank| self.remove(rank, links));
        gives_way.is_some() || needed
    }

    fn is_full(&self, kind: Kind, links: &Links) -> bool {
        self.sample.len(kind) >= capacity(kind, links)
    }

    /// One that nobody has seen for long, the highest in rank: a name that was said once must not
    /// be worth as much as one that is said again and again, as peers' own words are.
    fn stale(&mut self, now_ms: u64, links: &Links) -> Option<Rank> {
        let is_stale = |(rank, who): &(Rank, &Who)| {
            let mut seen = self.contacts.get(*who).into_iter().flat_map(|of| &of.sightings);
            let seen = seen.find(|seen| self.sample.rank(seen.name()) == *rank);
            seen.is_some_and(|seen| seen.at_ms + limits::STALE_MS < now_ms)
                && !links.has_room(who.key())
        };
        let stale = self.sample.descending(Kind::Peer).find(is_stale).map(|(rank, _)| rank);
        if stale.is_none() {
            self.sample.put_off_sweep(now_ms);
        }
        stale
    }

    /// Words of the same peer about others.
    fn by_witness<'a>(&'a self, name: Name<'a>) -> impl Iterator<Item = (&'a Who, &'a Seen)> {
        let is_witness = name.source.kind() == Kind::Peer && !name.instance.is_empty();
        let all = is_witness.then(|| self.seen()).into_iter().flatten();
        all.filter(move |(_, seen)| {
            seen.name().source == name.source && !seen.name().instance.is_empty()
        })
    }

    /// Puts the sighting with those of its party, who is soon worth a try, and takes it
    /// from whose it was before.
    fn insert(&mut self, now_ms: u64, who: Who, seen: Seen, links: &Links, rng: &mut ChaCha12Rng) {
        let rank = self.sample.rank(seen.name());
        let contact = self.contacts.entry(who.clone()).or_insert_with(|| Contact::new(now_ms, rng));
        contact.refresh(now_ms, rng);
        contact.put(seen);
        let before = self.sample.put(rank, who.clone());
        if let Some(before) = before.filter(|before| *before != who) {
            self.detach(before, Some(rank), links);
        }
    }

    fn remove(&mut self, rank: Rank, links: &Links) {
        if let Some(who) = self.sample.remove(rank) {
            self.detach(who, Some(rank), links);
        }
    }

    /// Takes this sighting, if any, from its party, who is forgotten if that was the last word and
    /// no connection is up.
    fn detach(&mut self, who: Who, rank: Option<Rank>, links: &Links) {
        let peer = who.key();
        let Entry::Occupied(mut of) = self.contacts.entry(who) else { return };
        of.get_mut().sightings.retain(|seen| Some(self.sample.rank(seen.name())) != rank);
        let is_up = peer.is_some_and(|peer| links.is_connected(&peer));
        if of.get().sightings.is_empty() && !is_up {
            of.swap_remove();
            self.forgotten.extend(peer.filter(|peer| *peer != self.me));
        }
    }

    /// All sightings, and whose they are.
    fn seen(&self) -> impl Iterator<Item = (&Who, &Seen)> {
        self.contacts
            .iter()
            .flat_map(|(who, contact)| contact.sightings.iter().map(move |seen| (who, seen)))
    }
}

/// Not what the owner lists, nor of those that are needed.
fn may_expire(who: &Who, seen: &Seen, links: &Links) -> bool {
    let is_needed = who.key().is_some_and(|peer| links.is_needed(&peer));
    seen.name().source != Source::List && !is_needed
}

/// How many sightings of a kind there is room for. Peers that have it in any case do not take it
/// from others, or those that connect to us would be all that we know.
fn capacity(kind: Kind, links: &Links) -> usize {
    let besides = match kind {
        Kind::Peer => links.reserved(),
        Kind::List | Kind::Dns | Kind::Lan => 0,
    };
    kind.limit() + besides
}
