//! What of a neighbour's message is worth opening: marks are looked at before signatures, since
//! those cost a thousand times as much. What is not worth it counts as announced.

use mercato_protocol::gossip::{Mark, Message};
use mercato_protocol::id::PublicKey;
use mercato_protocol::time::Now;

use crate::gossip::{Gossip, Step};
use crate::interner::Keys;
use crate::opened::{Claim, Kind, Screened};
use crate::pull::Relation;
use crate::table::Place;

impl Gossip {
    /// What is worth no more than an announcement: it was not asked for and may not come unasked,
    /// or it is what is here, or older.
    pub(crate) fn on_unopened(
        &mut self,
        step: &mut Step<'_>,
        peer: Place,
        claim: &Claim,
        at: Option<Place>,
        here: &mut Vec<Mark>,
    ) {
        let Claim { mark, kind } = claim;
        if let Some(publisher) = at.filter(|at| self.is_asked_of(*at, peer)) {
            self.answered(step.now, peer, publisher);
            match self.relation(mark, at) {
                Relation::Same => self.settle(step, at, mark),
                // Less than it said that it had: the next is asked at once.
                Relation::Older => self.wants.schedule(publisher, step.now.mono_ms),
                Relation::New | Relation::Later(_) | Relation::Conflict => {}
            }
            self.on_mark(step, peer, mark, at);
        } else if let Some(place) = self.on_mark(step, peer, mark, at) {
            self.delivered_to.clear(place, peer);
            if matches!(kind, Kind::Lease(_)) {
                here.push(*mark);
            }
        }
    }

    /// Leaves out of a neighbour's message what is worth no more than an announcement, before
    /// anybody checks its signature: whatever is said about its publisher, nothing would come of
    /// it. None: it is no neighbour, and nothing is taken from it.
    pub fn screen(&self, now: Now, peer: &PublicKey, message: Message) -> Option<Screened> {
        let peer = self.neighbours.find(peer)?;
        let Message::Push { publications, bodies } = message else {
            return Some(Screened { message, unopened: Vec::new() });
        };
        let keys = self.interner.keys();
        let (mut opened, mut unopened) = (Vec::with_capacity(publications.len()), Vec::new());
        for publication in publications {
            match Claim::made_by(&publication) {
                Some(claim) if !self.is_worth_opening(&keys, now, peer, &claim) => {
                    unopened.push(claim);
                }
                // What says nothing is refused as it is opened.
                _ => opened.push(publication),
            }
        }
        Some(Screened { message: Message::Push { publications: opened, bodies }, unopened })
    }

    fn is_worth_opening(&self, keys: &Keys, now: Now, peer: Place, claim: &Claim) -> bool {
        let at = keys.find(&claim.mark.publisher);
        match self.relation(&claim.mark, at) {
            Relation::Same | Relation::Older => false,
            Relation::New | Relation::Later(_) | Relation::Conflict => {
                at.is_some_and(|at| self.is_asked_of(at, peer))
                    || self.may_come_unasked(now, claim, at)
            }
        }
    }

    /// Whether what may come unasked of this publisher is taken: of one that is known only since
    /// it is connected it counts as a stranger's.
    pub(crate) fn admits_unasked(
        &mut self,
        now: Now,
        peer: Place,
        mark: &Mark,
        at: Option<Place>,
    ) -> bool {
        let is_chosen = at.is_some_and(|at| self.known.has(at)) || mark.publisher == self.me;
        let is_held = at.is_some_and(|at| self.store.slot(at).is_some());
        let neighbour = self.neighbours.get_mut(peer);
        is_chosen || is_held || neighbour.is_some_and(|neighbour| neighbour.admit(now.mono_ms))
    }

    pub(crate) fn is_asked_of(&self, publisher: Place, peer: Place) -> bool {
        self.wants.get(publisher).is_some_and(|want| want.is_asked_of(peer))
    }

    /// A publisher that we know may end its lease at any time, but not over and over. It may
    /// renew what we hold at the pace of all leases.
    pub(crate) fn may_come_unasked(&self, now: Now, claim: &Claim, at: Option<Place>) -> bool {
        let Claim { mark, kind } = claim;
        let Some(slot) = at.and_then(|at| self.store.slot(at)) else {
            return !matches!(kind, Kind::Lease(_)) && self.is_known(&mark.publisher, at);
        };
        let body = slot.news.0.body();
        let rested = slot.rested_ms() <= now.mono_ms;
        match kind {
            Kind::Lease(named) => {
                let renews = body.is_some_and(|body| body.digest() == named);
                renews && rested && mark.supersedes(slot.news.mark())
            }
            Kind::Proof => true,
            Kind::End => rested || body.is_some(),
        }
    }
}
