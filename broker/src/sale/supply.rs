//! What is for sale, and to whom: from policy, inventory and ledger to the advertisement, and to
//! the answer that a request gets.

use std::sync::Arc;

use mercato_protocol::ad::{Pool, PoolRow};
use mercato_protocol::certificate::Certificate;
use mercato_protocol::codec::CodecError;
use mercato_protocol::contract::Terms;
use mercato_protocol::envelope::Signed;
use mercato_protocol::limits::GPU_MODELS;
use mercato_protocol::negotiation::{Body, State, TerminateReason};
use mercato_protocol::resources::Resources;
use mercato_protocol::text::{GpuModel, PoolId};
use mercato_protocol::time::Now;

use super::egress;
use super::enforced::Enforced;
use super::inventory::Inventory;
use super::ledger::{self, Ledger};
use super::offer::{Offer, Purchase, bucket, terms_of};
use super::policy::{Approve, Buyer, SharePolicy, ruled};
use super::publisher::{Announcement, Cause, Publisher, Series};
use super::said::Said;
use super::shortage::{Growth, Shortage};
use super::size;
use crate::config::Config;
use crate::deal::{Asked, Deal, Side, Verdict};
use crate::limits;

/// What a buyer is told that asks for nothing that pods can use.
const WRONG_SIZE: &str = "too small for a pod, or larger than any cluster";

/// What a buyer is told that would leave GPUs without processors or memory.
const BEYOND_SHARE: &str = "each GPU comes with its share of processors and memory, and no more";

/// What this cluster sells, and to whom.
#[derive(Debug)]
pub(crate) struct Supply {
    config: Arc<Config>,
    said: Said,
    inventory: Option<Inventory>,
    addresses: Vec<String>,
    enforced: Enforced,
    /// What this cluster shows of its memberships.
    certificates: Vec<Signed<Certificate>>,
    offer: Option<Offer>,
    publisher: Publisher,
    /// What is for sale may not be what was last compared with what is advertised, for this reason.
    changed: Option<Cause>,
    stopped: bool,
}

impl Supply {
    pub(crate) fn new(
        config: Arc<Config>,
        policy: Option<SharePolicy>,
        series: Option<Series>,
    ) -> Self {
        Self {
            publisher: Publisher::restore(series, config.copied),
            config,
            said: Said::restore(policy),
            inventory: None,
            addresses: Vec::new(),
            enforced: Enforced::default(),
            certificates: Vec::new(),
            offer: None,
            changed: Some(Cause::Cluster),
            stopped: false,
        }
    }

    /// What the owner shares; none: nothing.
    pub(crate) fn policy(&self) -> Option<&SharePolicy> {
        self.said.shared()
    }

    /// The same with what holds of it where nothing is shared any more.
    pub(crate) fn said(&self) -> &Said {
        &self.said
    }

    /// The owner shares something else from now on: what has to be remembered, or why it cannot be.
    pub(crate) fn set_policy(
        &mut self,
        policy: Option<SharePolicy>,
    ) -> Result<Option<SharePolicy>, String> {
        policy.as_ref().map_or(Ok(()), SharePolicy::check)?;
        self.said.set(policy);
        self.rebuild_offer(Cause::Owner);
        Ok(self.said.kept().cloned())
    }

    pub(crate) fn set_inventory(&mut self, inventory: Inventory) {
        self.inventory = Some(inventory);
        self.rebuild_offer(Cause::Cluster);
    }

    pub(crate) fn set_addresses(&mut self, addresses: Vec<String>) {
        self.addresses = addresses;
        self.rebuild_offer(Cause::Cluster);
    }

    pub(crate) fn enforced(&self) -> Enforced {
        self.enforced
    }

    pub(crate) fn set_enforced(&mut self, enforced: Enforced) {
        self.enforced = enforced;
        self.rebuild_offer(Cause::Cluster);
    }

    pub(crate) fn set_certificates(&mut self, certificates: Vec<Signed<Certificate>>) {
        self.certificates = certificates;
        self.rebuild_offer(Cause::Cluster);
    }

    /// What is on sale has to be worked out again.
    fn rebuild_offer(&mut self, cause: Cause) {
        self.changed = self.changed.max(Some(cause));
        let (policy, inventory) = (self.said.shared(), self.inventory.as_ref());
        self.offer = policy.zip(inventory).and_then(|(policy, inventory)| {
            Offer::new(&self.config, policy, inventory, &self.addresses, self.enforced)
        });
        if let Some(offer) = &mut self.offer {
            offer.body.certificates.clone_from(&self.certificates);
            offer.fit(self.config.cluster());
        }
    }

    /// What the cluster has, shared or not; none: that is not known yet.
    pub(crate) fn inventory(&self) -> Option<&Inventory> {
        self.inventory.as_ref()
    }

    /// Whether something is shared, and it is not known yet what the cluster has.
    pub(crate) fn waits_for_inventory(&self) -> bool {
        self.said.shared().is_some() && self.inventory.is_none()
    }

    /// What can be sold in all, sold or not.
    pub(crate) fn shared(&self) -> Option<Resources> {
        let all = || self.offer.as_ref().map(|offer| offer.sellable.all()).unwrap_or_default();
        (!self.waits_for_inventory()).then(all)
    }

    pub(crate) fn offer(&self) -> Option<&Offer> {
        self.offer.as_ref()
    }

    /// How much of each pool is free, exactly.
    pub(crate) fn rows<'d>(&self, deals: impl IntoIterator<Item = &'d Deal>) -> Vec<PoolRow> {
        let Some(offer) = &self.offer else { return Vec::new() };
        let ledger = Ledger::new(&offer.sellable, deals);
        let row = |pool: &Pool| PoolRow {
            pool: pool.id.clone(),
            free: ledger.free(pool),
            price: offer.price.clone(),
        };
        offer.body.pools.iter().map(row).collect()
    }

    /// The models of GPUs of a pool that is for sale.
    pub(crate) fn models(&self, pool: &PoolId) -> impl Iterator<Item = &GpuModel> + Clone {
        let pool = self.offer.as_ref().and_then(|offer| offer.pool(pool));
        pool.into_iter().flat_map(|pool| pool.gpus.iter().map(|gpu| &gpu.model))
    }

    fn pool(&self, terms: &Terms) -> Option<(&Offer, &Pool)> {
        let offer = self.offer.as_ref()?;
        Some((offer, offer.pool(&terms.pool)?))
    }

    /// Whether so much of the pool of these terms can be promised now.
    pub(crate) fn has_room<'d>(
        &self,
        terms: &Terms,
        quantity: &Resources,
        deals: impl IntoIterator<Item = &'d Deal>,
    ) -> Result<(), Shortage> {
        let (offer, pool) = self.pool(terms).ok_or(Shortage::NotShared)?;
        let short = Ledger::new(&offer.sellable, deals).shortage(pool, quantity);
        short.map_or(Ok(()), |resource| Err(Shortage::Of(resource)))
    }

    /// What becomes of a request. `is_full`: the buyer has as much open as it may.
    pub(crate) fn judge<'d>(
        &self,
        buyer: Buyer<'_>,
        terms: &Terms,
        is_full: bool,
        deals: impl IntoIterator<Item = &'d Deal>,
    ) -> Verdict {
        use TerminateReason as Reason;
        let Some(policy) = self.said.shared() else {
            return Verdict::refuse(Reason::AdUnknown, "nothing is shared here");
        };
        let (approval, price) = policy.approval(buyer, terms);
        if approval == Approve::Deny {
            return Verdict::refuse(Reason::Denied, "the policy denies this buyer");
        }
        let Some((offer, pool)) = self.pool(terms) else {
            return Verdict::refuse(Reason::AdUnknown, "nothing of it is for sale now");
        };
        if terms.price != offer.price {
            return Verdict::refuse(Reason::PriceChanged, "the price is another one now");
        }
        if let Some(refusal) = egress::refusal(&offer.body, terms) {
            return refusal;
        }
        let Terms { quantity, class, term_s, egress, .. } = terms;
        let purchase = Purchase { quantity, class: *class, term_s: *term_s, egress };
        let range = offer.body.terms.min_term_s..=offer.body.terms.max_term_s;
        if terms_of(&offer.body, pool, &offer.price, purchase) != *terms
            || !offer.body.terms.classes.contains(class)
            || !range.contains(term_s)
        {
            return Verdict::refuse(Reason::TermsRefused, "these are not the terms on offer");
        }
        if size::check(quantity).is_err() {
            return Verdict::refuse(Reason::TermsRefused, WRONG_SIZE);
        }
        if size::check_share(quantity, pool).is_err() {
            return Verdict::refuse(Reason::TermsRefused, BEYOND_SHARE);
        }
        if is_full {
            return Verdict::refuse(Reason::TooMany, "too many requests are open");
        }
        if !shows_room(approval, &Ledger::new(&offer.sellable, deals), pool, quantity) {
            return Verdict::refuse(Reason::NoCapacity, "not enough is left");
        }
        let price = price.map(|change| ruled(change, &offer.price, quantity));
        match (approval, price) {
            (Approve::Auto, None) => Verdict::Grant(None),
            (Approve::Auto, Some(Some(price))) => Verdict::Grant(Some(price)),
            (Approve::Auto, Some(None)) | (Approve::Ask | Approve::Deny, _) => Verdict::Ask,
        }
    }

    /// What becomes of a change of a lease that this cluster sold, if it is new. None: that is not
    /// what was said.
    pub(crate) fn judge_amendment<'m, 'd>(
        &self,
        now: Now,
        buyer: Buyer<'_>,
        deal: &Deal,
        body: &'m Body,
        deals: impl IntoIterator<Item = &'d Deal>,
    ) -> Option<Asked<'m>> {
        let Body::Amend { number, terms } = body else { return None };
        let sold = deal.side() == Side::Provider && deal.lease().is_some();
        let verdict = || self.verdict_on_amendment(now, buyer, deal, terms, deals);
        sold.then(|| Asked { number: *number, terms, verdict: verdict() })
    }

    fn verdict_on_amendment<'d>(
        &self,
        now: Now,
        buyer: Buyer<'_>,
        deal: &Deal,
        terms: &Terms,
        deals: impl IntoIterator<Item = &'d Deal>,
    ) -> Verdict {
        use TerminateReason as Reason;
        let before = deal.terms();
        let Some(lease) = deal.lease().filter(|_| deal.state() == State::Active) else {
            return Verdict::refuse(Reason::Unavailable, "the lease is not active");
        };
        if lease.agreements().earlier().len() >= limits::CHANGES {
            return Verdict::refuse(Reason::TooMany, "it was changed often enough");
        }
        let (quantity, term_s) = (terms.quantity.clone(), terms.term_s);
        if *terms != (Terms { quantity, term_s, ..before.clone() }) {
            return Verdict::refuse(Reason::TermsRefused, "only quantity and term can change");
        }
        if size::check(&terms.quantity).is_err() {
            return Verdict::refuse(Reason::TermsRefused, WRONG_SIZE);
        }
        if lease.agreements().gpu_models_with(terms).len() > GPU_MODELS {
            return Verdict::refuse(Reason::TooMany, "too many models of GPUs over its time");
        }
        let (Some(policy), Some(offer)) = (self.said.shared(), &self.offer) else {
            return Verdict::refuse(Reason::AdUnknown, "nothing of it is for sale now");
        };
        let more = terms.quantity.saturating_sub(&before.quantity);
        let pool = match offer.pool(&terms.pool) {
            Some(pool) => Some(pool),
            // It goes on under its name, and what it has is counted on others.
            None if more.is_zero() && ledger::has_heirs(&offer.sellable, before) => None,
            None => {
                let text = "nothing more of it is for sale under this name: order anew";
                return Verdict::refuse(Reason::AdUnknown, text);
            }
        };
        let begun_ms = lease.agreements().contract().not_before_ms;
        let end_ms = begun_ms.saturating_add(terms.term_s.saturating_mul(1_000));
        let soonest_ms = now.wall_ms.saturating_add(limits::COMMIT_MS);
        let latest_ms = offer.body.terms.max_term_s.saturating_mul(1_000);
        if end_ms <= soonest_ms || end_ms - now.wall_ms > latest_ms {
            return Verdict::refuse(Reason::TermsRefused, "its end would be too soon or too late");
        }
        if pool.is_some_and(|pool| size::check_share(&terms.quantity, pool).is_err()) {
            return Verdict::refuse(Reason::TermsRefused, BEYOND_SHARE);
        }
        let (approval, price) = policy.approval(buyer, terms);
        if approval == Approve::Deny {
            return Verdict::refuse(Reason::Denied, "the policy denies this buyer");
        }
        let ledger = || Ledger::new(&offer.sellable, deals);
        if pool.is_some_and(|pool| !shows_room(approval, &ledger(), pool, &more)) {
            return Verdict::refuse(Reason::NoCapacity, "not enough is left");
        }
        let price = price.and_then(|change| ruled(change, &offer.price, &terms.quantity));
        match approval {
            Approve::Auto if price.as_ref().unwrap_or(&offer.price) == &terms.price => {
                Verdict::Grant(None)
            }
            Approve::Auto | Approve::Ask | Approve::Deny => Verdict::Ask,
        }
    }

    /// What was promised has changed: what is advertised has to be compared with it.
    pub(crate) fn on_promised(&mut self) {
        self.changed = self.changed.max(Some(Cause::Promises));
    }

    /// When something is to be published, monotonic; none: nothing is.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.publisher.due_ms().filter(|_| !self.stopped)
    }

    /// Publishes what is due; of these pools more is promised since the last time. `jitter` is any
    /// number.
    ///
    /// # Panics
    ///
    /// If more is promised than can be sold, of anything of which the promise has grown.
    pub(crate) fn publish<'d>(
        &mut self,
        now: Now,
        jitter: u64,
        grown: &[Growth],
        deals: impl IntoIterator<Item = &'d Deal>,
        said: &mut Vec<Announcement>,
    ) -> Result<(), CodecError> {
        if !grown.is_empty() || self.changed.is_some() && !self.stopped {
            let ledger = self.offer.as_ref().map(|offer| Ledger::new(&offer.sellable, deals));
            for Growth { pool, more } in grown {
                let offered = self.offer.as_ref().and_then(|offer| offer.pool(pool));
                let sold = offered.zip(ledger.as_ref());
                let short = sold.map(|(pool, ledger)| ledger.overdrawn(pool, more));
                assert!(short == Some(None), "more {short:?} of {pool} is promised than sold");
            }
            let cause = self.changed.take().unwrap_or(Cause::Promises);
            self.publisher.refresh(cause, self.offer.as_ref(), ledger.as_ref());
        }
        if self.stopped {
            return Ok(());
        }
        self.publisher.publish(now, &self.config, jitter, said)
    }

    /// Nothing is offered any more, and nothing will be until the next start.
    pub(crate) fn stop(
        &mut self,
        now: Now,
        said: &mut Vec<Announcement>,
    ) -> Result<(), CodecError> {
        self.stopped = true;
        self.publisher.withdraw(now, &self.config, said)
    }

    /// Someone has seen this number of ours.
    pub(crate) fn learn(&mut self, epoch: u64, seq: u64) {
        self.publisher.learn(epoch, seq);
    }

    /// Where the numbers of advertisements are, for the records.
    pub(crate) fn series(&self) -> Series {
        self.publisher.series()
    }
}

/// Whether there is room for so much, as far as a buyer is to learn under this rule of the owner's.
/// Only to one that is granted does the answer tell what is free to the last thousandth: everybody
/// else could find that out by asking, and learns what is advertised to all.
fn shows_room(approval: Approve, ledger: &Ledger<'_>, pool: &Pool, quantity: &Resources) -> bool {
    match approval {
        Approve::Auto => ledger.shortage(pool, quantity).is_none(),
        Approve::Ask | Approve::Deny => quantity.fits(&bucket(&ledger.free(pool))),
    }
}
