//! Fetching what neighbours have: the latest of a publisher that was announced, from the
//! first that said so, then from the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_protocol::equivocation::Equivocation;
use mercato_protocol::gossip::{LAST_EPOCH, Mark, Message, Pull, VerifiedPublication};
use mercato_protocol::id::Digest;
use mercato_protocol::time::Now;

use crate::gossip::{Giver, Gossip, send};
use crate::item::{Item, News};
use crate::limits;
use crate::opened::Opened;
use crate::push::in_messages;
use crate::shelf::{Slot, State};
use crate::table::Place;
use crate::vocabulary::Effect;
use crate::want::{Claim, Want};

/// How a mark stands to what is held.
enum Relation {
    /// Nothing is held.
    New,
    /// Wanted, when the publisher may speak again.
    Later(u64),
    /// Wanted at once, to prove it.
    Conflict,
    /// It is what is held there.
    Same(Place),
    Older,
}

impl Gossip {
    /// `peer` holds this. If we do, too, it has it of somebody else; says whether that is so.
    pub(crate) fn on_announced(&mut self, now: Now, peer: Place, mark: &Mark) -> bool {
        let held = self.on_mark(now, peer, mark);
        if let Some(place) = held {
            self.takers.clear(place, peer);
        }
        held.is_some()
    }

    /// `peer` holds this; says where we do.
    pub(crate) fn on_mark(&mut self, now: Now, peer: Place, mark: &Mark) -> Option<Place> {
        let (held, due_ms) = match self.relation(mark) {
            Relation::New => (false, now.mono_ms),
            Relation::Later(rested_ms) => (true, rested_ms.max(now.mono_ms)),
            Relation::Conflict => (true, now.mono_ms),
            Relation::Same(place) => {
                self.holders.set(place, peer);
                return Some(place);
            }
            Relation::Older => return None,
        };
        if let Some(want) = self.want_of(mark) {
            want.claim(peer, mark);
        } else if self.has_room(now, peer, mark, held) {
            self.want(Want::new(*mark, peer, due_ms));
        }
        None
    }

    fn want_of(&mut self, mark: &Mark) -> Option<&mut Want> {
        let place = self.wants.find(&mark.publisher)?;
        self.wants.get_mut(place)
    }

    fn want(&mut self, want: Want) {
        let first = want.first.and_then(|first| self.neighbours.get_mut(first));
        if let Some(neighbour) = first {
            neighbour.wants += 1;
        }
        self.wants.insert(want);
    }

    fn relation(&self, mark: &Mark) -> Relation {
        let Some((place, slot)) = self.shelf.find(&mark.publisher) else { return Relation::New };
        let held = slot.news.mark();
        if mark.digest == held.digest {
            Relation::Same(place)
        } else if mark.supersedes(held) {
            Relation::Later(due_ms(slot, mark))
        } else if mark.conflicts(held) && held.epoch < LAST_EPOCH {
            Relation::Conflict
        } else {
            Relation::Older
        }
    }

    /// Whether one more publisher may be wanted at this neighbour's word: it has room, and
    /// there is room for the publisher, and in the lane if nobody knows it.
    fn has_room(&mut self, now: Now, peer: Place, mark: &Mark, held: bool) -> bool {
        let known = held || self.is_known(&mark.publisher);
        let (others, strangers) = self.shelf.census();
        let Some(neighbour) = self.neighbours.get_mut(peer) else { return false };
        if neighbour.wants >= limits::WANTS_PER_NEIGHBOUR {
            return false;
        }
        held || match known {
            true => others < limits::KNOWN_PUBLISHERS,
            false => strangers < limits::UNKNOWN_PUBLISHERS && neighbour.admit(now.mono_ms),
        }
    }

    /// Asks for whatever is due, each of the next that has it.
    pub(crate) fn ask_due(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let mut pulls: BTreeMap<Place, Vec<Pull>> = BTreeMap::new();
        while let Some(place) = self.wants.pop_due(now.mono_ms) {
            if let Some((peer, pull)) = self.ask(now, place, effects) {
                pulls.entry(peer).or_default().push(pull);
            }
        }
        for (peer, wants) in pulls {
            let Some(neighbour) = self.neighbours.get(peer) else { continue };
            in_messages(wants, |wants| effects.push(send(neighbour.key, Message::Pull { wants })));
        }
    }

    /// Whom to ask next for what is wanted there, if there is anybody.
    fn ask(&mut self, now: Now, place: Place, effects: &mut Vec<Effect>) -> Option<(Place, Pull)> {
        let want = self.wants.get_mut(place)?;
        if let Some((late, _)) = want.asked.take() {
            if let Some(neighbour) = self.neighbours.get_mut(late) {
                neighbour.slow();
            }
            self.released(now, late);
            self.blame(now, late, limits::EMPTY_POINTS, effects);
        }
        let want = self.wants.get_mut(place)?;
        let publisher = want.mark.publisher;
        let Some(claim) = want.next() else {
            self.drop_want(place);
            return None;
        };
        let peer = claim.peer;
        let neighbour = self.neighbours.get_mut(peer)?;
        if neighbour.asked >= limits::ASKED_OF_NEIGHBOUR {
            neighbour.waiting.push_back(publisher);
            self.wants.park(place);
            return None;
        }
        neighbour.asked += 1;
        let due_ms = now.mono_ms + neighbour.patience_ms();
        claim.asked = true;
        want.asked = Some((peer, now.mono_ms));
        let whole = want.whole;
        self.wants.schedule(place, due_ms);
        let body = self.shelf.find(&publisher).and_then(|(_, slot)| slot.news.body.as_ref());
        let held = body.filter(|_| !whole).map(|body| prefix(body.digest()));
        Some((peer, Pull { publisher, held }))
    }

    /// One answer of `peer` is not waited for any more: it is asked for what waits.
    fn released(&mut self, now: Now, peer: Place) {
        let Some(neighbour) = self.neighbours.get_mut(peer) else { return };
        neighbour.asked = neighbour.asked.saturating_sub(1);
        while let Some(publisher) = neighbour.waiting.pop_front() {
            let Some(place) = self.wants.find(&publisher) else { continue };
            if self.wants.get_mut(place).is_some_and(|want| want.is_parked()) {
                self.wants.schedule(place, now.mono_ms);
                break;
            }
        }
    }

    fn drop_want(&mut self, place: Place) -> Option<Want> {
        let want = self.wants.remove(place)?;
        let first = want.first.and_then(|first| self.neighbours.get_mut(first));
        if let Some(neighbour) = first {
            neighbour.wants = neighbour.wants.saturating_sub(1);
        }
        Some(want)
    }

    /// What was not asked for is taken if it ends or renews what we hold; else it is as good as
    /// announced. Whoever sends unasked what is here already is told so, and no longer does.
    pub(crate) fn on_push(
        &mut self,
        now: Now,
        peer: Place,
        opened: &Opened,
        effects: &mut Vec<Effect>,
    ) {
        let forged = opened.forged() as u64;
        self.blame(now, peer, forged * limits::FORGED_POINTS, effects);
        if self.neighbours.get(peer).is_none() {
            return;
        }
        let mut here = Vec::new();
        for item in &opened.items {
            let wanted = self.wants.find(&item.mark().publisher);
            let asked = wanted.filter(|place| {
                self.wants.get_mut(*place).is_some_and(|want| want.is_asked_of(peer))
            });
            if let Some(place) = asked {
                self.answered(now, peer, place);
                self.on_item(now, peer, item, opened, false, effects);
            } else if self.may_come_unasked(now, item) {
                self.on_item(now, peer, item, opened, true, effects);
            } else if self.on_announced(now, peer, item.mark()) && item.names().is_some() {
                here.push(*item.mark());
            }
        }
        if let Some(neighbour) = self.neighbours.get(peer).filter(|_| !here.is_empty()) {
            effects.push(send(neighbour.key, Message::Announce { marks: here }));
        }
    }

    /// A publisher that we know may end its lease at any time, but not over and over. It may
    /// renew what we hold at the pace of all leases.
    fn may_come_unasked(&self, now: Now, item: &Item) -> bool {
        let publisher = &item.mark().publisher;
        let Some((_, slot)) = self.shelf.find(publisher) else {
            return item.names().is_none() && self.is_known(publisher);
        };
        let body = slot.news.body.as_deref();
        let rested = slot.rested_ms() <= now.mono_ms;
        match item.publication() {
            VerifiedPublication::Lease(lease) => {
                let renews = body.is_some_and(|body| *body.digest() == lease.body);
                renews && rested && item.mark().supersedes(slot.news.mark())
            }
            VerifiedPublication::Equivocation(_) => true,
            VerifiedPublication::Withdraw(_) | VerifiedPublication::Revocations(..) => {
                rested || body.is_some()
            }
        }
    }

    /// The word of a publisher that is wanted, or may come unasked.
    fn on_item(
        &mut self,
        now: Now,
        peer: Place,
        item: &Arc<Item>,
        opened: &Opened,
        unasked: bool,
        effects: &mut Vec<Effect>,
    ) {
        let mark = *item.mark();
        match self.relation(&mark) {
            Relation::New | Relation::Later(_) => match self.complete(item, opened) {
                Some(news) => self.learn(now, peer, news, unasked, effects),
                None => self.miss_body(now, peer, &mark),
            },
            // Another of our own: a copy of this cluster's state. Whoever numbers has to know.
            Relation::Conflict if mark.publisher == self.me => {
                self.settle(now, &mark);
                effects.extend(self.complete(item, opened).map(Effect::Learned));
            }
            Relation::Conflict => {
                let held =
                    self.shelf.find(&mark.publisher).map(|(_, slot)| slot.news.publication());
                let proof = held.and_then(|held| Equivocation::between(held, item.publication()));
                let news = proof.and_then(|p| News::plain(VerifiedPublication::Equivocation(p)));
                if let Some(news) = news {
                    self.learn(now, peer, news, unasked, effects);
                }
            }
            Relation::Same(place) => {
                self.holders.set(place, peer);
                self.settle(now, &mark);
            }
            // Less than it said that it had: the next is asked at once.
            Relation::Older => {
                if let Some(place) = self.wants.find(&mark.publisher) {
                    self.wants.schedule(place, now.mono_ms);
                }
            }
        }
    }

    /// With the body that is here or came along.
    fn complete(&self, item: &Arc<Item>, opened: &Opened) -> Option<News> {
        let body = item.names().and_then(|digest| {
            let held = self.shelf.find(&item.mark().publisher);
            let held = held.and_then(|(_, slot)| slot.news.body.as_ref());
            held.into_iter().chain(&opened.bodies).find(|body| body.digest() == digest)
        });
        News::whole(Arc::clone(item), body.cloned())
    }

    /// The body was taken for one that is here: it is asked for once more, with its body.
    fn miss_body(&mut self, now: Now, peer: Place, mark: &Mark) {
        let Some(place) = self.wants.find(&mark.publisher) else { return };
        let Some(want) = self.wants.get_mut(place) else { return };
        if !std::mem::replace(&mut want.whole, true)
            && let Some(claim) = want.claims.iter_mut().find(|claim| claim.peer == peer)
        {
            claim.asked = false;
        }
        self.wants.schedule(place, now.mono_ms);
    }

    fn learn(
        &mut self,
        now: Now,
        peer: Place,
        news: News,
        unasked: bool,
        effects: &mut Vec<Effect>,
    ) {
        let mark = *news.mark();
        let place = self.shelve(now, news.clone(), State::New);
        self.holders.set(place, peer);
        self.givers.retain(|giver| giver.place != place);
        self.givers.push(Giver { place, peer, unasked });
        self.settle(now, &mark);
        effects.push(Effect::Learned(news));
    }

    /// Of what is wanted of this publisher only what is later than `held` still is, or what
    /// contradicts it.
    fn settle(&mut self, now: Now, held: &Mark) {
        let wanted = self.wants.find(&held.publisher);
        let Some(mut want) = wanted.and_then(|place| self.drop_want(place)) else { return };
        let shelved = self.shelf.find(&held.publisher).map(|(place, _)| place);
        for claim in want.claims.iter().filter(|claim| claim.mark(&want.mark) == held) {
            if let Some(place) = shelved {
                self.holders.set(place, claim.peer);
            }
        }
        if let Some((asked, _)) = want.asked.take() {
            self.released(now, asked);
        }
        let Want { mark, mut claims, .. } = want;
        claims.retain(|claim| {
            let mark = claim.mark(&mark);
            mark.supersedes(held) || mark.conflicts(held)
        });
        let Some(first) = claims.first().map(|claim| claim.peer) else { return };
        let proves = claims.iter().any(|claim| claim.mark(&mark).conflicts(held));
        let slot = shelved.and_then(|place| self.shelf.slot(place)).filter(|_| !proves);
        let due_ms = |claim: &Claim| slot.map_or(0, |slot| due_ms(slot, claim.mark(&mark)));
        let due_ms = claims.iter().map(due_ms).min().unwrap_or(0).max(now.mono_ms);
        self.want(Want { claims, ..Want::new(mark, first, due_ms) });
    }

    /// Measures how long `peer` took, if it was the one that was asked.
    fn answered(&mut self, now: Now, peer: Place, wanted: Place) {
        let want = self.wants.get_mut(wanted);
        let asked = want.and_then(|want| want.asked.take_if(|(asked, _)| *asked == peer));
        if let Some((_, asked_ms)) = asked {
            if let Some(neighbour) = self.neighbours.get_mut(peer) {
                neighbour.measure(now.mono_ms.saturating_sub(asked_ms));
            }
            self.released(now, peer);
        }
    }
}

/// When this is taken of the publisher there: a proof against it at once.
fn due_ms(slot: &Slot, mark: &Mark) -> u64 {
    if mark.epoch == LAST_EPOCH { 0 } else { slot.rested_ms() }
}

/// As in a [`Pull`].
pub(crate) fn prefix(digest: &Digest) -> u32 {
    digest.0.first_chunk().map_or(0, |head| u32::from_be_bytes(*head))
}
