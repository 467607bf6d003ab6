//! Whom to dial and with whom to part: those that somebody needs and those that the owner
//! lists are always wanted; of all others a few, for the network's sake.

use std::collections::BTreeMap;

use mercato_protocol::id::PublicKey;
use rand::seq::IndexedRandom as _;

use crate::contact::{Contact, Who};
use crate::directory::{Dialling, Directory, Link};
use crate::limits;
use crate::sighting::Kind;
use crate::vocabulary::Effect;

/// Why a peer is dialled, the best reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// A lease or a negotiation needs it.
    Needed,
    /// The owner lists it.
    Listed,
    /// It was needed a moment ago: the last word may be lost.
    Owed,
    /// One as good as another.
    Neighbour,
}

/// What may be dialled besides those that are needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Whom the owner lists, or whom we may owe a word.
    listed: bool,
    /// Others, from this time on; never.
    neighbours_ms: Option<u64>,
}

impl Directory {
    /// Whether that is new.
    pub(crate) fn on_keep(&mut self, peer: PublicKey) -> bool {
        self.released.remove(&peer);
        self.kept.insert(peer)
    }

    /// Nothing needs it any more; or soon something else will. Whether that is new.
    pub(crate) fn on_release(&mut self, now_ms: u64, peer: PublicKey) -> bool {
        let was_kept = self.kept.remove(&peer);
        if was_kept {
            let connected = self.connected.contains_key(&peer);
            let for_ms = if connected { limits::LINGER_MS } else { limits::OWED_MS };
            self.released.insert(peer, now_ms + for_ms);
        }
        was_kept
    }

    /// Parts with those that were dialled because they were needed, where there are enough
    /// without them.
    pub(crate) fn hang_up_due(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        let due = self.released.extract_if(.., |_, part_ms| *part_ms <= now_ms);
        let due: Vec<PublicKey> = due.map(|(peer, _)| peer).collect();
        let contact = |peer: &PublicKey| self.contacts.get(&Who::Peer(*peer));
        let unlisted = due.into_iter().filter(|peer| {
            let dialled = self.connected.get(peer).is_some_and(|link| link.dialled);
            dialled && contact(peer).is_none_or(|of| !of.is_listed())
        });
        let (ours, all) = (self.ours(), self.connected.len());
        let spare = ours.saturating_sub(limits::CHOSEN).min(all.saturating_sub(limits::NEIGHBOURS));
        effects.extend(unlisted.take(spare).map(Effect::HangUp));
    }

    pub(crate) fn dial_due(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        while self.dials.len() < limits::DIALS
            && let Some(who) = self.next_due(now_ms)
        {
            self.dial(now_ms, who, effects);
        }
    }

    /// The one with the best claim. Among equals chance decides, for those of the kind of
    /// source that has brought the fewest: no source alone says whom we know.
    fn next_due(&mut self, now_ms: u64) -> Option<Who> {
        let room = self.room();
        let is_due = |who: &Who, contact: &Contact| {
            self.due_ms(who, contact, room).is_some_and(|due_ms| due_ms <= now_ms)
        };
        let mut due: Vec<(&Who, &Contact)> =
            self.contacts.iter().filter(|(who, contact)| is_due(who, contact)).collect();
        if due.len() > 1 {
            let brought = self.brought();
            let of_kind = |kind| brought.get(&kind).copied().unwrap_or(0);
            let rank = |(who, contact): &(&Who, &Contact)| {
                (self.claim(who, contact), contact.kinds().map(of_kind).min())
            };
            let best = due.iter().map(rank).min();
            due.retain(|due| Some(rank(due)) == best);
        }
        let equals: Vec<Who> = due.into_iter().map(|(who, _)| who.clone()).collect();
        equals.choose(&mut self.rng).cloned()
    }

    fn dial(&mut self, now_ms: u64, who: Who, effects: &mut Vec<Effect>) {
        let Some(contact) = self.contacts.get(&who) else { return };
        let addresses = contact.addresses();
        self.attempts += 1;
        let attempt = self.attempts;
        effects.push(Effect::Dial { attempt, peer: who.key(), addresses });
        if self.claim(&who, contact) == Claim::Neighbour {
            self.more_ms = now_ms + limits::MORE_MS;
        }
        if let Some(contact) = self.contacts.get_mut(&who) {
            contact.start(now_ms);
        }
        let until_ms = now_ms + limits::DIAL_TIMEOUT_MS;
        self.dials.insert(attempt, Dialling { who, until_ms });
    }

    /// When a dial would serve: there is somewhere to dial, and room for its claim; it is not
    /// up, not blocked, not us, and no dial is under way.
    pub(crate) fn due_ms(&self, who: &Who, contact: &Contact, room: Room) -> Option<u64> {
        let idle = who.key().is_none_or(|peer| {
            !self.connected.contains_key(&peer) && !self.blocked.contains(&peer) && peer != self.me
        });
        let from_ms = match self.claim(who, contact) {
            Claim::Needed => Some(0),
            Claim::Listed | Claim::Owed => room.listed.then_some(0),
            Claim::Neighbour => room.neighbours_ms,
        };
        let serves = idle
            && !contact.sightings.is_empty()
            && self.dials.values().all(|dial| dial.who != *who);
        from_ms.filter(|_| serves).map(|from_ms| from_ms.max(contact.due_ms))
    }

    pub(crate) fn room(&self) -> Room {
        let dialled = self.connected.values().filter(|link| link.dialled).count();
        let under_way = self.dials.values().filter(|dial| !self.is_kept(&dial.who)).count();
        let listed = dialled + under_way < limits::OUTBOUND;
        let neighbours_ms = match () {
            () if !listed => None,
            () if self.ours() + under_way < limits::CHOSEN => Some(0),
            () if self.connected.len() + under_way < limits::NEIGHBOURS => Some(self.more_ms),
            () => None,
        };
        Room { listed, neighbours_ms }
    }

    fn claim(&self, who: &Who, contact: &Contact) -> Claim {
        match () {
            () if self.is_kept(who) => Claim::Needed,
            () if contact.is_listed() => Claim::Listed,
            () if who.key().is_some_and(|peer| self.released.contains_key(&peer)) => Claim::Owed,
            () => Claim::Neighbour,
        }
    }

    /// Neighbours of our own choice: we dialled, and nothing needs them.
    fn ours(&self) -> usize {
        let ours = |(peer, link): &(&PublicKey, &Link)| link.dialled && !self.kept.contains(*peer);
        self.connected.iter().filter(ours).count()
    }

    /// How many that we dialled, or are dialling, each kind of source has brought.
    fn brought(&self) -> BTreeMap<Kind, usize> {
        let up = self.connected.iter().filter(|(_, link)| link.dialled);
        let up = up.map(|(peer, _)| Who::Peer(*peer));
        let whom = up.chain(self.dials.values().map(|dial| dial.who.clone()));
        let mut brought = BTreeMap::new();
        for contact in whom.filter_map(|who| self.contacts.get(&who)) {
            contact.kinds().for_each(|kind| *brought.entry(kind).or_default() += 1);
        }
        brought
    }

    fn is_kept(&self, who: &Who) -> bool {
        who.key().is_some_and(|peer| self.kept.contains(&peer))
    }
}
