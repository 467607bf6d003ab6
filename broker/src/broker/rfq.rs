//! Rounds of firm offers: asking several providers at once, and taking one of what they
//! offer. What an offer is to either side is the phase's.

use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::{State, TerminateReason};
use mercato_protocol::time::Now;

use super::command::{Refusal, Reply};
use super::effect::Effect;
use super::orders::Opening;
use super::{Broker, random_id};
use crate::catalogue::Demand;
use crate::deal::{Deal, EndReason, Phase, Side};

impl Broker {
    /// Asks each trusted provider for its best pool that suits, the best first.
    pub(super) fn ask_round(
        &mut self,
        now: Now,
        demand: &Demand,
        note: &str,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        self.can_order(&demand.quantity, note, 1)?;
        let asked = self.catalogue.best_of_each(now, demand, self.deals.all());
        if asked.is_empty() {
            // The same as an order would be told.
            let seen = self.catalogue.book.offers(now);
            return self.choose(now, demand).and(Err(Refusal::NoMatch { seen }));
        }
        self.can_order(&demand.quantity, note, asked.len())?;
        let round = random_id(&mut self.rng);
        for chosen in &asked {
            let (id, note, round) = (random_id(&mut self.rng), note.to_owned(), Some(round));
            self.open_order(
                now,
                Opening { id, chosen, demand, note, round, burst: None },
                effects,
            )?;
        }
        Ok(Reply::Asked { round, providers: asked.len() })
    }

    /// Takes an offer. What else was offered in its round is let go.
    pub(super) fn take_offer(
        &mut self,
        now: Now,
        offer: NegotiationId,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        let deal = self.deals.get(&offer).filter(|deal| deal.side() == Side::Consumer);
        let deal = deal.ok_or(Refusal::Unknown(offer))?;
        if let Some(EndReason::Terminated(reason)) = deal.end().map(|end| end.reason) {
            return Err(Refusal::Over(reason));
        }
        if deal.state() != State::Offered {
            return Err(Refusal::Unknown(offer));
        }
        let (provider, others) = (deal.peer(), self.deals.others_of_round(deal));
        let is_taken = |other: &&&Deal| other.state() == State::Agreed || other.is_leased();
        if let Some(taken) = others.iter().find(is_taken) {
            return Err(Refusal::Taken(taken.id()));
        }
        let open = others.iter().filter(|other| other.phase().is_open());
        let open: Vec<NegotiationId> = open.map(|other| other.id()).collect();
        self.deals.edit(now, offer, effects, Phase::take)?;
        for other in open {
            self.deals.edit(now, other, effects, |phase, exchange| {
                phase.terminate(exchange, TerminateReason::Withdrawn, "another offer was taken")
            })?;
        }
        Ok(Reply::Ordered { id: offer, provider })
    }
}
