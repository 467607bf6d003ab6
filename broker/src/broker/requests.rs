//! What others ask for, and what the owner answers: requests, and changes of running leases; and
//! the owner's own wish for a change.

use std::collections::BTreeSet;

use mercato_protocol::ad::Ad;
use mercato_protocol::contract::Terms;
use mercato_protocol::envelope::Verified;
use mercato_protocol::id::{ClusterId, ContractId, NegotiationId, PublicKey};
use mercato_protocol::negotiation::{Body, Message, Request, State, TerminateReason};
use mercato_protocol::resources::Resources;
use mercato_protocol::text::GpuModel;
use mercato_protocol::time::Now;

use super::Broker;
use super::command::Refusal;
use super::deals::{Deals, is_amendment_asked, span};
use super::effect::Effect;
use crate::deal::{Conversation, Deal, Lease, Negotiation, Order, Side, Verdict};
use crate::limits;
use crate::sale::size;
use crate::syntax::PriceChange;

/// How a firm offer differs from what was asked for; none: as asked for.
pub(super) struct Changes {
    pub(super) price: Option<PriceChange>,
    pub(super) quantity: Option<Resources>,
    /// Held so long, in seconds.
    pub(super) hold_s: Option<u64>,
}

impl Changes {
    /// The terms with these changes; the names of families give way to these models.
    fn apply<'a>(
        self,
        asked: &Terms,
        models: impl IntoIterator<Item = &'a GpuModel> + Clone,
    ) -> Result<Terms, Refusal> {
        let Self { price, quantity, hold_s } = self;
        let mut terms = asked.clone();
        if let Some(quantity) = quantity {
            terms.quantity = exact(&quantity, models)?;
        }
        if let Some(price) = price {
            let changed = price.of(&terms.price, &terms.quantity);
            terms.price = changed.map_err(|error| Refusal::Invalid(error.to_string()))?;
        }
        if hold_s.is_some_and(|hold_s| hold_s < limits::HOLD_LEAST_S) {
            let text = format!("an offer is held for {} seconds at least", limits::HOLD_LEAST_S);
            return Err(Refusal::Invalid(text));
        }
        Ok(terms)
    }
}

impl Broker {
    /// A request that is not known yet. Before it is known what the cluster has, it waits for
    /// that. Where nothing can be promised or remembered now it stays unanswered, and the buyer
    /// asks again.
    pub(super) fn on_request(
        &mut self,
        now: Now,
        message: &Verified<Message>,
        request: &Request,
        effects: &mut Vec<Effect>,
    ) {
        if self.deals.is_full_with(1) || self.early.ended(now, message) {
            return;
        }
        if self.supply.waits_for_inventory() {
            let leased = self.deals.current().filter(|deal| deal.is_leased());
            let leased: BTreeSet<ClusterId> = leased.map(Deal::peer).collect();
            let peers = &self.catalogue.peers;
            let is_partner = |peer: &ClusterId| !peers.is_stranger(peer) || leased.contains(peer);
            return self.early.keep(now, message, is_partner);
        }
        let from = message.from;
        let is_full = self.catalogue.is_full(&from, self.deals.current());
        let buyer = self.catalogue.buyer(now, &from, self.deals.current());
        let verdict = self.supply.judge(buyer, &request.terms, is_full, self.deals.current());
        let until_ms = now.wall_ms.saturating_add(limits::REVIEW_MS);
        let key = self.deals.latest_key(&from, *message.key());
        let deal = requested(now, message, request, key, until_ms);
        let answered = self.deals.step(now, deal, effects, |deal, step| {
            deal.edit(step, |phase, exchange| match verdict {
                Verdict::Grant(None) => phase.agree(exchange, limits::COMMIT_MS),
                Verdict::Grant(Some(price)) => {
                    let terms = Terms { price, ..request.terms.clone() };
                    phase.offer(exchange, terms, limits::COMMIT_MS)
                }
                Verdict::Ask => exchange.reply(message.digest(), Body::Review { until_ms }),
                Verdict::Refuse(reason, text) => {
                    phase.end_negotiation(exchange, reason, &text);
                    exchange.reply(message.digest(), phase.outcome())
                }
            })
        });
        if let Err(error) = answered {
            span(message.negotiation).in_scope(|| tracing::warn!(%error, "cannot be answered"));
        }
    }

    /// Grants a request, or a change.
    pub(super) fn accept(
        &mut self,
        now: Now,
        id: NegotiationId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let deal = self.deals.asked(id)?;
        if let Some(change) = deal.lease().and_then(|lease| lease.amendments().in_review()) {
            let more = change.terms().quantity.saturating_sub(&deal.terms().quantity);
            self.supply.has_room(change.terms(), &more, self.deals.current())?;
            self.deals.edit_lease(now, id, effects, Lease::agree_to_amendment)?;
        } else {
            let terms = &deal.request().terms;
            self.supply.has_room(terms, &terms.quantity, self.deals.current())?;
            let hold_ms = hold_ms(deal, now, None);
            self.deals.edit(now, id, effects, |phase, exchange| phase.agree(exchange, hold_ms))?;
        }
        Ok(())
    }

    /// Answers a request with a firm offer at another price or quantity.
    pub(super) fn counter(
        &mut self,
        now: Now,
        request: NegotiationId,
        changes: Changes,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let asked = self.deals.asked(request)?;
        if is_amendment_asked(asked) {
            let text = "a change is at the price of its contract, as asked for or not at all";
            return Err(Refusal::Invalid(text.to_owned()));
        }
        let (hold_s, requested) = (changes.hold_s, &asked.request().terms);
        let models = requested.quantity.gpus.keys().chain(self.supply.models(&requested.pool));
        let terms = changes.apply(requested, models)?;
        let hold_ms = hold_ms(asked, now, hold_s);
        self.supply.has_room(&terms, &terms.quantity, self.deals.current())?;
        let offer = self
            .deals
            .edit(now, request, effects, |phase, exchange| phase.offer(exchange, terms, hold_ms));
        Ok(offer?)
    }

    /// Buyer: asks for a change of a running lease.
    pub(super) fn amend(
        &mut self,
        now: Now,
        contract: ContractId,
        quantity: Option<Resources>,
        term_s: Option<u64>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let lease = self.deals.bought(contract)?;
        let ad = self.deals.get(&contract.into()).and_then(|deal| self.catalogue.ad(&deal.peer()));
        let quantity = quantity.map(|quantity| more_of(lease, ad, &quantity)).transpose()?;
        let terms = amended(lease, contract, quantity, term_s)?;
        let asked = self.deals.edit_lease(now, contract.into(), effects, |lease, exchange| {
            lease.ask_amendment(exchange, terms)
        });
        Ok(asked?)
    }
}

/// Denies a request, or a change.
pub(super) fn deny(
    deals: &mut Deals,
    now: Now,
    id: NegotiationId,
    text: &str,
    effects: &mut Vec<Effect>,
) -> Result<(), Refusal> {
    let denied = if is_amendment_asked(deals.asked(id)?) {
        deals.edit_lease(now, id, effects, |lease, exchange| lease.refuse_amendment(exchange, text))
    } else {
        deals.edit(now, id, effects, |phase, exchange| {
            phase.terminate(exchange, TerminateReason::DeniedByOwner, text)
        })
    };
    Ok(denied?)
}

/// Takes back what was sold: after the notice that the contract promises, or another.
pub(super) fn reclaim(
    deals: &mut Deals,
    now: Now,
    contract: ContractId,
    notice_s: Option<u64>,
    text: &str,
    effects: &mut Vec<Effect>,
) -> Result<(), Refusal> {
    let lease = deals.reclaimable(contract)?;
    let notice_s = notice_s.unwrap_or(lease.agreements().terms().reclaim_notice_s);
    let until_ms = now.wall_ms.saturating_add(notice_s.saturating_mul(1_000));
    if lease.ends_ms() <= until_ms {
        return Err(Refusal::Invalid("it ends before that".to_owned()));
    }
    let reclaimed = deals.edit_lease(now, contract.into(), effects, |lease, exchange| {
        lease.reclaim(exchange, until_ms, text)
    });
    Ok(reclaimed?)
}

/// Buyer: what it asked for is wanted no longer. What it has signed is in doubt until the
/// provider's word.
pub(super) fn withdraw(
    deals: &mut Deals,
    now: Now,
    contract: ContractId,
    effects: &mut Vec<Effect>,
) -> Result<(), Refusal> {
    let open = deals.bought(contract)?.amendments().open();
    let waits = |state| matches!(state, State::Requested | State::Review);
    open.filter(|change| waits(change.state())).ok_or(Refusal::NoChange(contract))?;
    Ok(deals.edit_lease(now, contract.into(), effects, Lease::withdraw_amendment)?)
}

/// So much with models in the place of families, if it can be bought.
fn exact<'a>(
    quantity: &Resources,
    models: impl IntoIterator<Item = &'a GpuModel> + Clone,
) -> Result<Resources, Refusal> {
    size::check(quantity).map_err(|error| Refusal::Invalid(error.to_string()))?;
    Ok(quantity.of_models(models))
}

/// So much with the models that a lease has in the place of families, before those on offer.
fn more_of(lease: &Lease, ad: Option<&Ad>, quantity: &Resources) -> Result<Resources, Refusal> {
    let before = lease.agreements().terms();
    let pool = ad.and_then(|ad| ad.body.pools.iter().find(|pool| pool.id == before.pool));
    let offered = pool.iter().flat_map(|pool| pool.gpus.iter().map(|gpu| &gpu.model));
    // A provider of a release before could not even read that it is asked for some.
    let has_storage =
        before.quantity.storage_bytes > 0 || pool.is_some_and(|pool| pool.total.storage_bytes > 0);
    if quantity.storage_bytes > 0 && !has_storage {
        let text = "the provider offers no storage: mercato browse 'storage>=1Gi' shows who does";
        return Err(Refusal::Invalid(text.to_owned()));
    }
    exact(quantity, before.quantity.gpus.keys().chain(offered))
}

/// What the contract of a lease is to say; all else stays.
fn amended(
    lease: &Lease,
    contract: ContractId,
    quantity: Option<Resources>,
    term_s: Option<u64>,
) -> Result<Terms, Refusal> {
    if lease.amendments().open().is_some() {
        return Err(Refusal::ChangeOpen(contract));
    }
    if lease.agreements().earlier().len() >= limits::CHANGES {
        let text = format!("a lease is changed at most {} times", limits::CHANGES);
        return Err(Refusal::Invalid(text));
    }
    let before = lease.agreements().terms();
    let mut terms = before.clone();
    terms.quantity = quantity.unwrap_or(terms.quantity);
    terms.term_s = term_s.unwrap_or(terms.term_s);
    if terms == *before {
        return Err(Refusal::Invalid("that is what the contract says".to_owned()));
    }
    Ok(terms)
}

/// A deal of a request that its owner is asked about until then.
fn requested(
    now: Now,
    message: &Verified<Message>,
    request: &Request,
    key: PublicKey,
    until_ms: u64,
) -> Deal {
    let order = Order {
        side: Side::Provider,
        request: request.clone(),
        rfq: matches!(message.body, Body::Rfq(_)).then_some(message.negotiation),
        limit: None,
        namespaces: BTreeSet::new(),
        burst: None,
        opened_ms: now.wall_ms,
    };
    let mut conversation = Conversation::new(message.negotiation, message.from, key);
    conversation.receive(message);
    Deal::new(order, conversation, Negotiation::Review { until_ms })
}

/// How long an offer that answers this request is held: as its owner says, and no longer than
/// the request waits.
fn hold_ms(deal: &Deal, now: Now, hold_s: Option<u64>) -> u64 {
    let wanted_ms = hold_s.map_or(limits::HOLD_MS, |hold_s| hold_s.saturating_mul(1_000));
    let until_ms = deal.until_ms().filter(|_| deal.state() == State::Review);
    let left_ms = until_ms.map(|until_ms| until_ms.saturating_sub(now.wall_ms));
    wanted_ms.min(left_ms.unwrap_or(limits::COMMIT_MS))
}
