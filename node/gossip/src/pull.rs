//! Fetching what neighbours have: the latest of a publisher that was announced, from the
//! first that said so, then from the others.

use std::collections::BTreeMap;

use mercato_protocol::gossip::{LAST_EPOCH, Mark, Message, Pull, VerifiedPublication};
use mercato_protocol::id::Digest;
use mercato_protocol::time::Now;

use crate::gossip::{Gossip, PendingVerdict, Step};
use crate::item::News;
use crate::limits;
use crate::opened::{Carried, Claim};
use crate::push::in_messages;
use crate::store::{Entry, State};
use crate::table::Place;
use crate::vocabulary::Effect;
use crate::want::Want;

/// How a mark stands to what is held.
pub(crate) enum Relation {
    /// Nothing is held.
    New,
    /// Wanted, when the publisher may speak again.
    Later(u64),
    /// Wanted at once, to prove it.
    Conflict,
    /// It is what is held.
    Same,
    Older,
}

impl Gossip {
    /// `peer` holds these. Those that we do, too, it has of somebody else.
    pub(crate) fn on_announced(&mut self, step: &mut Step<'_>, peer: Place, marks: &[Mark]) {
        let places = step.keys.find_each(marks.iter().map(|mark| &mark.publisher));
        self.read_ahead(places.iter().flatten().copied());
        for (mark, at) in marks.iter().zip(places) {
            if let Some(place) = self.on_mark(step, peer, mark, at) {
                self.delivered_to.clear(place, peer);
            }
        }
    }

    /// `peer` holds this, of the publisher there; says where we do.
    pub(crate) fn on_mark(
        &mut self,
        step: &mut Step<'_>,
        peer: Place,
        mark: &Mark,
        at: Option<Place>,
    ) -> Option<Place> {
        let now_ms = step.now.mono_ms;
        let (held, due_ms) = match self.relation(mark, at) {
            Relation::New => (false, now_ms),
            Relation::Later(rested_ms) => (true, rested_ms.max(now_ms)),
            Relation::Conflict => (true, now_ms),
            Relation::Same => {
                self.holders.set(at?, peer);
                return at;
            }
            Relation::Older => return None,
        };
        // It may have a number since a moment ago.
        let at = at.or_else(|| step.keys.find(&mark.publisher));
        if let Some(want) = at.and_then(|at| self.wants.get_mut(at)) {
            want.claim(peer, mark);
        } else if self.has_room(step.now, peer, mark, at, held) {
            self.count_want(Some(peer));
            let publisher = step.keys.hold(mark.publisher, at);
            self.wants.insert(publisher, mark, peer, due_ms);
        }
        None
    }

    /// One more is wanted at this neighbour's word.
    fn count_want(&mut self, first: Option<Place>) {
        if let Some(neighbour) = first.and_then(|first| self.neighbours.get_mut(first)) {
            neighbour.wants += 1;
        }
    }

    /// One less is.
    fn discount_want(&mut self, first: Option<Place>) {
        if let Some(neighbour) = first.and_then(|first| self.neighbours.get_mut(first)) {
            neighbour.wants = neighbour.wants.saturating_sub(1);
        }
    }

    pub(crate) fn relation(&self, mark: &Mark, at: Option<Place>) -> Relation {
        let Some(slot) = at.and_then(|at| self.store.slot(at)) else { return Relation::New };
        let held = slot.news.mark();
        if mark.digest == held.digest {
            Relation::Same
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
    fn has_room(
        &mut self,
        now: Now,
        peer: Place,
        mark: &Mark,
        at: Option<Place>,
        held: bool,
    ) -> bool {
        let known = held || self.is_known(&mark.publisher, at);
        let others = self.store.known();
        let Some(neighbour) = self.neighbours.get_mut(peer) else { return false };
        if neighbour.wants >= limits::WANTS_PER_NEIGHBOUR {
            return false;
        }
        held || match known {
            true => others <= limits::KNOWN_PUBLISHERS + limits::NEIGHBOURS,
            // Others of them leave for it.
            false => neighbour.admit(now.mono_ms),
        }
    }

    /// Asks for whatever is due, each of the next that has it.
    pub(crate) fn ask_due(&mut self, step: &mut Step<'_>) {
        let now = step.now;
        let mut pulls: BTreeMap<Place, Vec<Pull>> = BTreeMap::new();
        while self.wants.wakeup_ms().is_some_and(|due_ms| due_ms <= now.mono_ms) {
            let due = self.wants.take_due(now.mono_ms);
            let room = due.len().min(limits::ASKED_OF_NEIGHBOUR);
            for publisher in &due {
                if let Some((peer, pull)) = self.ask(step, *publisher) {
                    pulls.entry(peer).or_insert_with(|| Vec::with_capacity(room)).push(pull);
                }
            }
        }
        for (peer, wants) in pulls {
            let Some(neighbour) = self.neighbours.get(peer) else { continue };
            in_messages(wants, |wants| step.send(neighbour.key, Message::Pull { wants }));
        }
    }

    /// Whom to ask next for what is wanted of this publisher, if there is anybody.
    fn ask(&mut self, step: &mut Step<'_>, publisher: Place) -> Option<(Place, Pull)> {
        let now = step.now;
        if let Some(late) = self.wants.get_mut(publisher)?.give_up() {
            if let Some(neighbour) = self.neighbours.get_mut(late) {
                neighbour.slow();
            }
            self.released(now, late);
            self.penalize(step, late, limits::EMPTY_POINTS);
        }
        let want = self.wants.get_mut(publisher)?;
        let Some(peer) = want.next() else {
            self.drop_want(step, publisher);
            return None;
        };
        let neighbour = self.neighbours.get_mut(peer)?;
        if neighbour.asked >= limits::ASKED_OF_NEIGHBOUR {
            neighbour.waiting.push_back(publisher);
            return None;
        }
        neighbour.asked += 1;
        let due_ms = now.mono_ms + neighbour.patience_ms();
        let due_ms = due_ms.next_multiple_of(limits::PATIENCE_STEP_MS);
        let whole = self.wants.ask(publisher, peer, now, due_ms);
        let body = self.store.slot(publisher).and_then(|slot| slot.news.0.body());
        let held = body.filter(|_| !whole).map(|body| prefix(body.digest()));
        Some((peer, Pull { publisher: step.keys.key(publisher)?, held }))
    }

    /// One answer of `peer` is not waited for any more: it is asked for what waits.
    fn released(&mut self, now: Now, peer: Place) {
        let Some(neighbour) = self.neighbours.get_mut(peer) else { return };
        neighbour.asked = neighbour.asked.saturating_sub(1);
        while let Some(publisher) = neighbour.waiting.pop_front() {
            let want = self.wants.get(publisher).filter(|want| want.is_parked());
            let Some(next) = want.map(Want::next) else { continue };
            self.wants.schedule(publisher, now.mono_ms);
            // Another may be asked for it by now.
            if next == Some(peer) {
                break;
            }
        }
    }

    fn drop_want(&mut self, step: &mut Step<'_>, publisher: Place) {
        if let Some(want) = self.wants.remove(&mut step.keys, publisher) {
            self.discount_want(want.first);
        }
    }

    /// What was not asked for is taken if it ends or renews what we hold; else it is as good as
    /// announced. Whoever sends unasked what is here already is told so, and no longer does.
    pub(crate) fn on_push(
        &mut self,
        step: &mut Step<'_>,
        peer: Place,
        forged: u64,
        (carried, unopened): (Vec<Carried>, Vec<Claim>),
    ) {
        self.penalize(step, peer, forged * limits::FORGED_POINTS);
        if self.neighbours.get(peer).is_none() {
            return;
        }
        let publishers = carried.iter().map(|carried| &carried.item.mark().publisher);
        let places = step.keys.find_each(publishers);
        self.read_ahead(places.iter().flatten().copied());
        step.effects.reserve(carried.len());
        let mut here = Vec::new();
        for (carried, at) in carried.into_iter().zip(places) {
            let mark = carried.item.mark();
            // It may have a number since a moment ago.
            let at = at.or_else(|| step.keys.find(&mark.publisher));
            let asked = at.filter(|at| self.is_asked_of(*at, peer));
            if let Some(publisher) = asked {
                self.answered(step.now, peer, publisher);
            }
            let claim = Claim::of(&carried.item);
            let unasked = || self.may_come_unasked(step.now, &claim, at);
            if asked.is_some() || unasked() && self.admits_unasked(step.now, peer, mark, at) {
                self.on_carried(step, peer, carried, at, asked.is_none());
            } else {
                self.on_unopened(step, peer, &claim, at, &mut here);
            }
        }
        for claim in unopened {
            let at = step.keys.find(&claim.mark.publisher);
            self.on_unopened(step, peer, &claim, at, &mut here);
        }
        if let Some(neighbour) = self.neighbours.get(peer).filter(|_| !here.is_empty()) {
            step.send(neighbour.key, Message::Announce { marks: here });
        }
    }

    /// The word of a publisher that is wanted, or may come unasked.
    fn on_carried(
        &mut self,
        step: &mut Step<'_>,
        peer: Place,
        carried: Carried,
        at: Option<Place>,
        unasked: bool,
    ) {
        let mark = carried.item.mark();
        match self.relation(mark, at) {
            Relation::New | Relation::Later(_) => match self.complete(carried, at) {
                Some(news) => self.learn(step, peer, news, at, unasked),
                None => self.miss_body(step.now, peer, at),
            },
            // Another of our own: a copy of this cluster's state. Whoever numbers has to know.
            Relation::Conflict if mark.publisher == self.me => {
                self.settle(step, at, mark);
                step.effects.extend(self.complete(carried, at).map(Effect::Learned));
            }
            Relation::Conflict => {
                let held = at.and_then(|at| self.store.slot(at)).map(|slot| &slot.news);
                let proof = held
                    .and_then(|held| held.publication().contradicts(carried.item.publication()));
                let news = proof.and_then(|p| News::plain(VerifiedPublication::Equivocation(p)));
                if let Some(news) = news {
                    self.learn(step, peer, news, at, unasked);
                }
            }
            Relation::Same => {
                at.into_iter().for_each(|place| self.holders.set(place, peer));
                self.settle(step, at, mark);
            }
            // Less than it said that it had: the next is asked at once.
            Relation::Older => {
                at.into_iter().for_each(|at| self.wants.schedule(at, step.now.mono_ms));
            }
        }
    }

    /// With the body that is here or came along.
    fn complete(&self, carried: Carried, at: Option<Place>) -> Option<News> {
        let Carried { item, whole } = carried;
        let held = at.and_then(|at| self.store.slot(at)?.news.0.body());
        let shared = held.and_then(|held| item.sharing(held));
        shared.or_else(|| whole.then_some(item)).map(News)
    }

    /// The body was taken for one that is here: it is asked for once more, with its body.
    fn miss_body(&mut self, now: Now, peer: Place, at: Option<Place>) {
        let Some(publisher) = at else { return };
        let Some(want) = self.wants.get_mut(publisher) else { return };
        if !std::mem::replace(&mut want.whole, true) {
            want.ask_again(peer);
        }
        self.wants.schedule(publisher, now.mono_ms);
    }

    fn learn(
        &mut self,
        step: &mut Step<'_>,
        peer: Place,
        news: News,
        at: Option<Place>,
        unasked: bool,
    ) {
        let place = self.shelve(step, news.clone(), State::New, at);
        self.holders.set(place, peer);
        self.pending_verdicts.push_back(PendingVerdict { place, peer, unasked });
        self.settle(step, Some(place), news.mark());
        step.effects.push(Effect::Learned(news));
    }

    /// Of what is wanted of this publisher only what is later than `held` still is, or what
    /// contradicts it.
    pub(crate) fn settle(&mut self, step: &mut Step<'_>, at: Option<Place>, held: &Mark) {
        let Some(publisher) = at else { return };
        let Some(want) = self.wants.get_mut(publisher) else { return };
        let slot = self.store.slot(publisher);
        if slot.is_some() {
            want.holders(held).iter().for_each(|peer| self.holders.set(publisher, peer));
        }
        let (first, asked) = (want.first, want.give_up());
        let rest = self.wants.narrow(&mut step.keys, publisher, held).map(|want| {
            let at_once = want.proves(held) || want.is_proof();
            let due_ms = slot.filter(|_| !at_once).map_or(0, Entry::rested_ms);
            (want.first, due_ms.max(step.now.mono_ms))
        });
        self.discount_want(first);
        if let Some((first, due_ms)) = rest {
            self.count_want(first);
            self.wants.schedule(publisher, due_ms);
        }
        if let Some(asked) = asked {
            self.released(step.now, asked);
        }
    }

    /// Measures how long `peer` took, if it was the one that was asked.
    pub(crate) fn answered(&mut self, now: Now, peer: Place, publisher: Place) {
        let want = self.wants.get_mut(publisher);
        if let Some(asked_ms) = want.and_then(|want| want.answer(peer)) {
            if let Some(neighbour) = self.neighbours.get_mut(peer) {
                neighbour.measure(now.mono_ms.saturating_sub(asked_ms));
            }
            self.released(now, peer);
        }
    }
}

/// When this is taken of the publisher there: a proof against it at once.
fn due_ms(slot: &Entry, mark: &Mark) -> u64 {
    if mark.epoch == LAST_EPOCH { 0 } else { slot.rested_ms() }
}

/// As in a [`Pull`].
pub(crate) fn prefix(digest: &Digest) -> u32 {
    digest.0.first_chunk().map_or(0, |head| u32::from_be_bytes(*head))
}
