//! What the owner asks for: each command, and orders. What others ask for is answered by
//! `requests`.

use mercato_protocol::ad::Ad;
use mercato_protocol::id::NegotiationId;
use mercato_protocol::limits::LABEL_BYTES;
use mercato_protocol::negotiation::Request;
use mercato_protocol::resources::Resources;
use mercato_protocol::time::Now;
use rand_chacha::rand_core::Rng as _;

use super::command::{Command, Refusal, Reply};
use super::effect::Effect;
use super::record::{Record, RecordKey};
use super::requests::{Changes, deny, reclaim, withdraw};
use super::{Broker, random_id};
use crate::catalogue::{Audience, Candidate, Demand, Standing};
use crate::deal::{BurstKey, Conversation, Deal, Negotiation, Order, Phase, Side};
use crate::limits;
use crate::sale::{Purchase, size, terms_of};

/// One order, or one question of a round.
pub(super) struct Opening<'a> {
    pub(super) id: NegotiationId,
    pub(super) chosen: &'a Candidate,
    pub(super) demand: &'a Demand,
    /// A word to the provider's owner; may be empty.
    pub(super) note: String,
    /// The round of firm offers that it belongs to.
    pub(super) round: Option<NegotiationId>,
    /// For whose pods it is bought by itself; none: somebody orders it.
    pub(super) burst: Option<BurstKey>,
}

impl Opening<'_> {
    fn deal(self, now: Now, ad: &Ad) -> Result<Deal, Refusal> {
        let Self { id, chosen, demand, note, round, burst } = self;
        let names = &demand.namespaces;
        if names.len() > limits::ORDER_NAMESPACES || names.iter().any(|it| it.len() > LABEL_BYTES) {
            let text = format!(
                "an order is for at most {} namespaces, by names of at most {LABEL_BYTES} bytes",
                limits::ORDER_NAMESPACES
            );
            return Err(Refusal::Invalid(text));
        }
        let offered = ad.body.terms.classes.first().copied();
        let class = demand.class.or(offered).unwrap_or_default();
        let Demand { term_s, egress, .. } = demand;
        let quantity = &chosen.quantity;
        let purchase = Purchase { quantity, class, term_s: *term_s, egress };
        let terms = terms_of(&ad.body, &chosen.pool, &chosen.price, purchase);
        let limit = demand.max_price.filter(|_| round.is_none());
        let order = Order {
            side: Side::Consumer,
            request: Request { ad: ad.digest, terms, note },
            rfq: round,
            limit: limit.map(|rate| rate.over(demand.term_s)),
            namespaces: names.clone(),
            burst,
            opened_ms: now.wall_ms,
        };
        let conversation = Conversation::new(id, chosen.provider, chosen.key);
        let asked = Negotiation::Requested { until_ms: now.wall_ms + limits::REQUEST_MS };
        Ok(Deal::new(order, conversation, asked))
    }
}

impl Broker {
    pub(super) fn command(
        &mut self,
        now: Now,
        command: Command,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        // What was ordered before is on record; and nothing is kept of a stop.
        let is_ordered =
            matches!(&command, Command::Order { id: Some(id), .. } if self.deal(id).is_some());
        if self.deals.degraded() && !is_ordered && command != Command::Stop {
            return Err(Refusal::Degraded);
        }
        match command {
            Command::Share(policy) => {
                let kept = self.supply.set_policy(policy).map_err(Refusal::Invalid)?;
                effects.push(Effect::keep(kept.map(Record::Share), RecordKey::Share));
            }
            Command::Buy(policy) => {
                let set = self.catalogue.set_policy(policy.clone());
                set.map_err(|text| Refusal::Invalid(text.to_owned()))?;
                effects.push(Effect::keep(policy.map(Record::Buy), RecordKey::Buy));
            }
            Command::Peer(cluster, standing) => {
                let is_named = self.catalogue.peers.name(cluster, standing);
                is_named.then_some(()).ok_or(Refusal::TooMany)?;
                effects.push(Effect::Persist(Record::Peer(cluster, standing)));
            }
            Command::Country(cluster, said) => {
                self.catalogue.peers.place(cluster, said.clone())?;
                let record = said.map(|said| Record::Country(cluster, said));
                effects.push(Effect::keep(record, RecordKey::Country(cluster)));
            }
            Command::Order { demand, note, id } => {
                return self.order(now, id, &demand, note, effects);
            }
            Command::Rfq { demand, note } => return self.ask_round(now, &demand, &note, effects),
            Command::Take(offer) => return self.take_offer(now, offer, effects),
            Command::Accept(id) => self.accept(now, id, effects)?,
            Command::Counter { request, price, quantity, hold_s } => {
                self.counter(now, request, Changes { price, quantity, hold_s }, effects)?;
            }
            Command::Withdraw(contract) => withdraw(&mut self.deals, now, contract, effects)?,
            Command::Deny { request, text } => deny(&mut self.deals, now, request, &text, effects)?,
            Command::Amend { contract, quantity, term_s } => {
                self.amend(now, contract, quantity, term_s, effects)?;
            }
            Command::Reclaim { contract, notice_s, text } => {
                reclaim(&mut self.deals, now, contract, notice_s, &text, effects)?;
            }
            Command::Cancel { deal, text } => self.deals.cancel(now, deal, &text, effects)?,
            Command::Stop => {
                let mut said = Vec::new();
                let stopped = self.supply.stop(now, &mut said);
                effects.extend(said.into_iter().map(Effect::from));
                stopped?;
            }
        }
        Ok(Reply::Done)
    }

    /// Orders, unless that was done under this id before.
    fn order(
        &mut self,
        now: Now,
        id: Option<NegotiationId>,
        demand: &Demand,
        note: String,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        if let Some(deal) = id.and_then(|id| self.deal(&id)) {
            let ours = deal.side() == Side::Consumer;
            let ordered = Reply::Ordered { id: deal.id(), provider: deal.peer() };
            return if ours { Ok(ordered) } else { Err(Refusal::Unknown(deal.id())) };
        }
        self.can_order(&demand.quantity, &note, 1)?;
        let chosen = self.choose(now, demand)?;
        let id = id.unwrap_or_else(|| random_id(&mut self.rng));
        let opening = Opening { id, chosen: &chosen, demand, note, round: None, burst: None };
        self.open_order(now, opening, effects)?;
        Ok(Reply::Ordered { id, provider: chosen.provider })
    }

    /// Whether there is room for so many more orders of so much.
    pub(super) fn can_order(
        &self,
        quantity: &Resources,
        note: &str,
        more: usize,
    ) -> Result<(), Refusal> {
        if self.deals.is_full_with_orders(more) {
            return Err(Refusal::TooMany);
        }
        check(quantity, note)
    }

    /// Opens a negotiation: an order, or a question in a round of firm offers.
    pub(super) fn open_order(
        &mut self,
        now: Now,
        opening: Opening<'_>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let ad = self.catalogue.ad(&opening.chosen.provider);
        let deal = opening.deal(now, ad.ok_or(Refusal::NoMatch { seen: 0 })?)?;
        Ok(self.deals.step(now, deal, effects, |deal, step| deal.edit(step, Phase::ask))?)
    }

    /// The best offer of a provider that the owner trusts, or one that is as good.
    pub(super) fn choose(&mut self, now: Now, demand: &Demand) -> Result<Candidate, Refusal> {
        let is_blocked = |it: &_| self.catalogue.peers.as_provider(it) == Standing::Blocked;
        if let Some(from) = demand.from.filter(is_blocked) {
            return Err(Refusal::Blocked(from));
        }
        if demand.term_s == 0 {
            return Err(Refusal::Invalid("an order for no time".to_owned()));
        }
        let best = |audience| self.catalogue.best(now, demand, audience, self.deals.all());
        let mut trusted = best(Audience::Trusted);
        if trusted.is_empty() {
            return Err(match best(Audience::Anyone).into_iter().next() {
                Some(Candidate { provider, name, key, .. }) => {
                    Refusal::Untrusted { provider, name, key }
                }
                None => Refusal::NoMatch { seen: self.catalogue.book.offers(now) },
            });
        }
        let pick = self.rng.next_u64() % trusted.len() as u64;
        Ok(trusted.swap_remove(pick as usize))
    }
}

/// Whether so much can be ordered, with these words.
fn check(quantity: &Resources, note: &str) -> Result<(), Refusal> {
    size::check(quantity).map_err(|error| Refusal::Invalid(error.to_string()))?;
    if note.len() > limits::TEXT_BYTES {
        return Err(Refusal::Invalid(format!("a note of over {} bytes", limits::TEXT_BYTES)));
    }
    Ok(())
}
