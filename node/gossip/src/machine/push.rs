//! What neighbours send: answers, and what comes unasked. Marks are looked at before signatures,
//! since those cost a thousand times as much; what is not worth opening counts as announced.

use mercato_protocol::gossip::{Mark, Message, VerifiedPublication};
use mercato_protocol::time::Now;

use crate::effect::Effect;
use crate::index::{NeighbourIndex, PublisherIndex};
use crate::interner::Keys;
use crate::item::News;
use crate::machine::Machine;
use crate::neighbours::Neighbours;
use crate::opened::{Carried, Claim, Kind};
use crate::step::Step;
use crate::store::Relation;

impl Machine {
    /// Whether anything would come of a publication of `peer`, whatever is said about its
    /// publisher.
    pub(crate) fn is_worth_opening(
        &self,
        neighbours: &Neighbours,
        keys: &Keys,
        now: Now,
        peer: NeighbourIndex,
        claim: &Claim,
    ) -> bool {
        let at = keys.find(&claim.mark.publisher);
        let is_asked = || at.is_some_and(|at| self.fetches.is_asked_of(at, peer));
        self.is_news(&claim.mark, at)
            && (is_asked() || self.store.allows_unasked(neighbours, now, claim, at))
    }

    /// What was not asked for is taken if it ends or renews what is here; else it is as good as
    /// announced. Whoever sends unasked what is here already is told so, and no longer does.
    pub(super) fn on_push(
        &mut self,
        step: &mut Step<'_>,
        peer: NeighbourIndex,
        carried: Vec<Carried>,
        unopened: Vec<Claim>,
    ) {
        if step.neighbours.key(peer).is_none() {
            return;
        }
        let publishers = carried.iter().map(|carried| &carried.item.mark().publisher);
        let publishers = step.keys.find_each(publishers);
        self.prefetch(publishers.iter().flatten().copied());
        step.effects.reserve(carried.len());
        let mut here = Vec::new();
        for (carried, at) in carried.into_iter().zip(publishers) {
            let claim = Claim::of(&carried.item);
            // It may have a number since a moment ago.
            let at = at.or_else(|| step.keys.find(&claim.mark.publisher));
            let asked = at.filter(|at| self.fetches.is_asked_of(*at, peer));
            if let Some(publisher) = asked {
                self.fetches.on_answer(step.now, peer, publisher);
            }
            if asked.is_some() || self.admits_unasked(step, peer, &claim, at) {
                self.on_carried(step, peer, carried, at, asked.is_none());
            } else {
                here.extend(self.on_unopened(step, peer, &claim, at));
            }
        }
        for claim in unopened {
            let at = step.keys.find(&claim.mark.publisher);
            here.extend(self.on_unopened(step, peer, &claim, at));
        }
        if !here.is_empty() {
            step.send(peer, Message::Announce { marks: here });
        }
    }

    /// Whether what comes unasked is taken. The end of a publisher that is known only since it is
    /// a neighbour counts as a stranger's.
    fn admits_unasked(
        &mut self,
        step: &Step<'_>,
        peer: NeighbourIndex,
        claim: &Claim,
        at: Option<PublisherIndex>,
    ) -> bool {
        let is_here = || at.is_some_and(|at| self.store.entry(at).is_some());
        let is_chosen = || self.store.is_named(at) || claim.mark.publisher == step.neighbours.me;
        self.store.allows_unasked(step.neighbours, step.now, claim, at)
            && (is_chosen() || is_here() || self.fetches.admit(step.now, peer))
    }

    /// What is worth no more than an announcement: it was not asked for and may not come unasked,
    /// or it is what is here, or older. Gives the mark of a renewal that is here.
    fn on_unopened(
        &mut self,
        step: &mut Step<'_>,
        peer: NeighbourIndex,
        claim: &Claim,
        at: Option<PublisherIndex>,
    ) -> Option<Mark> {
        let Claim { mark, kind } = claim;
        if let Some(publisher) = at.filter(|at| self.fetches.is_asked_of(*at, peer)) {
            self.fetches.on_answer(step.now, peer, publisher);
            match self.store.relation(mark, at) {
                Relation::Same => self.fetches.settle(step, &mut self.store, publisher, mark),
                Relation::Older => self.fetches.on_older(step.now, publisher),
                Relation::New | Relation::Later(_) | Relation::Conflict => {}
            }
            self.fetches.on_advertised(step, &mut self.store, peer, mark, at);
            return None;
        }
        let publisher = self.fetches.on_advertised(step, &mut self.store, peer, mark, at)?;
        self.store.delivered_to.clear(publisher, peer);
        matches!(kind, Kind::Header(_)).then_some(*mark)
    }

    /// A publication that is fetched, or may come unasked.
    fn on_carried(
        &mut self,
        step: &mut Step<'_>,
        peer: NeighbourIndex,
        carried: Carried,
        at: Option<PublisherIndex>,
        is_unasked: bool,
    ) {
        let mark = *carried.item.mark();
        let news = match self.store.relation(&mark, at) {
            Relation::New | Relation::Later(_) => {
                let news = self.complete(carried, at);
                if let (None, Some(publisher)) = (&news, at) {
                    self.fetches.on_missing_body(step.now, peer, publisher);
                }
                news
            }
            // Another of our own: a copy of this cluster's state. Whoever numbers has to know.
            Relation::Conflict if mark.publisher == step.neighbours.me => {
                self.settle(step, at, &mark);
                step.effects.extend(self.complete(carried, at).map(Effect::Learned));
                None
            }
            Relation::Conflict => self.proof(&carried, at),
            Relation::Same => {
                at.into_iter().for_each(|publisher| self.store.holders.set(publisher, peer));
                self.settle(step, at, &mark);
                None
            }
            Relation::Older => {
                at.into_iter().for_each(|publisher| self.fetches.on_older(step.now, publisher));
                None
            }
        };
        if let Some(news) = news {
            let publisher = self.store.learn(step, peer, news.clone(), at, is_unasked);
            self.settle(step, Some(publisher), news.mark());
            step.effects.push(Effect::Learned(news));
        }
    }

    /// The publication with its body, which is here or came along.
    fn complete(&self, carried: Carried, at: Option<PublisherIndex>) -> Option<News> {
        let Carried { item, is_whole } = carried;
        let held = at.and_then(|at| self.store.entry(at)?.news.0.body());
        let shared = held.and_then(|held| item.sharing(held));
        shared.or_else(|| is_whole.then_some(item)).map(News)
    }

    /// The proof that a publisher said two things under one number.
    fn proof(&self, carried: &Carried, at: Option<PublisherIndex>) -> Option<News> {
        let held = self.store.entry(at?)?.news.publication();
        let proof = held.contradicts(carried.item.publication())?;
        News::plain(VerifiedPublication::Equivocation(proof))
    }

    fn settle(&mut self, step: &mut Step<'_>, at: Option<PublisherIndex>, held: &Mark) {
        if let Some(publisher) = at {
            self.fetches.settle(step, &mut self.store, publisher, held);
        }
    }
}
