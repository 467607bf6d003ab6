//! The directory: sightings per peer, and what became of dials. Dialling, and proving who
//! answers, is left to the network layer.

use mercato_protocol::id::PublicKey;
use mercato_protocol::time::{Deadline, Now};
use rand::SeedableRng as _;
use rand_chacha::ChaCha12Rng;

use crate::address::Address;
use crate::contact::{Contact, Who};
use crate::contacts::Contacts;
use crate::dials::Dials;
use crate::effect::Effect;
use crate::input::{DialFailure, Input};
use crate::limits;
use crate::links::Links;
use crate::sighting::{Report, Source};

/// Whom we know. See the crate's page.
pub struct Directory {
    me: PublicKey,
    rng: ChaCha12Rng,
    contacts: Contacts,
    links: Links,
    dials: Dials,
    /// When something is next due, at the earliest.
    wake_ms: Option<u64>,
}

/// What is known of a peer, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Who it is said to be; proven only while connected.
    pub peer: Option<PublicKey>,
    /// Who says so, each once.
    pub sources: Vec<Source>,
    /// Where it is said to be.
    pub addresses: Vec<Address>,
    /// Whether a connection is up.
    pub connected: bool,
    /// Whether the owner blocked it.
    pub blocked: bool,
    /// Dials that failed, or did not last, since the last that did.
    pub failures: u32,
}

impl Directory {
    /// An empty directory of the cluster that signs with `me`.
    pub fn new(me: PublicKey, seed: [u8; 32]) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        let contacts = Contacts::new(me, &mut rng);
        Self { me, rng, contacts, links: Links::default(), dials: Dials::new(me), wake_ms: None }
    }

    /// Takes in what happened; says what is to be done.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let now_ms = now.mono_ms;
        let is_new = self.take(now_ms, input);
        let mut effects = self.forgotten();
        if is_new || self.wake_ms.is_some_and(|wake_ms| wake_ms <= now_ms) {
            self.expire(now_ms);
            effects.extend(self.forgotten());
            self.hang_up_due(now_ms, &mut effects);
            self.contacts.trim(&self.links);
            effects.extend(self.forgotten());
            self.dial_due(now_ms, &mut effects);
            self.wake_ms = self.next_ms();
        }
        effects
    }

    /// Whether all are to be looked at again: there may be thousands.
    fn take(&mut self, now_ms: u64, input: Input) -> bool {
        let Self { contacts, links, rng, .. } = self;
        match input {
            Input::Report(Report::Seen(sighting)) => {
                if let Some(who) = contacts.see(now_ms, sighting, links, rng) {
                    self.wake_for(now_ms, &who);
                }
                return false;
            }
            Input::Report(Report::Gone(id)) => contacts.lose(id.name(), links),
            Input::Dialled { attempt, result } => self.on_dialled(now_ms, attempt, result),
            Input::Connected { peer, dialled } => {
                links.connect(now_ms, peer, dialled);
                contacts.connect(now_ms, peer, rng);
            }
            Input::Disconnected(peer) => {
                let lasted_ms = links.disconnect(now_ms, peer);
                contacts.disconnect(now_ms, peer, lasted_ms, links, rng);
            }
            Input::Block(peer) => links.block(peer),
            Input::Unblock(peer) => links.unblock(peer),
            Input::Keep(peer) => return links.keep(peer),
            Input::Release(peer) => return links.release(now_ms, peer),
            Input::Replaced(peer) => {
                links.give_up(&peer);
                contacts.replace(now_ms, peer, links, rng);
            }
            Input::Tick => return false,
        }
        true
    }

    fn forgotten(&mut self) -> Vec<Effect> {
        self.contacts.take_forgotten().into_iter().map(Effect::Forget).collect()
    }

    /// When [`Input::Tick`] is next needed.
    pub fn wakeup(&self) -> Option<Deadline> {
        self.wake_ms.map(Deadline::Mono)
    }

    /// Whether it knows where this peer may be found.
    pub fn knows(&self, peer: &PublicKey) -> bool {
        let contact = self.contacts.get(&Who::Peer(*peer));
        contact.is_some_and(|contact| !contact.sightings.is_empty())
    }

    /// Whether this peer's own word of where it is may be kept: to be asked before it is
    /// repeated here, where thousands give theirs.
    pub fn listens_to(&self, now: Now, peer: &PublicKey) -> bool {
        self.contacts.listens_to(now.mono_ms, peer, &self.links)
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
                connected: peer.is_some_and(|peer| self.links.is_connected(&peer)),
                blocked: peer.is_some_and(|peer| self.links.is_blocked(&peer)),
                failures: contact.failures,
            }
        })
    }

    /// Of one about whom something new was said, when all are looked at again: there may be
    /// thousands, and most of the time nobody is to be dialled.
    fn wake_for(&mut self, now_ms: u64, who: &Who) {
        let contact = self.contacts.get(who).filter(|_| self.dials.may_begin());
        let due_ms = contact.and_then(|contact| {
            self.dials.due_ms(who, contact, &self.links, self.dials.room(&self.links))
        });
        let expires_ms = now_ms + limits::FORGET_MS;
        let next_ms = due_ms.map_or(expires_ms, |due_ms| due_ms.min(expires_ms));
        self.wake_ms = Some(self.wake_ms.map_or(next_ms, |wake_ms| wake_ms.min(next_ms)));
    }

    fn next_ms(&self) -> Option<u64> {
        let Self { contacts, links, dials, .. } = self;
        let first = dials.next_given_up_ms().into_iter().chain(links.next_parting_ms()).min();
        let mut next_ms = first.unwrap_or(u64::MAX);
        if dials.may_begin() {
            let room = dials.room(links);
            for (who, contact) in contacts.iter() {
                // Whether one counts is costly to tell: only those before the earliest so far
                // are asked.
                if contact.due_ms < next_ms
                    && let Some(due_ms) = dials.due_ms(who, contact, links, room)
                {
                    next_ms = next_ms.min(due_ms);
                }
            }
        }
        Some(contacts.next_expiry_ms(next_ms, links)).filter(|next_ms| *next_ms < u64::MAX)
    }

    fn on_dialled(&mut self, now_ms: u64, attempt: u64, result: Result<PublicKey, DialFailure>) {
        // An unknown attempt is late: it has been given up.
        let Some(who) = self.dials.end(attempt) else { return };
        let Self { contacts, links, rng, .. } = self;
        let Some(contact) = contacts.get_mut(&who) else { return };
        if result.is_err() {
            contact.fail(now_ms, links.longest_pause_ms(who.key()), rng);
        }
        let proven = match result {
            Ok(peer) => Some(peer),
            Err(DialFailure::Ourselves) => Some(self.me),
            Err(DialFailure::WrongPeer) => None,
            Err(DialFailure::Unreachable) => return,
        };
        contacts.assign(now_ms, &who, proven, links, rng);
        if let Ok(peer) = result
            && let Some(contact) = contacts.get_mut(&Who::Peer(peer))
        {
            contact.answered(now_ms);
        }
    }

    /// Drops what nobody saw for long, and fails dials without an answer.
    fn expire(&mut self, now_ms: u64) {
        let Self { contacts, links, rng, .. } = self;
        contacts.expire(now_ms, links);
        for who in self.dials.give_up_due(now_ms) {
            if let Some(contact) = contacts.get_mut(&who) {
                contact.fail(now_ms, links.longest_pause_ms(who.key()), rng);
            }
        }
    }

    /// Parts with those that were dialled because they were needed, where there are enough
    /// without them.
    fn hang_up_due(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        let due = self.links.part_due(now_ms);
        let contact = |peer: &PublicKey| self.contacts.get(&Who::Peer(*peer));
        let unlisted =
            due.into_iter().filter(|peer| contact(peer).is_none_or(|of| !of.is_listed()));
        effects.extend(unlisted.take(self.links.spare()).map(Effect::HangUp));
    }

    fn dial_due(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        let Self { contacts, links, dials, rng, .. } = self;
        while dials.may_begin()
            && let Some(who) = dials.next_due(now_ms, contacts, links, rng)
            && let Some(contact) = contacts.get_mut(&who)
        {
            contact.start(now_ms);
            let (peer, addresses) = (who.key(), contact.addresses());
            let attempt = dials.begin(now_ms, who, contact, links);
            effects.push(Effect::Dial { attempt, peer, addresses });
        }
    }
}
