//! Whom to dial: those that somebody needs and those that the owner lists always; of all others a
//! few, for the network's sake.

use std::collections::BTreeMap;

use mercato_protocol::id::PublicKey;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha12Rng;

use crate::contact::{Contact, Who};
use crate::contacts::Contacts;
use crate::limits;
use crate::links::Links;
use crate::sighting::Kind;

/// Why a peer is dialled, the best reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// A lease or a negotiation needs it.
    Needed,
    /// The owner has listed this peer.
    Listed,
    /// It was needed a moment ago: the last word may be lost.
    Owed,
    /// One as good as another.
    Neighbour,
}

impl Claim {
    fn of(who: &Who, contact: &Contact, links: &Links) -> Self {
        match who.key() {
            Some(peer) if links.is_kept(&peer) => Self::Needed,
            _ if contact.is_listed() => Self::Listed,
            Some(peer) if links.is_released(&peer) => Self::Owed,
            Some(_) | None => Self::Neighbour,
        }
    }
}

/// What may be dialled besides those that are needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Whom the owner lists, or whom we may owe a word.
    listed: bool,
    /// Others, from this time on; never.
    neighbours_ms: Option<u64>,
}

/// A dial whose result is awaited.
#[derive(Debug)]
struct Dial {
    who: Who,
    /// When it counts as failed without an answer.
    until_ms: u64,
}

/// All dials whose results are awaited.
#[derive(Debug)]
pub(crate) struct Dials {
    /// Our own key, which is never dialled.
    me: PublicKey,
    under_way: BTreeMap<u64, Dial>,
    attempts: u64,
    /// When one more neighbour may be dialled, where those of our own choice are there.
    more_ms: u64,
}

impl Dials {
    pub(crate) fn new(me: PublicKey) -> Self {
        Self { me, under_way: BTreeMap::new(), attempts: 0, more_ms: 0 }
    }

    /// Whether one more may begin.
    pub(crate) fn may_begin(&self) -> bool {
        self.under_way.len() < limits::DIALS
    }

    /// Counts this dial, and says by which number it is answered.
    pub(crate) fn begin(&mut self, now_ms: u64, who: Who, contact: &Contact, links: &Links) -> u64 {
        self.attempts += 1;
        if Claim::of(&who, contact, links) == Claim::Neighbour {
            self.more_ms = now_ms + limits::MORE_MS;
        }
        let until_ms = now_ms + limits::DIAL_TIMEOUT_MS;
        self.under_way.insert(self.attempts, Dial { who, until_ms });
        self.attempts
    }

    /// Whom that dial was to; nobody if it has been given up.
    pub(crate) fn end(&mut self, attempt: u64) -> Option<Who> {
        self.under_way.remove(&attempt).map(|dial| dial.who)
    }

    /// Gives up those without an answer.
    pub(crate) fn give_up_due(&mut self, now_ms: u64) -> Vec<Who> {
        let due = self.under_way.extract_if(.., |_, dial| dial.until_ms <= now_ms);
        due.map(|(_, dial)| dial.who).collect()
    }

    /// When the next of them is given up.
    pub(crate) fn next_given_up_ms(&self) -> Option<u64> {
        self.under_way.values().map(|dial| dial.until_ms).min()
    }

    pub(crate) fn room(&self, links: &Links) -> Room {
        let is_kept = |who: &Who| who.key().is_some_and(|peer| links.is_kept(&peer));
        let under_way = self.under_way.values().filter(|dial| !is_kept(&dial.who)).count();
        let listed = links.dialled().count() + under_way < limits::OUTBOUND;
        let neighbours_ms = match () {
            () if !listed => None,
            () if links.chosen() + under_way < limits::CHOSEN => Some(0),
            () if links.len() + under_way < limits::NEIGHBOURS => Some(self.more_ms),
            () => None,
        };
        Room { listed, neighbours_ms }
    }

    /// When a dial would serve: there is somewhere to dial, and room for its claim; it is not
    /// up, not blocked, not us, and no dial is under way.
    pub(crate) fn due_ms(
        &self,
        who: &Who,
        contact: &Contact,
        links: &Links,
        room: Room,
    ) -> Option<u64> {
        let idle = who.key().is_none_or(|peer| {
            !links.is_connected(&peer) && !links.is_blocked(&peer) && peer != self.me
        });
        let from_ms = match Claim::of(who, contact, links) {
            Claim::Needed => Some(0),
            Claim::Listed | Claim::Owed => room.listed.then_some(0),
            Claim::Neighbour => room.neighbours_ms,
        };
        let serves = idle
            && !contact.sightings.is_empty()
            && self.under_way.values().all(|dial| dial.who != *who);
        from_ms.filter(|_| serves).map(|from_ms| from_ms.max(contact.due_ms))
    }

    /// The one with the best claim. Among equals chance decides, for those of the kind of
    /// source that has brought the fewest: no source alone says whom we know.
    pub(crate) fn next_due(
        &self,
        now_ms: u64,
        contacts: &Contacts,
        links: &Links,
        rng: &mut ChaCha12Rng,
    ) -> Option<Who> {
        let room = self.room(links);
        let is_due = |who: &Who, contact: &Contact| {
            self.due_ms(who, contact, links, room).is_some_and(|due_ms| due_ms <= now_ms)
        };
        let mut due: Vec<(&Who, &Contact)> =
            contacts.iter().filter(|(who, contact)| is_due(who, contact)).collect();
        if due.len() > 1 {
            let brought = self.brought(contacts, links);
            let of_kind = |kind| brought.get(&kind).copied().unwrap_or(0);
            let rank = |(who, contact): &(&Who, &Contact)| {
                (Claim::of(who, contact, links), contact.kinds().map(of_kind).min())
            };
            let best = due.iter().map(rank).min();
            due.retain(|due| Some(rank(due)) == best);
        }
        let equals: Vec<&Who> = due.into_iter().map(|(who, _)| who).collect();
        equals.choose(rng).copied().cloned()
    }

    /// How many that we dialled, or are dialling, each kind of source has brought.
    fn brought(&self, contacts: &Contacts, links: &Links) -> BTreeMap<Kind, usize> {
        let up = links.dialled().map(|peer| Who::Peer(*peer));
        let whom = up.chain(self.under_way.values().map(|dial| dial.who.clone()));
        let mut brought = BTreeMap::new();
        for contact in whom.filter_map(|who| contacts.get(&who)) {
            contact.kinds().for_each(|kind| *brought.entry(kind).or_default() += 1);
        }
        brought
    }
}
