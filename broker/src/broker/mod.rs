//! The broker: the one value that joins book, offer, ledger, deals and publisher.
//!
//! Each deal is changed on a copy. What was said goes out behind the record of the
//! change, and how the lease is to be follows from its stage.

mod archive;
mod budget;
pub(crate) mod command;
mod early;
pub(crate) mod effect;
pub(crate) mod input;
mod keys;
pub(crate) mod orders;
pub(crate) mod record;
mod requests;
mod rfq;
mod timers;
pub(crate) mod view;

use std::collections::BTreeMap;

use mercato_protocol::codec::CodecError;
use mercato_protocol::envelope::{Signed, Verified};
use mercato_protocol::id::{NegotiationId, PublicKey};
use mercato_protocol::negotiation::{Body, CloseReason, Message, State};
use mercato_protocol::time::{Deadline, Now};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::broker::early::Early;
use crate::broker::effect::Effect;
use crate::broker::input::{Input, Inventory};
use crate::broker::record::{Kept, Record};
use crate::broker::timers::{Deadlines, Resend, deadline_ms};
use crate::catalogue::book::Book;
use crate::catalogue::trust::Peers;
use crate::config::Config;
use crate::deal::conversation::{Hearing, Turn};
use crate::deal::{Deal, Side};
use crate::limits;
use crate::sale::ledger::Ledger;
use crate::sale::offer::Offer;
use crate::sale::policy::{BuyPolicy, SharePolicy};
use crate::sale::publisher::Publisher;

/// The market's side of one cluster.
#[derive(Debug)]
pub struct Broker {
    pub(crate) config: Config,
    pub(crate) rng: ChaCha12Rng,
    pub(crate) now: Now,
    pub(crate) deals: BTreeMap<NegotiationId, Deal>,
    /// What is over for good, and kept for its statement.
    pub(crate) archive: BTreeMap<NegotiationId, Deal>,
    pub(crate) peers: Peers,
    pub(crate) share: Option<SharePolicy>,
    pub(crate) buy: Option<BuyPolicy>,
    pub(crate) book: Book,
    pub(crate) round_trips: BTreeMap<PublicKey, u64>,
    pub(crate) inventory: Option<Inventory>,
    pub(crate) early: Early,
    pub(crate) offer: Option<Offer>,
    pub(crate) degraded: bool,
    /// When what waits for an answer is said again.
    pub(crate) deadlines: Deadlines,
    pub(crate) resends: BTreeMap<NegotiationId, Resend>,
    publisher: Publisher,
    /// What is for sale may not be what was last compared with what is advertised.
    unpublished: bool,
    addresses: Vec<String>,
    isolation_enforced: bool,
    stopped: bool,
    /// What an earlier release kept otherwise.
    unwritten: Vec<Record>,
    /// Restored, and nobody has been told yet how the leases are to be.
    fresh: bool,
}

impl Broker {
    /// The broker that these records tell of. The first `handle` says again all that they imply.
    pub fn restore(config: Config, seed: u64, records: impl IntoIterator<Item = Record>) -> Self {
        let (mut kept, mut peers) = (Kept::default(), Peers::default());
        let (mut series, mut share, mut buy) = (None, None, None);
        for record in records {
            match record {
                Record::Series { epoch, next_seq } => series = Some((epoch, next_seq)),
                Record::Share(policy) => share = Some(policy),
                Record::Buy(policy) => {
                    peers.policy.clone_from(&policy.trust);
                    buy = Some(policy);
                }
                Record::Peer(cluster, standing) => drop(peers.named.insert(cluster, standing)),
                Record::Deal(deal) => kept.deal(*deal),
                Record::Earlier(id, number, agreement) => kept.earlier(id, number, *agreement),
                Record::Dispute(id, number, dispute) => kept.dispute(id, number, dispute),
            }
        }
        let (mut deals, unwritten) = kept.whole();
        let archive: BTreeMap<_, _> = deals.extract_if(.., |_, deal| deal.archived).collect();
        let waits = deals.values().filter(|deal| !deal.talk.waiting.is_empty());
        Self {
            deadlines: Deadlines::of(deals.values().chain(archive.values())),
            resends: waits.map(|deal| (deal.id(), Resend::default())).collect(),
            publisher: Publisher::restore(series, config.copied),
            unpublished: true,
            config,
            rng: ChaCha12Rng::seed_from_u64(seed),
            now: Now::default(),
            deals,
            archive,
            unwritten,
            peers,
            share,
            buy,
            book: Book::default(),
            round_trips: BTreeMap::new(),
            inventory: None,
            early: Early::default(),
            offer: None,
            degraded: false,
            addresses: Vec::new(),
            isolation_enforced: false,
            stopped: false,
            fresh: true,
        }
    }

    /// Takes what happened; says what is to be done, in order.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.now = now;
        let fresh = std::mem::take(&mut self.fresh);
        if fresh {
            effects.extend(std::mem::take(&mut self.unwritten).into_iter().map(Effect::Persist));
            effects.extend(self.deals.values().filter_map(Effect::lease));
        }
        self.run_deadlines(now, &mut effects);
        self.take(now, input, &mut effects);
        if fresh && self.config.copied && !self.degraded {
            // The next start is not one of a copy: it must find the epoch of this one.
            effects.push(Effect::Persist(self.publisher.series()));
        }
        self.run_deadlines(now, &mut effects);
        self.resend(now, &mut effects);
        self.publish(now, &mut effects);
        effects
    }

    /// When it wants to be called again, at the latest.
    pub fn wakeup(&self) -> Option<Deadline> {
        let fresh = self.fresh.then_some(Deadline::Mono(0));
        let deals = self.deadlines.first_ms().map(Deadline::Wall);
        let resend = self.resends.values().map(|resend| resend.at_ms).min().map(Deadline::Mono);
        let publish = self.publisher.due_ms().filter(|_| self.publishes()).map(Deadline::Mono);
        Deadline::earliest(self.now, [fresh, deals, resend, publish])
    }

    fn take(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Tick => {}
            Input::Inventory(inventory) => {
                self.inventory = Some(inventory);
                self.reoffer();
                self.early.take(now).iter().for_each(|it| self.on_message(now, it, effects));
            }
            Input::Addresses(addresses) => {
                self.addresses = addresses;
                self.reoffer();
            }
            Input::RoundTrips(trips) => {
                self.round_trips = trips.into_iter().take(limits::ROUND_TRIPS).collect();
            }
            Input::Isolation(enforced) => {
                self.isolation_enforced = enforced;
                self.reoffer();
            }
            Input::Degraded(degraded) => self.degraded = degraded,
            Input::Ad(ad) if ad.lease.provider == self.config.cluster() => {
                self.publisher.learn(ad.lease.epoch, ad.lease.seq);
            }
            Input::Membership(membership) => {
                self.peers.membership = membership;
                self.reoffer();
            }
            Input::Keys(cluster, keys) => self.on_keys(now, cluster, keys, effects),
            Input::Ad(ad) => self.book.insert(now, ad, &self.peers),
            Input::Withdrawn(withdraw) if withdraw.provider == self.config.cluster() => {
                self.publisher.learn(withdraw.epoch, withdraw.seq);
            }
            Input::Withdrawn(withdraw) => self.book.withdraw(&withdraw),
            Input::Connected(peer) => self.on_connected(now, peer),
            Input::Message(message) => self.on_message(now, &message, effects),
            Input::Usable(id) => {
                self.try_edit(now, id, Side::Consumer, effects, Deal::on_usable);
            }
            Input::Unprovidable(id, text) => {
                self.try_edit(now, id, Side::Provider, effects, |deal, turn| {
                    if !deal.stage.is_leased() {
                        return Ok(());
                    }
                    deal.close(turn, CloseReason::ProvisioningFailed, &text)
                });
            }
            Input::Drained(id) => self.edit_or_log(now, id, effects, |deal, _| {
                deal.drained |= matches!(deal.stage.state(), State::Closed);
                Ok(())
            }),
            Input::Command(number, command) => {
                let result = self.command(now, command, effects);
                effects.push(Effect::Reply(number, result));
            }
        }
    }

    fn on_message(&mut self, now: Now, message: &Verified<Message>, effects: &mut Vec<Effect>) {
        if message.to != self.config.cluster() || message.cluster() != Some(message.from) {
            return;
        }
        let Some(deal) = self.deals.get(&message.negotiation) else {
            if let Some(over) = self.archive.get(&message.negotiation) {
                return self.on_archived(now, over, message, effects);
            }
            match &message.body {
                Body::Request(request) | Body::Rfq(request) => {
                    self.on_request(now, message, request, effects);
                }
                // Said until it is answered.
                Body::StatusQuery | Body::Terminate { .. } | Body::Close { .. } => {
                    self.say_state(now, message, State::Unknown, effects);
                }
                Body::Review { .. }
                | Body::Agreement { .. }
                | Body::Offer { .. }
                | Body::Verification { .. }
                | Body::Finalized
                | Body::Status { .. }
                | Body::Ready
                | Body::UsageReport { .. }
                | Body::UsageReceipt { .. }
                | Body::Amend { .. }
                | Body::Amendment { .. }
                | Body::ReclaimNotice { .. }
                | Body::Invoice { .. }
                | Body::InvoiceReceipt { .. }
                | Body::Dispute { .. }
                | Body::Take => {}
            }
            return;
        };
        let key = self.peers.latest(&message.from, *message.key());
        if (deal.talk.peer, deal.talk.key) != (message.from, key) {
            return;
        }
        let verdict = self.judge_change(now, deal, &message.body);
        // Who knows nothing of it counts from the beginning.
        let forgotten = message.body == Body::Status { state: State::Unknown };
        let hear = |deal: &mut Deal| match forgotten {
            true => Hearing::Look,
            false => deal.talk.hear(message),
        };
        self.edit_or_log(now, message.negotiation, effects, |deal, turn| match hear(deal) {
            Hearing::Repeated(reply) => {
                turn.said.push(reply);
                Ok(())
            }
            Hearing::Conflict => deal.on_conflict(turn),
            Hearing::Look => match (deal.side, verdict) {
                (Side::Provider, Some((asked, verdict))) => deal.on_amend(turn, asked, verdict),
                (Side::Provider, None) => deal.on_buyer(turn, message),
                (Side::Consumer, _) => deal.on_seller(turn, message),
            },
        });
    }

    /// Changes one deal: what was said is released behind the record of the change.
    pub(crate) fn edit(
        &mut self,
        now: Now,
        id: NegotiationId,
        effects: &mut Vec<Effect>,
        change: impl FnOnce(&mut Deal, &mut Turn<'_>) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let Some(mut deal) = self.deals.get(&id).cloned() else { return Ok(()) };
        let mut turn = self.turn(now);
        change(&mut deal, &mut turn)?;
        let said = turn.said;
        self.store(now, deal, said, effects);
        Ok(())
    }

    pub(crate) fn edit_or_log(
        &mut self,
        now: Now,
        id: NegotiationId,
        effects: &mut Vec<Effect>,
        change: impl FnOnce(&mut Deal, &mut Turn<'_>) -> Result<(), CodecError>,
    ) {
        let edited = self.edit(now, id, effects, change);
        log(id, edited);
    }

    fn try_edit(
        &mut self,
        now: Now,
        id: NegotiationId,
        side: Side,
        effects: &mut Vec<Effect>,
        change: impl FnOnce(&mut Deal, &mut Turn<'_>) -> Result<(), CodecError>,
    ) {
        if self.deals.get(&id).is_some_and(|deal| deal.side == side) {
            self.edit_or_log(now, id, effects, change);
        }
    }

    /// Keeps a deal, new or changed, and then lets others know.
    pub(crate) fn store(
        &mut self,
        now: Now,
        deal: Deal,
        said: Vec<Signed<Message>>,
        effects: &mut Vec<Effect>,
    ) {
        let (id, to) = (deal.id(), deal.peer());
        let before = self.deals.get(&id);
        effects.extend(deal.changes(before).into_iter().map(Effect::Persist));
        effects.extend(said.into_iter().map(|message| Effect::Send { to, message }));
        if before.and_then(Deal::desired) != deal.desired()
            || before.is_some_and(|before| before.earlier.len() != deal.earlier.len())
        {
            effects.extend(Effect::lease(&deal));
        }
        if before.map(|before| &before.stage) != Some(&deal.stage) {
            let state = deal.state();
            tracing::info!(deal = %id, side = ?deal.side, peer = %to, ?state, "deal");
        }
        if deal.talk.waiting.is_empty() {
            self.resends.remove(&id);
        } else if before.map(|before| &before.talk.waiting) != Some(&deal.talk.waiting) {
            let wait_ms = limits::RESEND_MS;
            self.resends.insert(id, Resend { at_ms: now.mono_ms + wait_ms, wait_ms });
        }
        self.deadlines.set(id, deadline_ms(&deal));
        if before.and_then(Deal::promised) != deal.promised() {
            self.unpublished = true;
        }
        let ended = deal.is_over() && before.is_none_or(|before| !before.is_over());
        self.deals.insert(id, deal);
        if ended {
            self.archive_beyond(effects);
        }
    }

    /// What is on sale has to be worked out again.
    pub(crate) fn reoffer(&mut self) {
        self.unpublished = true;
        self.offer =
            self.share.as_ref().zip(self.inventory.as_ref()).and_then(|(share, inventory)| {
                let isolation = self.isolation_enforced;
                Offer::new(&self.config, share, inventory, &self.addresses, isolation)
            });
        if let Some(offer) = &mut self.offer {
            offer.body.certificates.clone_from(&self.peers.membership.own);
        }
    }

    fn publishes(&self) -> bool {
        !self.stopped && !self.degraded
    }

    fn publish(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if !self.publishes() {
            return;
        }
        if std::mem::take(&mut self.unpublished) {
            let ledger = self.offer.as_ref().map(|o| Ledger::new(&o.sellable, self.deals.values()));
            self.publisher.refresh(self.offer.as_ref(), ledger.as_ref());
        }
        let jitter = self.rng.next_u64();
        let published = self.publisher.publish(now, &self.config, jitter, effects);
        if let Err(error) = published {
            tracing::warn!(%error, "no advertisement");
        }
    }

    /// Nothing is offered any more, and nothing will be until the next start.
    pub(crate) fn stop(&mut self, now: Now, effects: &mut Vec<Effect>) -> Result<(), CodecError> {
        self.stopped = true;
        self.publisher.withdraw(now, &self.config, effects)
    }
}

pub(crate) fn log(id: NegotiationId, result: Result<(), CodecError>) {
    if let Err(error) = result {
        tracing::warn!(deal = %id, %error, "cannot be said");
    }
}
