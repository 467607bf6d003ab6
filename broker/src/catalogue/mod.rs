//! What others offer, and what is thought of them: the order book, what a buyer wants of it, the
//! ranking, whom the owner trusts, and what may be bought.

mod book;
mod burst_policy;
mod buy_policy;
mod countries;
mod demand;
mod known;
mod nearest;
mod party;
mod rank;
mod reputation;
mod trust;

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::ad::Ad;
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::negotiation::TerminateReason;
use mercato_protocol::resources::Resources;
use mercato_protocol::time::Now;

use crate::deal::{Deal, EndReason, Remains, Side};
use crate::limits;
use crate::sale::{Buyer, SharePolicy, certified_countries, may_mean};
use book::{Book, BuyerContext, SearchInputs};
use reputation::{is_careless, unfaithful};

pub use book::{Candidate, Excluded, Market, Miss};
pub use burst_policy::BurstPolicy;
pub use buy_policy::{Budget, BuyPolicy};
pub use demand::{Demand, Exclusion};
pub use known::{Known, Noun, Unknown};
pub use party::{ParsePartyError, Party};
pub use rank::Sort;
pub use trust::{Affiliation, Membership, Standing};

pub(crate) use book::Audience;
pub(crate) use reputation::reputations;
pub(crate) use trust::{NotPlaced, Organisation, Peers, not_a_country};

/// What there is to buy, and what this cluster's owner thinks of those who offer it.
#[derive(Debug)]
pub(crate) struct Catalogue {
    pub(crate) book: Book,
    pub(crate) peers: Peers,
    policy: Option<BuyPolicy>,
    /// The last round trip in microseconds, by key.
    round_trips: BTreeMap<PublicKey, u64>,
}

/// Of which country a cluster is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountryOf<'a> {
    /// By the owner's word, if it says one.
    pub said: Option<&'a str>,
    /// By certificates, where they say one and no other.
    pub certified: Option<&'a str>,
}

impl Catalogue {
    /// What it knows by name, with those whom this cluster has traded with.
    pub(crate) fn known(&self, now: Now, traded: impl Iterator<Item = ClusterId>) -> Known {
        let Peers { named, countries, membership, .. } = &self.peers;
        let certified = || membership.certified.values().flatten();
        let ads = || self.book.providers(now);
        let clusters = named.keys().chain(membership.certified.keys()).copied().chain(traded);
        let gpus = ads().flat_map(|(ad, _)| &ad.body.pools).flat_map(|pool| &pool.gpus);
        let said = ads().filter_map(|(ad, _)| ad.body.jurisdiction.as_deref());
        let countries = countries.values().map(String::as_str).chain(said);
        let countries = countries.chain(certified().flat_map(certified_countries));
        let organisations = certified().filter_map(|of| of.organisation.as_ref());
        Known {
            federations: certified().map(|of| of.name.to_string()).collect(),
            organisations: organisations.map(ToString::to_string).collect(),
            clusters: ads().map(|(ad, _)| ad.header.provider).chain(clusters).collect(),
            providers: ads().map(|(_, name)| name.to_owned()).collect(),
            nodes: BTreeSet::new(),
            models: gpus.map(|gpu| gpu.model.clone()).collect(),
            countries: countries.map(str::to_owned).collect(),
        }
    }

    pub(crate) fn new(
        named: BTreeMap<ClusterId, Standing>,
        countries: BTreeMap<ClusterId, String>,
        policy: Option<BuyPolicy>,
    ) -> Self {
        let trusted = trusted(policy.as_ref());
        Self {
            book: Book::default(),
            peers: Peers { named, countries, policy: trusted, ..Peers::default() },
            policy,
            round_trips: BTreeMap::new(),
        }
    }

    /// What may be bought; none: anything.
    pub(crate) fn policy(&self) -> Option<&BuyPolicy> {
        self.policy.as_ref()
    }

    /// The owner buys otherwise from now on; an error says why that cannot be.
    pub(crate) fn set_policy(&mut self, policy: Option<BuyPolicy>) -> Result<(), &'static str> {
        policy.as_ref().map_or(Ok(()), BuyPolicy::check)?;
        self.peers.policy = trusted(policy.as_ref());
        self.policy = policy;
        Ok(())
    }

    pub(crate) fn set_round_trips(&mut self, trips: BTreeMap<PublicKey, u64>) {
        self.round_trips = trips.into_iter().take(limits::ROUND_TRIPS).collect();
    }

    /// What suits a demand, the best first, and, if asked for, why the rest does not.
    pub(crate) fn browse<'d>(
        &self,
        now: Now,
        demand: &Demand,
        audience: Audience,
        explain: bool,
        deals: impl Iterator<Item = &'d Deal> + Clone,
    ) -> Market {
        let inputs = self.inputs(now, demand, deals);
        self.book.browse(now, demand, self.context(&inputs), audience, explain)
    }

    /// Those that suit best: the best, and all that are as good. Empty: none suits.
    pub(crate) fn best<'d>(
        &self,
        now: Now,
        demand: &Demand,
        audience: Audience,
        deals: impl Iterator<Item = &'d Deal> + Clone,
    ) -> Vec<Candidate> {
        let inputs = self.inputs(now, demand, deals);
        self.book.best(now, demand, self.context(&inputs), audience)
    }

    /// The best offer of a trusted provider that suits, of those that are not left aside.
    pub(crate) fn best_beside<'d>(
        &self,
        now: Now,
        demand: &Demand,
        aside: &BTreeSet<ClusterId>,
        deals: impl Iterator<Item = &'d Deal> + Clone,
    ) -> Option<Candidate> {
        let mut inputs = self.inputs(now, demand, deals);
        inputs.refused.extend(aside);
        self.book.best(now, demand, self.context(&inputs), Audience::Trusted).into_iter().next()
    }

    /// The best pool that suits of each trusted provider, the best first, as many as a round asks.
    pub(crate) fn best_of_each<'d>(
        &self,
        now: Now,
        demand: &Demand,
        deals: impl Iterator<Item = &'d Deal> + Clone,
    ) -> Vec<Candidate> {
        let mut best: Vec<Candidate> = Vec::new();
        for one in self.browse(now, demand, Audience::Trusted, false, deals).offers {
            let known = best.iter().any(|known| known.provider == one.provider);
            if !known && best.len() < limits::ROUND {
                best.push(one);
            }
        }
        best
    }

    /// What has to be worked out before the book is asked.
    fn inputs<'d>(
        &self,
        now: Now,
        demand: &Demand,
        deals: impl Iterator<Item = &'d Deal> + Clone,
    ) -> SearchInputs {
        let is_bought_from =
            |namespace: Option<&str>| namespace.is_none_or(|name| demand.namespaces.contains(name));
        let budgets = self.policy.iter().flat_map(|policy| policy.budgets(now, deals.clone()));
        let budgets = budgets.filter(|budget| is_bought_from(budget.namespace));
        SearchInputs {
            budgets: budgets.map(|budget| budget.left).collect(),
            reputation: reputations(now, deals.clone()),
            unfaithful: unfaithful(now, deals.clone()),
            refused: self.refused(&demand.quantity, deals),
        }
    }

    /// The providers that would not sell so much of what they still advertise.
    fn refused<'d>(
        &self,
        asked: &Resources,
        deals: impl Iterator<Item = &'d Deal>,
    ) -> BTreeSet<ClusterId> {
        let stands = |deal: &&Deal| {
            use TerminateReason as Reason;
            let Some(EndReason::Terminated(reason)) = deal.end().map(|end| end.reason) else {
                return false;
            };
            let as_much = reason == Reason::NoCapacity && may_mean(asked, &deal.terms().quantity)
                || [Reason::AdUnknown, Reason::PriceChanged].contains(&reason);
            let offer = || self.book.ad(&deal.peer()).map(|ad| ad.digest);
            as_much && deal.side() == Side::Consumer && offer() == Some(deal.request().ad)
        };
        deals.filter(stands).map(Deal::peer).collect()
    }

    /// All that decides beside the offers themselves.
    fn context<'a>(&'a self, inputs: &'a SearchInputs) -> BuyerContext<'a> {
        let (peers, round_trips) = (&self.peers, &self.round_trips);
        BuyerContext { peers, round_trips, policy: self.policy.as_ref(), inputs }
    }

    /// The latest advertisement of a provider, if it is known.
    pub(crate) fn ad(&self, provider: &ClusterId) -> Option<&Ad> {
        self.book.ad(provider)
    }

    /// Who asks, as far as that is known, by its deals as well.
    pub(crate) fn buyer<'d>(
        &self,
        now: Now,
        cluster: &ClusterId,
        deals: impl Iterator<Item = &'d Deal>,
    ) -> Buyer<'_> {
        Buyer {
            cluster: *cluster,
            standing: self.peers.as_buyer(cluster),
            is_careless: is_careless(now, cluster, deals),
            country: self.peers.countries.get(cluster).map(String::as_str),
            affiliations: self.peers.affiliations(cluster),
        }
    }

    /// Of which country a cluster is, by the owner's word and by certificates.
    pub(crate) fn country(&self, cluster: &ClusterId) -> CountryOf<'_> {
        let mut all = self.peers.affiliations(cluster).iter().flat_map(certified_countries);
        let first = all.next();
        CountryOf {
            said: self.peers.countries.get(cluster).map(String::as_str),
            certified: first.filter(|first| all.all(|other| other == *first)),
        }
    }

    /// Countries that a policy's rules name, and of which nobody is.
    pub(crate) fn countries_of_nobody<'a>(&'a self, policy: &'a SharePolicy) -> BTreeSet<&'a str> {
        let certified = self.peers.membership.certified.values().flatten();
        let said = self.peers.countries.values().map(String::as_str);
        policy.countries_of_nobody(certified, said).collect()
    }

    /// Whether a buyer's organisation has as much open as it may, or has left as much unanswered
    /// of leases that are over. Of strangers the latter gives way instead.
    pub(crate) fn is_full<'d>(
        &self,
        buyer: &ClusterId,
        deals: impl Iterator<Item = &'d Deal>,
    ) -> bool {
        let organisation = self.peers.organisation(buyer);
        let is_unanswered = |deal: &Deal| deal.remains().is_some_and(Remains::is_unanswered);
        let matters = |deal: &&Deal| deal.phase().is_open() || is_unanswered(deal);
        let matters = deals.filter(|deal| deal.side() == Side::Provider).filter(matters);
        let theirs = matters.filter(|deal| self.peers.organisation(&deal.peer()) == organisation);
        let (open, unanswered): (Vec<&Deal>, Vec<&Deal>) =
            theirs.partition(|deal| deal.phase().is_open());
        match organisation {
            Organisation::Strangers => open.len() >= limits::OPEN_OF_STRANGERS,
            Organisation::Certified(..) | Organisation::Of(_) => {
                open.len() >= limits::OPEN_PER_ORGANISATION
                    || unanswered.len() >= limits::UNANSWERED_PER_ORGANISATION
            }
        }
    }
}

fn trusted(policy: Option<&BuyPolicy>) -> BTreeSet<ClusterId> {
    policy.map_or_else(BTreeSet::new, |policy| policy.trust.clone())
}
