//! What the owner asks for, and what a buyer's request is answered.

use std::collections::BTreeSet;

use mercato_protocol::codec::CodecError;
use mercato_protocol::contract::Terms;
use mercato_protocol::envelope::Verified;
use mercato_protocol::id::{ClusterId, NegotiationId};
use mercato_protocol::limits::LABEL_BYTES;
use mercato_protocol::negotiation::{Body, CloseReason, Message, Request, State, TerminateReason};
use mercato_protocol::price::Price;
use mercato_protocol::resources::Resources;
use mercato_protocol::time::Now;
use rand_chacha::rand_core::Rng as _;

use crate::broker::Broker;
use crate::broker::command::{Command, Refusal, Reply};
use crate::broker::effect::Effect;
use crate::broker::record::{Record, RecordKey};
use crate::catalogue::book::{Candidate, Whom};
use crate::catalogue::demand::Demand;
use crate::catalogue::trust::Standing;
use crate::deal::conversation::{Kind, shortened};
use crate::deal::{Deal, Side, Stage};
use crate::limits;
use crate::sale::ledger::Ledger;
use crate::sale::offer::terms_of;
use crate::sale::policy::{Approve, BuyPolicy, SharePolicy};
use crate::sale::size;

/// What a buyer is told that asks for nothing that pods can use.
pub(crate) const WRONG_SIZE: &str = "too small for a pod, or larger than any cluster";

/// What becomes of a request.
pub(crate) enum Verdict {
    /// With a firm offer, where it has another price than the posted one.
    Grant(Option<Price>),
    Ask,
    Refuse(TerminateReason, &'static str),
}

impl Broker {
    pub(crate) fn command(
        &mut self,
        now: Now,
        command: Command,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        match command {
            Command::Share(policy) => self.set_share(policy, effects),
            Command::Buy(policy) => self.set_buy(policy, effects),
            Command::Peer(cluster, standing) => {
                let known = self.peers.named.contains_key(&cluster);
                if !known && self.peers.named.len() >= limits::PEERS {
                    return Err(Refusal::TooMany);
                }
                self.peers.named.insert(cluster, standing);
                effects.push(Effect::Persist(Record::Peer(cluster, standing)));
                Ok(Reply::Done)
            }
            Command::Order { demand, note, id } => self.order(now, id, (&demand, note), effects),
            Command::Rfq { demand, note } => self.ask_round(now, &demand, &note, effects),
            Command::Take(offer) => self.take_offer(now, offer, effects),
            Command::Accept(id) => self.accept(now, id, effects),
            Command::Counter { request, price, quantity, hold_s } => {
                self.counter(now, request, (price, quantity, hold_s), effects)
            }
            Command::Withdraw(contract) => self.withdraw(now, contract, effects),
            Command::Deny { request, text } => self.deny(now, request, &text, effects),
            Command::Amend { contract, quantity, term_s } => {
                self.amend(now, contract, (quantity, term_s), effects)
            }
            Command::Reclaim { contract, notice_s, text } => {
                self.reclaim(now, contract, (notice_s, &text), effects)
            }
            Command::Cancel { deal, text } => self.cancel(now, deal, &text, effects),
            Command::Stop => {
                self.stop(now, effects)?;
                Ok(Reply::Done)
            }
        }
    }

    fn set_share(
        &mut self,
        policy: Option<SharePolicy>,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        if let Some(policy) = &policy {
            policy.check().map_err(Refusal::Invalid)?;
        }
        effects.push(match &policy {
            Some(policy) => Effect::Persist(Record::Share(policy.clone())),
            None => Effect::Forget(RecordKey::Share),
        });
        self.share = policy;
        self.reoffer();
        Ok(Reply::Done)
    }

    fn set_buy(
        &mut self,
        policy: Option<BuyPolicy>,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        if let Some(policy) = &policy {
            policy.check().map_err(|text| Refusal::Invalid(text.to_owned()))?;
        }
        effects.push(match &policy {
            Some(policy) => Effect::Persist(Record::Buy(policy.clone())),
            None => Effect::Forget(RecordKey::Buy),
        });
        self.peers.policy = policy.iter().flat_map(|policy| policy.trust.clone()).collect();
        self.buy = policy;
        Ok(Reply::Done)
    }

    /// Orders, unless that was done under this id before.
    fn order(
        &mut self,
        now: Now,
        id: Option<NegotiationId>,
        (demand, note): (&Demand, String),
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        if let Some(deal) = id.and_then(|id| self.deal(&id)) {
            let ours = deal.side == Side::Consumer;
            let ordered = Reply::Ordered { id: deal.id(), provider: deal.peer() };
            return if ours { Ok(ordered) } else { Err(Refusal::Unknown(deal.id())) };
        }
        self.can_order(&demand.quantity, &note, 1)?;
        let chosen = self.choose(now, demand)?;
        let id = id.unwrap_or_else(|| self.random_id());
        self.open_order(now, id, (&chosen, demand), (note, None), effects)?;
        Ok(Reply::Ordered { id, provider: chosen.provider })
    }

    /// Whether there is room for so many more orders of so much.
    pub(crate) fn can_order(
        &self,
        quantity: &Resources,
        note: &str,
        more: usize,
    ) -> Result<(), Refusal> {
        if self.degraded {
            return Err(Refusal::Degraded);
        }
        let open = self.deals.values().filter(|deal| deal.side == Side::Consumer && deal.is_open());
        let full = open.count() + more > limits::OPEN_ORDERS;
        if full || self.is_full_with(more) {
            return Err(Refusal::TooMany);
        }
        size::check(quantity).map_err(|error| Refusal::Invalid(error.to_string()))?;
        if note.len() > limits::TEXT_BYTES {
            return Err(Refusal::Invalid(format!("a note of over {} bytes", limits::TEXT_BYTES)));
        }
        Ok(())
    }

    /// Opens a negotiation: an order, or a question in a round of firm offers.
    pub(crate) fn open_order(
        &mut self,
        now: Now,
        id: NegotiationId,
        (chosen, demand): (&Candidate, &Demand),
        (note, round): (String, Option<NegotiationId>),
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let names = &demand.namespaces;
        if names.len() > limits::ORDER_NAMESPACES || names.iter().any(|it| it.len() > LABEL_BYTES) {
            let text = format!(
                "an order is for at most {} namespaces, by names of at most {LABEL_BYTES} bytes",
                limits::ORDER_NAMESPACES
            );
            return Err(Refusal::Invalid(text));
        }
        let ad = self.book.ad(&chosen.provider).ok_or(Refusal::NoMatch { seen: 0 })?;
        let offered = ad.body.terms.classes.first().copied();
        let class = demand.class.or(offered).unwrap_or_default();
        let what = (&demand.quantity, class, demand.term_s);
        let terms = terms_of(&ad.body, &chosen.pool, &chosen.price, what);
        let request = Request { ad: ad.digest, terms, note };
        let stage = Stage::Requested { until_ms: now.wall_ms + limits::REQUEST_MS };
        let peer = (chosen.provider, chosen.key);
        let mut deal = Deal::new(Side::Consumer, id, peer, request.clone(), (stage, now.wall_ms));
        deal.rfq = round;
        deal.limit =
            demand.max_price.filter(|_| round.is_none()).map(|rate| rate.over(demand.term_s));
        let opening = if round.is_some() { Body::Rfq(request) } else { Body::Request(request) };
        deal.namespaces = demand.namespaces.clone();
        let mut turn = self.turn(now);
        deal.talk.ask(&mut turn, Kind::Request, opening)?;
        let said = turn.said;
        self.store(now, deal, said, effects);
        self.forget_ended(effects);
        Ok(())
    }

    pub(crate) fn random_id(&mut self) -> NegotiationId {
        let mut id = NegotiationId([0; 16]);
        self.rng.fill_bytes(&mut id.0);
        id
    }

    /// The best offer of a provider that the owner trusts, or one that is as good.
    pub(crate) fn choose(&mut self, now: Now, demand: &Demand) -> Result<Candidate, Refusal> {
        if let Some(from) =
            demand.from.filter(|from| self.peers.as_provider(from) == Standing::Blocked)
        {
            return Err(Refusal::Blocked(from));
        }
        if demand.term_s == 0 {
            return Err(Refusal::Invalid("an order for no time".to_owned()));
        }
        let sight = self.sight(now, demand);
        let knowledge = self.knowledge(&sight);
        let mut best = self.book.best(now, demand, knowledge, Whom::Trusted);
        if best.is_empty() {
            let stranger = self.book.best(now, demand, knowledge, Whom::Anyone).into_iter().next();
            return Err(match stranger {
                Some(Candidate { provider, name, key, .. }) => {
                    Refusal::Untrusted { provider, name, key }
                }
                None => Refusal::NoMatch { seen: self.book.offers(now) },
            });
        }
        let pick = self.rng.next_u64() % best.len() as u64;
        Ok(best.swap_remove(pick as usize))
    }

    fn cancel(
        &mut self,
        now: Now,
        id: NegotiationId,
        text: &str,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        let deal = self.deals.get(&id).ok_or(Refusal::Unknown(id))?;
        if let Stage::Terminated { reason, .. } = &deal.stage {
            return Err(Refusal::Over(*reason));
        }
        if !deal.is_open() && !deal.stage.is_leased() {
            return Err(Refusal::Unknown(id));
        }
        self.edit(now, id, effects, |deal, turn| match (deal.side, deal.is_open()) {
            (Side::Consumer, true) if deal.stage == Stage::Agreed => {
                deal.unwanted = Some(shortened(text));
                Ok(())
            }
            (Side::Consumer, true) => deal.terminate(turn, TerminateReason::Withdrawn, text),
            (Side::Provider, true) => deal.terminate(turn, TerminateReason::DeniedByOwner, text),
            (Side::Consumer, false) => deal.close(turn, CloseReason::Cancelled, text),
            (Side::Provider, false) => deal.close(turn, CloseReason::EndedByProvider, text),
        })?;
        Ok(Reply::Done)
    }

    pub(crate) fn is_stranger(&self, cluster: &ClusterId) -> bool {
        self.peers.standing(cluster) != Standing::Trusted
    }

    /// A request that is not known yet. Before it is known what the cluster has, it waits for
    /// that. Where nothing can be promised or remembered now it stays unanswered, and the buyer
    /// asks again.
    pub(crate) fn on_request(
        &mut self,
        now: Now,
        message: &Verified<Message>,
        request: &Request,
        effects: &mut Vec<Effect>,
    ) {
        if self.degraded || self.is_full_with(1) {
            return;
        }
        if self.share.is_some() && self.inventory.is_none() {
            let leased = self.deals.values().filter(|deal| deal.stage.is_leased());
            let leased: BTreeSet<ClusterId> = leased.map(Deal::peer).collect();
            let trusted = |peer: &ClusterId| self.peers.standing(peer) == Standing::Trusted;
            let is_partner = |peer: &ClusterId| trusted(peer) || leased.contains(peer);
            return self.early.keep(now, message, is_partner);
        }
        let verdict = self.judge(message, request);
        let until_ms = now.wall_ms.saturating_add(limits::REVIEW_MS);
        let peer = (message.from, self.peers.latest(&message.from, *message.key()));
        let stage = (Stage::Review { until_ms }, now.wall_ms);
        let mut deal = Deal::new(Side::Provider, message.negotiation, peer, request.clone(), stage);
        deal.rfq = matches!(message.body, Body::Rfq(_)).then_some(message.negotiation);
        deal.talk.hear(message);
        let mut turn = self.turn(now);
        let answered = match verdict {
            Verdict::Grant(None) => deal.agree(&mut turn, limits::COMMIT_MS),
            Verdict::Grant(Some(price)) => {
                let terms = Terms { price, ..request.terms.clone() };
                deal.offer(&mut turn, terms, limits::COMMIT_MS)
            }
            Verdict::Ask => deal.talk.reply(&mut turn, message.digest(), Body::Review { until_ms }),
            Verdict::Refuse(reason, text) => {
                deal.end_negotiation(&turn, reason, text);
                deal.talk.reply(&mut turn, message.digest(), deal.outcome())
            }
        };
        if let Err(error) = answered {
            tracing::warn!(deal = %message.negotiation, %error, "cannot be answered");
            return;
        }
        let said = turn.said;
        self.store(now, deal, said, effects);
        self.forget_ended(effects);
    }

    fn judge(&self, message: &Verified<Message>, request: &Request) -> Verdict {
        use TerminateReason as Reason;
        let Some(policy) = &self.share else {
            return Verdict::Refuse(Reason::AdUnknown, "nothing is shared here");
        };
        let terms = &request.terms;
        let (approval, price) = self.approval(policy, &message.from, terms);
        if approval == Approve::Deny {
            return Verdict::Refuse(Reason::Denied, "the policy denies this buyer");
        }
        let offer = self.offer.as_ref();
        let pool = offer.and_then(|offer| offer.pool(&terms.pool).map(|pool| (offer, pool)));
        let Some((offer, pool)) = pool else {
            return Verdict::Refuse(Reason::AdUnknown, "nothing of it is for sale now");
        };
        if terms.price != offer.price {
            return Verdict::Refuse(Reason::PriceChanged, "the price is another one now");
        }
        let what = (&terms.quantity, terms.class, terms.term_s);
        let range = offer.body.terms.min_term_s..=offer.body.terms.max_term_s;
        if terms_of(&offer.body, pool, &offer.price, what) != *terms
            || !offer.body.terms.classes.contains(&terms.class)
            || !range.contains(&terms.term_s)
        {
            return Verdict::Refuse(Reason::TermsRefused, "these are not the terms on offer");
        }
        if size::check(&terms.quantity).is_err() {
            return Verdict::Refuse(Reason::TermsRefused, WRONG_SIZE);
        }
        if self.is_full(message) {
            return Verdict::Refuse(Reason::TooMany, "too many requests are open");
        }
        let ledger = Ledger::new(&offer.sellable, self.deals.values());
        if ledger.shortage(pool, &terms.quantity).is_some() {
            return Verdict::Refuse(Reason::NoCapacity, "not enough is left");
        }
        match approval {
            Approve::Auto => Verdict::Grant(price.cloned()),
            Approve::Ask | Approve::Deny => Verdict::Ask,
        }
    }

    /// Drops what is remembered beyond the bounds of negotiations that came to nothing, the
    /// oldest first: those of strangers, and all.
    fn forget_ended(&mut self, effects: &mut Vec<Effect>) {
        let ended = self.deals.values().filter(|deal| deal.stage.state() == State::Terminated);
        let ended: Vec<&Deal> = ended.collect();
        let strange = |deal: &&Deal| deal.side == Side::Provider && self.is_stranger(&deal.peer());
        let strangers = ended.iter().copied().filter(strange).collect();
        let of_strangers = oldest_beyond(limits::ENDED_OF_STRANGERS, strangers);
        let of_all = oldest_beyond(limits::ENDED, ended);
        let over: BTreeSet<NegotiationId> = of_strangers.into_iter().chain(of_all).collect();
        over.into_iter().for_each(|id| self.forget(id, effects));
    }

    /// Whether the buyer's organisation has as much open as it may.
    fn is_full(&self, message: &Verified<Message>) -> bool {
        let organisation = self.peers.organisation(&message.from);
        let open = self.deals.values().filter(|deal| {
            deal.side == Side::Provider
                && deal.is_open()
                && self.peers.organisation(&deal.peer()) == organisation
        });
        let most = if self.is_stranger(&message.from) {
            limits::OPEN_OF_STRANGERS
        } else {
            limits::OPEN_PER_ORGANISATION
        };
        open.count() >= most
    }
}

/// The oldest of these, so that no more than `most` are left.
fn oldest_beyond(most: usize, mut deals: Vec<&Deal>) -> Vec<NegotiationId> {
    let beyond = deals.len().saturating_sub(most);
    if beyond > 0 {
        deals.sort_unstable_by_key(|deal| (deal.opened_ms, deal.id()));
    }
    deals.into_iter().take(beyond).map(Deal::id).collect()
}

impl From<CodecError> for Refusal {
    fn from(error: CodecError) -> Self {
        Self::Invalid(error.to_string())
    }
}
