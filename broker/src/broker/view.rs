//! What the owner looks at: offers, deals, statements. Nothing here changes anything.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::ad::{Ad, AdBody, PoolRow};
use mercato_protocol::id::{ClusterId, ContractId, NegotiationId, PublicKey};
use mercato_protocol::invoice::Credit;
use mercato_protocol::negotiation::TerminateReason;
use mercato_protocol::price::{Money, PriceError, Usage};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};

use crate::broker::Broker;
use crate::catalogue::book::{Knowledge, Market, Sight, Whom};
use crate::catalogue::demand::Demand;
use crate::catalogue::reputation::{reputations, unfaithful};
use crate::catalogue::trust::Standing;
use crate::deal::{Agreement, Deal, Side, Stage};
use crate::sale::ledger::Ledger;
use crate::sale::policy::{BuyPolicy, SharePolicy};

/// What is billed so far, by what both have signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statement {
    /// Which contract.
    pub contract: ContractId,
    /// Who sells.
    pub provider: ClusterId,
    /// Who buys.
    pub consumer: ClusterId,
    /// The first moment that is billed, wall clock; none: nothing is yet.
    pub from_ms: Option<u64>,
    /// The last moment that both have signed for, wall clock.
    pub to_ms: Option<u64>,
    /// By resource.
    pub lines: BTreeMap<Resource, Line>,
    /// Of all lines; none when free, or nothing is billed yet.
    pub total: Option<Money>,
    /// Taken off it by the invoice; empty as long as there is none.
    pub credits: Vec<Credit>,
    /// What is left of it to pay.
    pub due: Option<Money>,
}

/// One resource of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// In the resource's metered unit times milliseconds.
    pub counter: u64,
    /// What it costs; none: it is included.
    pub amount: Option<Money>,
}

impl Broker {
    /// What suits a demand, the best first, and, if asked for, why the rest does not.
    pub fn browse(&self, now: Now, demand: &Demand, explain: bool) -> Market {
        let sight = self.sight(now, demand);
        self.book.browse(now, demand, self.knowledge(&sight), (Whom::Anyone, explain))
    }

    /// Whoever offers something now, with key and the name that it gives itself.
    pub fn providers(&self, now: Now) -> impl Iterator<Item = (ClusterId, PublicKey, &str)> {
        self.book.providers(now).map(|(ad, name)| (ad.lease.provider, ad.key, name))
    }

    /// What has to be worked out before the book is asked.
    pub(crate) fn sight(&self, now: Now, demand: &Demand) -> Sight {
        let reputation = reputations(now, self.all_deals());
        let unfaithful = unfaithful(now, self.deals.values());
        let refused = self.refused(&demand.quantity);
        let budgets = self.budgets_left(now, &demand.namespaces);
        Sight { reputation, unfaithful, refused, budgets }
    }

    /// The providers that would not sell so much of what they still advertise.
    fn refused(&self, asked: &Resources) -> BTreeSet<ClusterId> {
        let stands = |deal: &&Deal| {
            use TerminateReason as Reason;
            let Stage::Terminated { reason, .. } = deal.stage() else { return false };
            let as_much = *reason == Reason::NoCapacity && deal.terms().quantity.fits(asked)
                || [Reason::AdUnknown, Reason::PriceChanged].contains(reason);
            let offer = || self.book.ad(&deal.peer()).map(|ad| ad.digest);
            as_much && deal.side() == Side::Consumer && offer() == Some(deal.request.ad)
        };
        self.deals.values().filter(stands).map(Deal::peer).collect()
    }

    /// All that decides beside the offers themselves.
    pub(crate) fn knowledge<'a>(&'a self, sight: &'a Sight) -> Knowledge<'a> {
        let round_trips = &self.round_trips;
        Knowledge { peers: &self.peers, round_trips, policy: self.buy.as_ref(), sight }
    }

    /// What may be bought; none: anything.
    pub fn buy(&self) -> Option<&BuyPolicy> {
        self.buy.as_ref()
    }

    /// The latest advertisement of a provider, if it is known.
    pub fn ad(&self, provider: &ClusterId) -> Option<&Ad> {
        self.book.ad(provider)
    }

    /// Orders, requests and leases, on both sides, running and remembered.
    pub fn deals(&self) -> impl Iterator<Item = &Deal> {
        self.all_deals()
    }

    /// The same without the archive: whatever anybody may have something to say of yet.
    pub fn current_deals(&self) -> impl Iterator<Item = &Deal> {
        self.deals.values()
    }

    /// One of all.
    pub fn deal(&self, id: &NegotiationId) -> Option<&Deal> {
        self.deals.get(id).or_else(|| self.archive.get(id))
    }

    /// What the owner shares.
    pub fn share(&self) -> Option<&SharePolicy> {
        self.share.as_ref()
    }

    /// What is on sale, and how much of it is free, exactly. None: nothing is, be it for
    /// want of a policy, of capacity or of isolation.
    pub fn offer(&self) -> Option<(&AdBody, Vec<PoolRow>)> {
        let offer = self.offer.as_ref()?;
        let ledger = Ledger::new(&offer.sellable, self.deals.values());
        let rows = offer.body.pools.iter().map(|pool| PoolRow {
            pool: pool.id.clone(),
            free: ledger.free(pool),
            price: offer.price.clone(),
        });
        Some((&offer.body, rows.collect()))
    }

    /// Peers that the owner has an opinion of.
    pub fn peers(&self) -> impl Iterator<Item = (ClusterId, Standing)> {
        self.peers.named.iter().map(|(cluster, standing)| (*cluster, *standing))
    }

    /// What the owner thinks of one peer.
    pub fn standing(&self, peer: &ClusterId) -> Standing {
        self.peers.standing(peer)
    }

    /// What this cluster thinks of those whom it had contracts with, in thousandths.
    pub fn reputations(&self, now: Now) -> BTreeMap<ClusterId, u64> {
        reputations(now, self.all_deals())
    }

    /// What a contract has cost so far, by what both have signed.
    pub fn statement(&self, id: &ContractId) -> Option<Result<Statement, PriceError>> {
        let deal = self.deal(id)?;
        deal.agreement()?;
        Some(deal.statement(self.config.cluster()))
    }
}

impl Deal {
    /// The number of this side's next message.
    pub fn next_seq(&self) -> u32 {
        self.talk.next_seq
    }

    /// Whether nothing of it is left in this cluster.
    pub fn is_drained(&self) -> bool {
        self.drained
    }

    /// What the whole term costs; none when free.
    pub fn total(&self) -> Result<Option<Money>, PriceError> {
        let usage = match &self.agreement {
            Some(Agreement { contract, .. }) => {
                self.usage(contract.not_before_ms, contract.not_after_ms)?
            }
            None => return self.posted(),
        };
        self.terms().price.total(&usage)
    }

    /// What the whole term costs if the change that was asked for is made, from when both sign
    /// it, or from now; none when free, or when there is no change.
    pub fn changed_total(&self, now: Now) -> Result<Option<Money>, PriceError> {
        let Some((agreement, change)) = self.agreement.as_ref().zip(self.change.as_ref()) else {
            return Ok(None);
        };
        let signed = self.agreed_change().and_then(|agreed| agreed.contract.amends);
        let begun_ms = agreement.contract.not_before_ms;
        let term_ms = change.terms.term_s.checked_mul(1_000).ok_or(PriceError::Overflow)?;
        let end_ms = begun_ms.checked_add(term_ms).ok_or(PriceError::Overflow)?;
        let from_ms = signed.map_or(now.wall_ms, |amends| amends.from_ms);
        let from_ms = from_ms.clamp(begun_ms, end_ms.max(begun_ms));
        let before = self.usage(begun_ms, from_ms)?;
        let after = Usage::of(&change.terms.quantity, end_ms.saturating_sub(from_ms))?;
        change.terms.price.total(&before.checked_add(&after)?)
    }

    /// What the whole term costs as it was asked for; none when free.
    pub fn posted(&self) -> Result<Option<Money>, PriceError> {
        let asked = &self.request.terms;
        let term_ms = asked.term_s.checked_mul(1_000).ok_or(PriceError::Overflow)?;
        asked.price.total(&Usage::of(&asked.quantity, term_ms)?)
    }

    fn statement(&self, us: ClusterId) -> Result<Statement, PriceError> {
        let (provider, consumer) = match self.side {
            Side::Provider => (us, self.peer()),
            Side::Consumer => (self.peer(), us),
        };
        let last = self.meter.signed().map(|signed| &signed.receipt);
        let usage = last.map(|last| last.usage.clone()).unwrap_or_default();
        let amounts = self.terms().price.lines(&usage)?;
        let line = |(resource, counter): (Resource, u64)| {
            let amount = amounts.get(&resource).copied();
            (resource, Line { counter, amount })
        };
        Ok(Statement {
            contract: self.id(),
            provider,
            consumer,
            from_ms: self.meter.started_ms(),
            to_ms: last.map(|last| last.to_ms),
            lines: usage.counters.into_iter().map(line).collect(),
            total: last.and_then(|last| last.amount),
            credits: self.invoice.as_ref().map_or_else(Vec::new, |it| it.invoice.credits.clone()),
            due: match &self.invoice {
                Some(signed) => signed.invoice.due,
                None => last.and_then(|last| last.amount),
            },
        })
    }
}
