//! All deals of this cluster, on both sides: each is changed on a copy; what was sent goes out
//! behind the record of the change, and how a lease is to be follows from its phase.

mod archive;
mod contact;
mod due;
mod shares;
mod timers;

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_protocol::codec::CodecError;
use mercato_protocol::envelope::{Signed, Verified};
use mercato_protocol::id::{ClusterId, ContractId, NegotiationId, PublicKey};
use mercato_protocol::negotiation::{Body, Message, State, TerminateReason};
use mercato_protocol::time::{Deadline, Now};

use super::command::Refusal;
use super::effect::Effect;
use super::record::Record;
use crate::config::Config;
use crate::deal::{
    Asked, Deal, EndReason, Exchange, Lease, Phase, Received, Remains, Remnant, Side, Step, hear,
};
use crate::limits;
use crate::sale::Growth;
use contact::Contact;
use timers::{Deadlines, Resend};

/// Deals, and when each wants something.
#[derive(Debug)]
pub(crate) struct Deals {
    config: Arc<Config>,
    /// The keys of those who changed theirs, the latest last.
    keys: BTreeMap<ClusterId, Vec<PublicKey>>,
    current: BTreeMap<NegotiationId, Deal>,
    /// What is over for good, and kept for its statement.
    archive: BTreeMap<NegotiationId, Deal>,
    /// There may be more of what is over than is kept of it.
    crowded: bool,
    deadlines: Deadlines,
    /// When what waits for an answer is sent again.
    resends: BTreeMap<NegotiationId, Resend>,
    /// Who is connected, and how long it was.
    contact: Contact,
    /// Nothing can be kept: nothing new is promised, and nothing is due.
    degraded: bool,
    /// What is promised has changed since that was last asked, and where it has grown.
    promises: Option<Vec<Growth>>,
}

impl Deals {
    pub(crate) fn restore(config: Arc<Config>, mut all: BTreeMap<NegotiationId, Deal>) -> Self {
        let kept_as = |deal: &Deal| deal.remains().and_then(Remains::kept_as);
        let is_archived = |deal: &Deal| kept_as(deal) == Some(Remnant::Archived);
        let archive: BTreeMap<_, _> = all.extract_if(.., |_, deal| is_archived(deal)).collect();
        let waits = all.values().filter(|deal| deal.conversation().is_waiting());
        Self {
            config,
            keys: BTreeMap::new(),
            crowded: true,
            deadlines: Deadlines::of(all.values().chain(archive.values())),
            resends: waits.map(|deal| (deal.id(), Resend::default())).collect(),
            contact: Contact::restored(all.values()),
            current: all,
            archive,
            degraded: false,
            promises: None,
        }
    }

    /// Whether records cannot be written. Then nothing is due: the deals that are restored once
    /// they can be catch up.
    pub(crate) fn set_degraded(&mut self, degraded: bool) {
        self.degraded = degraded;
    }

    pub(crate) fn degraded(&self) -> bool {
        self.degraded
    }

    /// All but the archive: whatever anybody may have something to say of yet.
    pub(crate) fn current(&self) -> impl Iterator<Item = &Deal> + Clone {
        self.current.values()
    }

    /// All deals, those in the archive as well.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Deal> + Clone {
        self.current.values().chain(self.archive.values())
    }

    /// One that is not archived.
    pub(crate) fn get(&self, id: &NegotiationId) -> Option<&Deal> {
        self.current.get(id)
    }

    pub(crate) fn archived(&self, id: &NegotiationId) -> Option<&Deal> {
        self.archive.get(id)
    }

    /// Whether there is no room for so many more deals. What is over takes none, once a lease's
    /// other side has answered.
    pub(crate) fn is_full_with(&self, more: usize) -> bool {
        let takes_room = |deal: &&Deal| match deal.remains() {
            Some(remains) => remains.kept_as().is_none() || remains.is_unanswered(),
            None => true,
        };
        let count = self.current().filter(takes_room).count();
        count + more > limits::DEALS
    }

    /// Whether there is no room for so many more orders of this cluster's own.
    pub(crate) fn is_full_with_orders(&self, more: usize) -> bool {
        let is_open = |deal: &&Deal| deal.side() == Side::Consumer && deal.phase().is_open();
        let open = self.current().filter(is_open);
        open.count() + more > limits::OPEN_ORDERS || self.is_full_with(more)
    }

    /// What waits for the owner's answer: a request, or a change.
    pub(crate) fn asked(&self, id: NegotiationId) -> Result<&Deal, Refusal> {
        let waits = |deal: &&Deal| {
            let asked = deal.state() == State::Review || is_amendment_asked(deal);
            deal.side() == Side::Provider && asked
        };
        self.get(&id).filter(waits).ok_or(Refusal::Unknown(id))
    }

    /// A running lease that this cluster bought.
    pub(crate) fn bought(&self, contract: ContractId) -> Result<&Lease, Refusal> {
        let deal = self.get(&contract.into()).filter(|deal| deal.state() == State::Active);
        let lease = deal.and_then(|deal| Some((deal, deal.lease()?)));
        let (deal, lease) = lease.ok_or(Refusal::Unknown(contract.into()))?;
        if deal.side() == Side::Consumer { Ok(lease) } else { Err(Refusal::NotConsumer(contract)) }
    }

    /// A running lease that this cluster sold, and has not taken back.
    pub(crate) fn reclaimable(&self, contract: ContractId) -> Result<&Lease, Refusal> {
        let deal = self.get(&contract.into()).filter(|deal| deal.side() == Side::Provider);
        let runs = |deal: &&Deal| matches!(deal.state(), State::Active | State::Suspended);
        let lease = deal.filter(runs).and_then(Deal::lease);
        let lease = lease.filter(|lease| lease.settlement().reclaim().is_none());
        lease.ok_or(Refusal::Unknown(contract.into()))
    }

    /// The others of a round of firm offers that this cluster asked for.
    pub(crate) fn others_of_round(&self, offer: &Deal) -> Vec<&Deal> {
        let same = |other: &&Deal| offer.rfq().is_some() && other.rfq() == offer.rfq();
        let others = self.current().filter(same);
        let others = others.filter(|other| other.side() == Side::Consumer);
        others.filter(|other| other.id() != offer.id()).collect()
    }

    /// The key that speaks for `cluster`, of which `key` is one.
    pub(crate) fn latest_key(&self, cluster: &ClusterId, key: PublicKey) -> PublicKey {
        let keys = self.keys.get(cluster).filter(|keys| keys.contains(&key));
        keys.and_then(|keys| keys.last()).copied().unwrap_or(key)
    }

    /// A cluster has changed its key: what is agreed with it goes on under the latest one. That
    /// it is theirs was checked before it came here.
    pub(crate) fn on_keys(
        &mut self,
        now: Now,
        cluster: ClusterId,
        keys: Vec<PublicKey>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(latest) = keys.last().copied() else { return };
        self.keys.insert(cluster, keys);
        if self.degraded {
            return; // it is told again once that can be kept
        }
        let with = self.current().filter(|deal| deal.peer() == cluster);
        for mut deal in with.cloned().collect::<Vec<_>>() {
            deal.set_peer_key(latest);
            self.store(now, deal, Vec::new(), effects);
        }
    }

    /// Whether a message is of the other side of a deal, with the key that speaks for it now.
    pub(crate) fn is_of_peer(&self, deal: &Deal, message: &Verified<Message>) -> bool {
        let key = self.latest_key(&message.from, *message.key());
        (deal.peer(), deal.peer_key()) == (message.from, key)
    }

    /// The other side of a deal says something; what becomes of a change it asks for was judged.
    pub(crate) fn on_message(
        &mut self,
        now: Now,
        message: &Verified<Message>,
        asked: Option<Asked<'_>>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(deal) = self.get(&message.negotiation).cloned() else { return };
        // Who knows nothing of it counts from the beginning.
        let forgotten = message.body == Body::Status { state: State::Unknown };
        let look = |phase: &mut Phase, exchange: &mut Exchange<'_, '_>| match (
            exchange.side(),
            asked,
            phase.lease_mut(),
        ) {
            (Side::Provider, Some(asked), Some(lease)) => lease.on_asked(exchange, asked),
            (Side::Provider | Side::Consumer, _, _) => hear(phase, exchange, message),
        };
        let done = self.step(now, deal, effects, |deal, step| {
            let received = if forgotten { Received::Look } else { deal.receive(message) };
            match received {
                Received::Repeated(reply) => {
                    step.sent.push(reply);
                    Ok(())
                }
                Received::Conflict => deal.edit(step, Phase::on_conflict),
                Received::Look => deal.edit(step, look),
            }
        });
        log(message.negotiation, done);
    }

    /// Changes one deal: what was sent is released behind the record of the change.
    pub(crate) fn edit(
        &mut self,
        now: Now,
        id: NegotiationId,
        effects: &mut Vec<Effect>,
        change: impl FnOnce(&mut Phase, &mut Exchange<'_, '_>) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let Some(deal) = self.get(&id).cloned() else { return Ok(()) };
        self.step(now, deal, effects, |deal, step| deal.edit(step, change))
    }

    /// The same with its lease, if there is one.
    pub(crate) fn edit_lease(
        &mut self,
        now: Now,
        id: NegotiationId,
        effects: &mut Vec<Effect>,
        change: impl FnOnce(&mut Lease, &mut Exchange<'_, '_>) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        self.edit(now, id, effects, |phase, exchange| match phase.lease_mut() {
            Some(lease) => change(lease, exchange),
            None => Ok(()),
        })
    }

    /// The owner ends an order or a lease, on either side, with a word to the other one.
    pub(crate) fn cancel(
        &mut self,
        now: Now,
        id: NegotiationId,
        text: &str,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let deal = self.get(&id).ok_or(Refusal::Unknown(id))?;
        match deal.end().map(|end| end.reason) {
            Some(EndReason::Terminated(reason)) => return Err(Refusal::Over(reason)),
            Some(EndReason::Closed(_)) => return Err(Refusal::Unknown(id)),
            None => {}
        }
        let (side, is_open) = (deal.side(), deal.phase().is_open());
        self.edit(now, id, effects, |phase, exchange| match (side, is_open) {
            (Side::Consumer, _) => phase.give_up(exchange, text),
            (Side::Provider, true) => {
                phase.terminate(exchange, TerminateReason::DeniedByOwner, text)
            }
            (Side::Provider, false) => phase.close(exchange, text),
        })?;
        Ok(())
    }

    /// The same of a running lease on one side, where nobody waits for the answer.
    pub(crate) fn edit_as(
        &mut self,
        now: Now,
        id: NegotiationId,
        side: Side,
        effects: &mut Vec<Effect>,
        change: impl FnOnce(&mut Phase, &mut Exchange<'_, '_>) -> Result<(), CodecError>,
    ) {
        if self.get(&id).is_some_and(|deal| deal.side() == side && deal.is_leased()) {
            log(id, self.edit(now, id, effects, change));
        }
    }

    /// A deal takes a step, its first one or another, and is kept; where it cannot be said what
    /// follows from it, the deal stays as it was.
    pub(crate) fn step(
        &mut self,
        now: Now,
        mut deal: Deal,
        effects: &mut Vec<Effect>,
        change: impl FnOnce(&mut Deal, &mut Step<'_>) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let _within = span(deal.id()).entered();
        let (config, keys) = (&*self.config, &self.keys);
        let link = self.contact.link(now, &deal);
        let mut step = Step { now, config, keys, link, sent: Vec::new() };
        change(&mut deal, &mut step)?;
        let sent = step.sent;
        self.store(now, deal, sent, effects);
        Ok(())
    }

    /// Keeps a deal, new or changed, and then lets others know.
    ///
    /// # Panics
    ///
    /// If it was over and is not any more.
    fn store(
        &mut self,
        now: Now,
        deal: Deal,
        sent: Vec<Signed<Message>>,
        effects: &mut Vec<Effect>,
    ) {
        let (id, to) = (deal.id(), deal.peer());
        let before = self.current.get(&id);
        let was_over = before.is_some_and(|before| before.end().is_some());
        assert!(!was_over || deal.end().is_some(), "{id} was over and is not any more");
        effects.extend(Record::changes(&deal, before).into_iter().map(Effect::Persist));
        effects.extend(sent.into_iter().map(|message| Effect::Send { to, message }));
        let contracts = |deal: &Deal| deal.lease().map(|it| it.agreements().earlier().len());
        let wanted = |deal: &Deal| deal.phase().wanted();
        if before.and_then(wanted) != wanted(&deal)
            || before.is_some_and(|before| contracts(before) != contracts(&deal))
        {
            effects.extend(Effect::lease(&deal));
        }
        if before.map(Deal::state) != Some(deal.state()) {
            let (side, state) = (deal.side(), deal.state());
            tracing::info!(?side, peer = %to, ?state, "a step");
        }
        let conversation = deal.conversation();
        if !conversation.is_waiting() {
            self.resends.remove(&id);
        } else if before.is_none_or(|before| !before.conversation().waits_like(conversation)) {
            let wait_ms = limits::RESEND_MS;
            self.resends.insert(id, Resend { at_ms: now.mono_ms + wait_ms, wait_ms });
        }
        self.deadlines.set(id, deal.deadline_ms());
        self.contact.on_change(now, before, &deal);
        let (promised_before, promised) = (before.and_then(Deal::promised), deal.promised());
        if promised_before != promised {
            let before = promised_before.unwrap_or_default();
            let more = promised.unwrap_or_default().saturating_sub(&before);
            let pool = deal.terms().pool.clone();
            let growth = (!more.is_zero()).then_some(Growth { pool, more });
            self.promises.get_or_insert_default().extend(growth);
        }
        self.crowded |= deal.remains().is_some();
        self.current.insert(id, deal);
    }

    /// Whether what is promised has changed since this was last asked, and where it has grown.
    pub(crate) fn take_promises(&mut self) -> Option<Vec<Growth>> {
        self.promises.take()
    }

    /// The deadlines of deals, and when something is sent again.
    pub(crate) fn wakeups(&self) -> [Option<Deadline>; 2] {
        if self.degraded {
            return [None, None];
        }
        let resend = self.resends.values().map(|resend| resend.at_ms).min();
        [self.deadlines.first_ms().map(Deadline::Wall), resend.map(Deadline::Mono)]
    }
}

/// Whether the provider's owner is asked about a change.
pub(crate) fn is_amendment_asked(deal: &Deal) -> bool {
    deal.side() == Side::Provider
        && deal.lease().is_some_and(|lease| lease.amendments().in_review().is_some())
}

pub(crate) fn log(id: NegotiationId, result: Result<(), CodecError>) {
    if let Err(error) = result {
        span(id).in_scope(|| tracing::warn!(%error, "cannot be said"));
    }
}

/// What is logged in it says which deal it is of.
pub(crate) fn span(id: NegotiationId) -> tracing::Span {
    tracing::info_span!("deal", %id)
}
