//! What the owner answers to what others ask: requests, and changes of running leases; and
//! the owner's own wish for a change.

use std::collections::BTreeSet;

use mercato_protocol::contract::Terms;
use mercato_protocol::id::{ContractId, NegotiationId};
use mercato_protocol::limits::GPU_MODELS;
use mercato_protocol::negotiation::{Body, State, TerminateReason};
use mercato_protocol::resources::Resources;
use mercato_protocol::time::Now;

use crate::broker::Broker;
use crate::broker::command::{Refusal, Reply};
use crate::broker::effect::Effect;
use crate::broker::orders::{Verdict, WRONG_SIZE};
use crate::deal::{Deal, Side, Stage};
use crate::limits;
use crate::sale::ledger::Ledger;
use crate::sale::policy::Approve;
use crate::sale::size;
use crate::syntax::PriceChange;

impl Broker {
    /// Grants a request, or a change.
    pub(crate) fn accept(
        &mut self,
        now: Now,
        id: NegotiationId,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        let deal = self.promisable(id)?;
        if let Some(change) = deal.open_change().filter(|_| deal.is_change_asked()) {
            let more = change.terms.quantity.saturating_sub(&deal.terms().quantity);
            self.has_room(&change.terms, &more)?;
            self.edit(now, id, effects, Deal::agree_change)?;
        } else {
            self.has_room(&deal.request.terms, &deal.request.terms.quantity)?;
            let hold_ms = deal.hold_ms(now, None);
            self.edit(now, id, effects, |deal, turn| deal.agree(turn, hold_ms))?;
        }
        Ok(Reply::Done)
    }

    /// Answers a request with a firm offer at another price or quantity.
    pub(crate) fn counter(
        &mut self,
        now: Now,
        request: NegotiationId,
        (price, quantity, hold_s): (Option<PriceChange>, Option<Resources>, Option<u64>),
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        let asked = self.promisable(request)?;
        if asked.is_change_asked() {
            let text = "a change is at the price of its contract, as asked for or not at all";
            return Err(Refusal::Invalid(text.to_owned()));
        }
        let mut terms = asked.request.terms.clone();
        terms.quantity = quantity.unwrap_or(terms.quantity);
        size::check(&terms.quantity).map_err(|error| Refusal::Invalid(error.to_string()))?;
        if let Some(price) = price {
            let changed = price.of(&terms.price, &terms.quantity);
            terms.price = changed.map_err(|error| Refusal::Invalid(error.to_string()))?;
        }
        if hold_s.is_some_and(|hold_s| hold_s < limits::HOLD_LEAST_S) {
            let text = format!("an offer is held for {} seconds at least", limits::HOLD_LEAST_S);
            return Err(Refusal::Invalid(text));
        }
        let hold_ms = asked.hold_ms(now, hold_s);
        self.has_room(&terms, &terms.quantity)?;
        self.edit(now, request, effects, |deal, turn| deal.offer(turn, terms, hold_ms))?;
        Ok(Reply::Done)
    }

    /// Denies a request, or a change.
    pub(crate) fn deny(
        &mut self,
        now: Now,
        id: NegotiationId,
        text: &str,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        self.asked(id)?;
        let reason = TerminateReason::DeniedByOwner;
        self.edit(now, id, effects, |deal, turn| match deal.is_change_asked() {
            true => deal.refuse_change(turn, reason, text),
            false => deal.terminate(turn, reason, text),
        })?;
        Ok(Reply::Done)
    }

    /// Takes back what was sold: after the notice that the contract promises, or another.
    pub(crate) fn reclaim(
        &mut self,
        now: Now,
        contract: ContractId,
        (notice_s, text): (Option<u64>, &str),
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        let sold = |deal: &&Deal| {
            let runs = matches!(deal.stage, Stage::Active | Stage::Suspended);
            deal.side == Side::Provider && runs && deal.reclaim.is_none()
        };
        let deal = self.deals.get(&contract).filter(sold).ok_or(Refusal::Unknown(contract))?;
        let notice_s = notice_s.unwrap_or(deal.terms().reclaim_notice_s);
        let until_ms = now.wall_ms.saturating_add(notice_s.saturating_mul(1_000));
        if deal.ends_ms().is_some_and(|ends_ms| ends_ms <= until_ms) {
            return Err(Refusal::Invalid("it ends before that".to_owned()));
        }
        self.edit(now, contract, effects, |deal, turn| deal.give_notice(turn, until_ms, text))?;
        Ok(Reply::Done)
    }

    /// What waits for the owner's answer.
    fn asked(&self, id: NegotiationId) -> Result<&Deal, Refusal> {
        let waits = |deal: &&Deal| {
            let asked = deal.side == Side::Provider && deal.stage.state() == State::Review;
            asked || deal.is_change_asked()
        };
        self.deals.get(&id).filter(waits).ok_or(Refusal::Unknown(id))
    }

    /// The same, when something can be promised.
    fn promisable(&self, id: NegotiationId) -> Result<&Deal, Refusal> {
        if self.degraded { Err(Refusal::Degraded) } else { self.asked(id) }
    }

    /// Whether so much of the pool of these terms can be promised now.
    fn has_room(&self, terms: &Terms, quantity: &Resources) -> Result<(), Refusal> {
        let offer = self.offer.as_ref();
        let pool = offer.and_then(|offer| offer.pool(&terms.pool).map(|pool| (offer, pool)));
        let Some((offer, pool)) = pool else {
            return Err(Refusal::Invalid("what was asked for is not shared any more".to_owned()));
        };
        let ledger = Ledger::new(&offer.sellable, self.deals.values());
        ledger.shortage(pool, quantity).map_or(Ok(()), |short| Err(Refusal::Short(short)))
    }

    /// Buyer: asks for a change of a running lease.
    pub(crate) fn amend(
        &mut self,
        now: Now,
        contract: ContractId,
        (quantity, term_s): (Option<Resources>, Option<u64>),
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        if self.degraded {
            return Err(Refusal::Degraded);
        }
        let deal = self.bought(contract)?;
        if deal.open_change().is_some() {
            return Err(Refusal::ChangeOpen(contract));
        }
        if deal.earlier.len() >= limits::CHANGES {
            let text = format!("a lease is changed at most {} times", limits::CHANGES);
            return Err(Refusal::Invalid(text));
        }
        let mut terms = deal.terms().clone();
        terms.quantity = quantity.unwrap_or(terms.quantity);
        terms.term_s = term_s.unwrap_or(terms.term_s);
        if terms == *deal.terms() {
            return Err(Refusal::Invalid("that is what the contract says".to_owned()));
        }
        size::check(&terms.quantity).map_err(|error| Refusal::Invalid(error.to_string()))?;
        self.edit(now, contract, effects, |deal, turn| deal.ask_change(turn, terms))?;
        Ok(Reply::Done)
    }

    /// A running lease that this cluster bought.
    pub(crate) fn bought(&self, contract: ContractId) -> Result<&Deal, Refusal> {
        let deal = self.deals.get(&contract).filter(|deal| deal.state() == State::Active);
        let deal = deal.ok_or(Refusal::Unknown(contract))?;
        if deal.side == Side::Consumer { Ok(deal) } else { Err(Refusal::NotConsumer(contract)) }
    }

    /// Provider: what becomes of a change, if it is new. None: that is not what was said, or
    /// nothing can be promised now, and the buyer asks again.
    pub(crate) fn judge_change<'m>(
        &self,
        now: Now,
        deal: &Deal,
        body: &'m Body,
    ) -> Option<((u32, &'m Terms), Verdict)> {
        let Body::Amend { number, terms } = body else { return None };
        let sells = deal.side == Side::Provider && deal.agreement.is_some();
        let verdict = || self.verdict_on_change(now, deal, terms);
        (sells && !self.degraded).then(|| ((*number, terms), verdict()))
    }

    fn verdict_on_change(&self, now: Now, deal: &Deal, terms: &Terms) -> Verdict {
        use TerminateReason as Reason;
        let before = deal.terms();
        if deal.stage != Stage::Active || deal.reclaim.is_some() {
            return Verdict::Refuse(Reason::Unavailable, "the lease is not active");
        }
        if deal.earlier.len() >= limits::CHANGES {
            return Verdict::Refuse(Reason::TooMany, "it was changed often enough");
        }
        let (quantity, term_s) = (terms.quantity.clone(), terms.term_s);
        if *terms != (Terms { quantity, term_s, ..before.clone() }) {
            return Verdict::Refuse(Reason::TermsRefused, "only quantity and term can change");
        }
        if size::check(&terms.quantity).is_err() {
            return Verdict::Refuse(Reason::TermsRefused, WRONG_SIZE);
        }
        if deal.counts_models_beyond(terms) {
            return Verdict::Refuse(Reason::TooMany, "too many models of GPUs over its time");
        }
        let policy = self.share.as_ref().map(|policy| self.approval(policy, &deal.peer(), terms));
        let offer = self.offer.as_ref();
        let pool = offer.and_then(|offer| offer.pool(&terms.pool).map(|pool| (offer, pool)));
        let (Some((approval, price)), Some((offer, pool))) = (policy, pool) else {
            return Verdict::Refuse(Reason::AdUnknown, "nothing of it is for sale now");
        };
        let begun_ms =
            deal.agreement.as_ref().map_or(0, |agreement| agreement.contract.not_before_ms);
        let end_ms = begun_ms.saturating_add(terms.term_s.saturating_mul(1_000));
        let soonest_ms = now.wall_ms.saturating_add(limits::COMMIT_MS);
        let latest_s = offer.body.terms.max_term_s.saturating_mul(1_000);
        if end_ms <= soonest_ms || end_ms - now.wall_ms > latest_s {
            return Verdict::Refuse(Reason::TermsRefused, "its end would be too soon or too late");
        }
        if approval == Approve::Deny {
            return Verdict::Refuse(Reason::Denied, "the policy denies this buyer");
        }
        let ledger = Ledger::new(&offer.sellable, self.deals.values());
        let more = terms.quantity.saturating_sub(&before.quantity);
        if ledger.shortage(pool, &more).is_some() {
            return Verdict::Refuse(Reason::NoCapacity, "not enough is left");
        }
        match approval {
            Approve::Auto if terms.price == *price.unwrap_or(&offer.price) => Verdict::Grant(None),
            Approve::Auto | Approve::Ask | Approve::Deny => Verdict::Ask,
        }
    }
}

impl Deal {
    /// How long an offer that answers this request is held: as its owner says, and no longer
    /// than the request waits.
    fn hold_ms(&self, now: Now, hold_s: Option<u64>) -> u64 {
        let wanted_ms = hold_s.map_or(limits::HOLD_MS, |hold_s| hold_s.saturating_mul(1_000));
        let left_ms = match self.stage {
            Stage::Review { until_ms } => until_ms.saturating_sub(now.wall_ms),
            Stage::Requested { .. }
            | Stage::Offered
            | Stage::Agreed
            | Stage::Pending { .. }
            | Stage::Active
            | Stage::Suspended
            | Stage::Closed { .. }
            | Stage::Terminated { .. } => limits::COMMIT_MS,
        };
        wanted_ms.min(left_ms)
    }

    /// Whether receipts would count more models of GPUs than they can, if it were changed so.
    fn counts_models_beyond(&self, terms: &Terms) -> bool {
        let all = self.contracts().map(|contract| &contract.terms).chain([terms]);
        let models: BTreeSet<_> = all.flat_map(|terms| terms.quantity.gpus.keys()).collect();
        models.len() > GPU_MODELS
    }
}
