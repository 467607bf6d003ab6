//! Rounds of firm offers: asking several providers at once, and taking one of what they
//! offer. What an offer is to either side is the seller's and the buyer's.

use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::TerminateReason;
use mercato_protocol::time::Now;

use crate::broker::Broker;
use crate::broker::command::{Refusal, Reply};
use crate::broker::effect::Effect;
use crate::catalogue::book::{Candidate, Whom};
use crate::catalogue::demand::Demand;
use crate::deal::{Deal, Side, Stage};
use crate::limits;

impl Broker {
    /// Asks each trusted provider for its best pool that suits, the best first.
    pub(crate) fn ask_round(
        &mut self,
        now: Now,
        demand: &Demand,
        note: &str,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        self.can_order(&demand.quantity, note, 1)?;
        let sight = self.sight(now, demand);
        let knowledge = self.knowledge(&sight);
        let ranked = self.book.browse(now, demand, knowledge, (Whom::Trusted, false)).offers;
        let mut asked: Vec<Candidate> = Vec::new();
        for one in ranked {
            let known = asked.iter().any(|known| known.provider == one.provider);
            if !known && asked.len() < limits::ROUND {
                asked.push(one);
            }
        }
        if asked.is_empty() {
            // The same as an order would be told.
            let seen = self.book.offers(now);
            return self.choose(now, demand).and(Err(Refusal::NoMatch { seen }));
        }
        self.can_order(&demand.quantity, note, asked.len())?;
        let round = self.random_id();
        for one in &asked {
            let id = self.random_id();
            let note = (note.to_owned(), Some(round));
            self.open_order(now, id, (one, demand), note, effects)?;
        }
        Ok(Reply::Asked { round, providers: asked.len() })
    }

    /// Takes an offer. What else was offered in its round is let go.
    pub(crate) fn take_offer(
        &mut self,
        now: Now,
        offer: NegotiationId,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        if self.degraded {
            return Err(Refusal::Degraded);
        }
        let deal = self.deals.get(&offer).filter(|deal| deal.side == Side::Consumer);
        let deal = deal.ok_or(Refusal::Unknown(offer))?;
        if let Stage::Terminated { reason, .. } = &deal.stage {
            return Err(Refusal::Over(*reason));
        }
        if deal.stage != Stage::Offered {
            return Err(Refusal::Unknown(offer));
        }
        let (provider, round) = (deal.peer(), deal.rfq);
        let others = self.deals.values().filter(|other| {
            let same = round.is_some() && other.rfq == round;
            same && other.side == Side::Consumer && other.id() != offer
        });
        let others: Vec<&Deal> = others.collect();
        let is_taken = |other: &&&Deal| other.stage == Stage::Agreed || other.stage.is_leased();
        if let Some(taken) = others.iter().find(is_taken) {
            return Err(Refusal::Taken(taken.id()));
        }
        let open = others.iter().filter(|other| other.is_open());
        let open: Vec<NegotiationId> = open.map(|other| other.id()).collect();
        self.edit(now, offer, effects, Deal::take)?;
        for other in open {
            self.edit(now, other, effects, |deal, turn| {
                deal.terminate(turn, TerminateReason::Withdrawn, "another offer was taken")
            })?;
        }
        Ok(Reply::Ordered { id: offer, provider })
    }
}
