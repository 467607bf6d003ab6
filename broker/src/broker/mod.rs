//! The broker: the one value that joins what others offer, what this cluster sells, and its
//! deals. Each of these decides for itself; here inputs are passed on and effects put in order.

mod bursts;
mod command;
mod deals;
mod early;
mod effect;
mod input;
mod orders;
mod record;
mod requests;
mod rfq;
mod view;
mod withdrawn;

use std::sync::Arc;

use mercato_protocol::envelope::Verified;
use mercato_protocol::id::{NegotiationId, PublicKey};
use mercato_protocol::negotiation::{Body, Message};
use mercato_protocol::time::{Deadline, Now};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::burst::Bursts;
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::deal::{Phase, Side};
use crate::sale::{Enforced, Series, Supply};
use deals::Deals;
use early::Early;
use record::Kept;

pub use command::{Command, Refusal, Reply};
pub use effect::{Effect, LeaseSpec};
pub use input::Input;
pub use record::{Record, RecordKey};
pub use view::{BurstsNow, BurstsOf, burst_of, bursts_now, limit, shared};

/// The market's side of one cluster.
#[derive(Debug)]
pub struct Broker {
    config: Arc<Config>,
    rng: ChaCha12Rng,
    now: Now,
    deals: Deals,
    catalogue: Catalogue,
    supply: Supply,
    early: Early,
    bursts: Bursts,
    /// What an earlier release kept otherwise.
    unwritten: Vec<Record>,
    /// Restored, and nobody has been told yet how the leases are to be.
    restored: bool,
}

impl Broker {
    /// The broker that these records tell of. The first `handle` says again all that they imply.
    pub fn restore(config: Config, seed: u64, records: impl IntoIterator<Item = Record>) -> Self {
        let Kept { deals, unwritten, named, countries, series, share, buy } = Kept::of(records);
        let config = Arc::new(config);
        Self {
            bursts: Bursts::restored(deals.values()),
            deals: Deals::restore(Arc::clone(&config), deals),
            catalogue: Catalogue::new(named, countries, buy),
            supply: Supply::new(Arc::clone(&config), share, series),
            early: Early::default(),
            config,
            rng: ChaCha12Rng::seed_from_u64(seed),
            now: Now::default(),
            unwritten,
            restored: true,
        }
    }

    /// Takes what happened; says what is to be done, in order.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.now = now;
        if let Input::Degraded(degraded) = input {
            self.deals.set_degraded(degraded);
        }
        let restored = std::mem::take(&mut self.restored);
        if restored {
            let unwritten = self.unwritten.drain(..).filter(|_| !self.deals.degraded());
            effects.extend(unwritten.map(Effect::Persist));
            effects.extend(self.deals.current().filter_map(Effect::lease));
        }
        self.deals.run_deadlines(now, &mut effects);
        self.bursts.stir(now, input.stirs());
        self.take(now, input, &mut effects);
        if restored && self.config.copied && !self.deals.degraded() {
            // The next start is not one of a copy: it must find the epoch of this one.
            let Series { epoch, next_seq } = self.supply.series();
            effects.push(Effect::Persist(Record::Series { epoch, next_seq }));
        }
        self.deals.run_deadlines(now, &mut effects);
        self.run_bursts(now, &mut effects);
        self.deals.resend(now, &mut effects);
        if !self.deals.degraded() {
            self.deals.make_room(|peer| self.catalogue.peers.organisation(peer), &mut effects);
        }
        self.publish(now, &mut effects);
        effects
    }

    /// When it wants to be called again, at the latest.
    pub fn wakeup(&self) -> Option<Deadline> {
        let restored = self.restored.then_some(Deadline::Mono(0));
        let publish = self.supply.due_ms().filter(|_| !self.deals.degraded()).map(Deadline::Mono);
        let bursts = self.bursts.wakeup().filter(|_| !self.deals.degraded());
        let all = [restored, publish, bursts].into_iter().chain(self.deals.wakeups());
        Deadline::earliest(self.now, all)
    }

    fn take(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        let us = self.config.cluster();
        match input {
            Input::Tick | Input::Degraded(_) => {}
            Input::Pending(demand) => self.bursts.set_demand(*demand),
            Input::Inventory(inventory) => {
                self.supply.set_inventory(inventory);
                self.early.take(now).iter().for_each(|it| self.on_message(now, it, effects));
            }
            Input::Addresses(addresses) => self.supply.set_addresses(addresses),
            Input::RoundTrips(trips) => self.catalogue.set_round_trips(trips),
            Input::Isolation(isolation) => {
                self.supply.set_enforced(Enforced { isolation, ..self.supply.enforced() });
            }
            Input::Egress(egress) => {
                self.supply.set_enforced(Enforced { egress, ..self.supply.enforced() });
            }
            Input::Membership(membership) => {
                self.supply.set_certificates(membership.own.clone());
                self.catalogue.peers.membership = membership;
            }
            Input::Keys(cluster, keys) => {
                // What it advertised under another key is not its word any more.
                let latest: Option<PublicKey> = keys.last().copied();
                latest.into_iter().for_each(|key| self.catalogue.book.keep_only(&cluster, key));
                self.deals.on_keys(now, cluster, keys, effects);
            }
            Input::Ad(ad) if ad.header.provider == us => {
                self.supply.learn(ad.header.epoch, ad.header.seq);
            }
            Input::Ad(ad) => self.catalogue.book.insert(now, ad, &self.catalogue.peers),
            Input::Withdrawn(end) if end.provider == us => self.supply.learn(end.epoch, end.seq),
            Input::Withdrawn(end) => self.catalogue.book.withdraw(&end),
            Input::Connected(peer) => self.deals.on_connected(now, peer, effects),
            Input::HungUp(peer) => self.deals.on_hung_up(peer),
            Input::Disconnected(peer) => self.deals.on_disconnected(now, peer),
            Input::Message(message) => self.on_message(now, &message, effects),
            Input::Usable(id) => {
                self.deals.edit_as(now, id.into(), Side::Consumer, effects, Phase::on_usable);
            }
            Input::Unprovidable(id, text) => {
                self.deals.edit_as(now, id.into(), Side::Provider, effects, |phase, exchange| {
                    phase.close(exchange, &text)
                });
            }
            Input::CleanedUp(id) => self.deals.on_cleaned_up(now, id.into(), effects),
            Input::Command(number, command) => {
                let result = self.command(now, *command, effects);
                effects.push(Effect::Reply(number, result));
            }
        }
    }

    fn on_message(&mut self, now: Now, message: &Verified<Message>, effects: &mut Vec<Effect>) {
        let is_ours = message.to == self.config.cluster();
        if !is_ours || message.cluster() != Some(message.from) || self.deals.degraded() {
            return;
        }
        if let Some(deal) = self.deals.get(&message.negotiation) {
            if self.deals.is_of_peer(deal, message) {
                let all = self.deals.current();
                let buyer = self.catalogue.buyer(now, &deal.peer(), all.clone());
                let asked = self.supply.judge_amendment(now, buyer, deal, &message.body, all);
                self.deals.on_message(now, message, asked, effects);
            }
            return;
        }
        if let Body::Request(request) | Body::Rfq(request) = &message.body
            && self.deals.archived(&message.negotiation).is_none()
        {
            return self.on_request(now, message, request, effects);
        }
        self.early.withdraw(now, message, |peer| self.catalogue.peers.is_stranger(peer));
        self.deals.on_unknown(message, effects);
    }

    fn publish(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let grown = self.deals.take_promises();
        if grown.is_some() {
            self.supply.on_promised();
        }
        if self.deals.degraded() {
            return;
        }
        let (jitter, mut said) = (self.rng.next_u64(), Vec::new());
        let (grown, all) = (grown.as_deref().unwrap_or_default(), self.deals.current());
        let published = self.supply.publish(now, jitter, grown, all, &mut said);
        effects.extend(said.into_iter().map(Effect::from));
        if let Err(error) = published {
            tracing::warn!(%error, "no advertisement");
        }
    }
}

fn random_id(rng: &mut ChaCha12Rng) -> NegotiationId {
    let mut id = NegotiationId([0; 16]);
    rng.fill_bytes(&mut id.0);
    id
}
