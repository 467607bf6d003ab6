//! What the owner looks at: offers, deals, statements. Nothing here changes anything.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::ad::{Ad, AdBody, PoolRow};
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::{ClusterId, ContractId, NegotiationId, PublicKey};
use mercato_protocol::negotiation::Message;
use mercato_protocol::price::{Money, PriceError};
use mercato_protocol::resources::Resources;
use mercato_protocol::time::Now;

use super::Broker;
use crate::burst::{self, BurstWord};
use crate::catalogue::{
    Audience, Budget, BurstPolicy, BuyPolicy, CountryOf, Demand, Known, Market, Standing,
    reputations,
};
use crate::deal::{BurstKey, Deal, Statement};
use crate::sale::{DevicePolicy, Inventory, SharePolicy};

impl Broker {
    /// What suits a demand, the best first, and, if asked for, why the rest does not.
    pub fn browse(&self, now: Now, demand: &Demand, explain: bool) -> Market {
        self.catalogue.browse(now, demand, Audience::Anyone, explain, self.deals.all())
    }

    /// Whoever offers something now, with key and the name that it gives itself.
    pub fn providers(&self, now: Now) -> impl Iterator<Item = (ClusterId, PublicKey, &str)> {
        self.catalogue.book.providers(now).map(|(ad, name)| (ad.header.provider, ad.key, name))
    }

    /// Countries that rules of what is shared name, and of which nobody is, by certificate or word.
    pub fn countries_of_nobody(&self) -> BTreeSet<&str> {
        let policy = self.supply.policy();
        policy.map(|policy| self.catalogue.countries_of_nobody(policy)).unwrap_or_default()
    }

    /// What the market knows by name: of federations, those that a certificate is of.
    pub fn known(&self, now: Now) -> Known {
        self.catalogue.known(now, self.deals.all().map(Deal::peer))
    }

    /// Of which country a peer is, by the owner's word and by certificates.
    pub fn country(&self, peer: &ClusterId) -> CountryOf<'_> {
        self.catalogue.country(peer)
    }

    /// What the owner says of devices, also where nothing is shared any more; none: nothing.
    pub fn devices(&self) -> Option<&DevicePolicy> {
        self.supply.said().devices()
    }

    /// What may be bought; none: anything.
    pub fn buy(&self) -> Option<&BuyPolicy> {
        self.catalogue.policy()
    }

    /// Every budget, of all orders together or of a namespace, and what is left of it.
    pub fn budgets(&self, now: Now) -> Vec<Budget<'_>> {
        let policy = self.catalogue.policy().into_iter();
        policy.flat_map(|policy| policy.budgets(now, self.deals.all())).collect()
    }

    /// The latest advertisement of a provider, if it is known.
    pub fn ad(&self, provider: &ClusterId) -> Option<&Ad> {
        self.catalogue.ad(provider)
    }

    /// Orders, requests and leases, on both sides, running and remembered.
    pub fn deals(&self) -> impl Iterator<Item = &Deal> {
        self.deals.all()
    }

    /// The same without the archive: whatever anybody may have something to say of yet.
    pub fn current_deals(&self) -> impl Iterator<Item = &Deal> {
        self.deals.current()
    }

    /// One of all deals, by its id.
    pub fn deal(&self, id: &NegotiationId) -> Option<&Deal> {
        self.deals.get(id).or_else(|| self.deals.archived(id))
    }

    /// Whether an answer to this message is awaited: then it is sent again at each connection.
    pub fn awaits(&self, message: &Signed<Message>) -> bool {
        self.deals.awaits(message)
    }

    /// The owner's policy on what is shared.
    pub fn share(&self) -> Option<&SharePolicy> {
        self.supply.policy()
    }

    /// What is on sale, and how much of it is free, exactly. None: nothing is, be it for
    /// want of a policy, of capacity or of isolation.
    pub fn offer(&self) -> Option<(&AdBody, Vec<PoolRow>)> {
        let offer = self.supply.offer()?;
        Some((&offer.body, self.supply.rows(self.deals.current())))
    }

    /// Whether what guests reach of the Internet can be kept to what their contracts say: without,
    /// none of it is on sale where isolation is.
    pub fn enforces_egress(&self) -> bool {
        self.supply.enforced().egress
    }

    /// What this cluster has, shared or not; none: that is not known yet.
    pub fn inventory(&self) -> Option<&Inventory> {
        self.supply.inventory()
    }

    /// Peers that the owner has an opinion of.
    pub fn peers(&self) -> impl Iterator<Item = (ClusterId, Standing)> {
        self.catalogue.peers.named.iter().map(|(cluster, standing)| (*cluster, *standing))
    }

    /// What the owner thinks of one peer.
    pub fn standing(&self, peer: &ClusterId) -> Standing {
        self.catalogue.peers.standing(peer)
    }

    /// What this cluster thinks of those whom it had contracts with, in thousandths.
    pub fn reputations(&self, now: Now) -> BTreeMap<ClusterId, u64> {
        reputations(now, self.deals.all())
    }

    /// What a contract has cost so far, by what both have signed.
    pub fn statement(&self, id: &ContractId) -> Option<Result<Statement, PriceError>> {
        let deal = self.deal(&NegotiationId::from(*id))?;
        Some(Statement::of(&deal.agreement()?.contract, deal.lease()))
    }
}

/// What is shared in all, of all that is and could be sold. None: the policy's part of the cluster is
/// not known yet.
pub fn shared(by: &Broker) -> Option<Resources> {
    by.supply.shared()
}

/// Consumer: for whose pods this deal was bought by itself; none: somebody has ordered it.
pub fn burst_of(deal: &Deal) -> Option<&BurstKey> {
    deal.order().burst.as_ref()
}

/// Consumer, until it is agreed: what the whole term of this deal may cost at most. An offer up to it
/// is taken at once.
pub fn limit(of: &Deal) -> Option<Money> {
    of.order().limit.filter(|_| !of.is_leased())
}

/// What is bought by itself now, and what the owner allows; none: nothing may be.
pub fn bursts_now(of: &Broker) -> Option<BurstsNow<'_>> {
    let policy = of.catalogue.policy()?.bursts.as_deref()?;
    let running = burst::running(of.deals.current());
    let mut by_namespace: BTreeMap<&str, Vec<&Deal>> = BTreeMap::new();
    for deal in &running {
        if let Some(key) = burst_of(deal) {
            by_namespace.entry(&key.namespace).or_default().push(deal);
        }
    }
    let has = |(namespace, deals): (_, Vec<&Deal>)| {
        let (bought, contracts) = (burst::bought(&deals), deals.len());
        (namespace, BurstsOf { bought, contracts, ..BurstsOf::default() })
    };
    let mut namespaces: BTreeMap<_, _> = by_namespace.into_iter().map(has).collect();
    for shape in of.bursts.demand().into_iter().flat_map(|demand| &demand.shapes) {
        let waiting = shape.pods.iter().filter(|pod| pod.room_on.is_none()).count();
        namespaces.entry(&shape.key.namespace).or_default().waiting += waiting;
    }
    for (key, (word, text)) in of.bursts.lacks() {
        namespaces.entry(&key.namespace).or_default().lacks = Some((*word, text));
    }
    let (bought, contracts) = (burst::bought(&running), running.len());
    Some(BurstsNow { policy, bought, contracts, namespaces })
}

/// What is bought by itself at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BurstsNow<'a> {
    /// What the owner allows of it.
    pub policy: &'a BurstPolicy,
    /// What all contracts and orders of bursts have together.
    pub bought: Resources,
    /// How many contracts and orders those are.
    pub contracts: usize,
    /// Each namespace for which something is bought, or whose pods wait.
    pub namespaces: BTreeMap<&'a str, BurstsOf<'a>>,
}

/// What is bought by itself for the pods of a namespace at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BurstsOf<'a> {
    /// What its contracts and orders have together.
    pub bought: Resources,
    /// How many contracts and orders those are.
    pub contracts: usize,
    /// How many pods without room could run elsewhere, whether they count yet or not.
    pub waiting: usize,
    /// Why nothing is bought for some of them.
    pub lacks: Option<(BurstWord, &'a str)>,
}
