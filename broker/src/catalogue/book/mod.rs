//! The order book: what others offer, which of it suits a demand, and why the rest does
//! not. Whether an advertisement is genuine was checked before it came here; old ones
//! that come again are kept out by gossip's marks.

mod context;
mod explain;
mod gpu_needs;
mod listing;
mod needs;
mod pool_set;
mod search;
mod tariff;

use std::collections::BTreeMap;

use mercato_protocol::ad::{Ad, OfferTerms, Pool};
use mercato_protocol::egress::EgressOffer;
use mercato_protocol::envelope::Verified;
use mercato_protocol::gossip::Withdraw;
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::price::{Money, Price};
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::NetworkIsolation;
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};

use crate::catalogue::demand::Demand;
use crate::catalogue::known::Unknown;
use crate::catalogue::rank::Ranking;
use crate::catalogue::trust::{Peers, Standing};
use crate::limits;
use explain::Explanation;
use listing::{Listing, sold};
use needs::Needs;
use search::{Hit, Missed, search};

pub(crate) use context::{Audience, BuyerContext, SearchInputs};
pub use explain::{Excluded, Miss};

/// What there is to choose from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Market {
    /// How many offers were looked at: a pool each.
    pub seen: usize,
    /// How many of them suit.
    pub suiting: usize,
    /// The best of those, the best first; not more than can be looked at.
    pub offers: Vec<Candidate>,
    /// Why the others do not; empty unless that was asked for.
    pub excluded: Vec<Excluded>,
    /// Names of what is wanted that match nothing known; whoever knows all names fills it in.
    #[serde(default)]
    pub unknown: Vec<Unknown>,
}

/// An offer that meets the whole demand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// The cluster that makes the offer.
    pub provider: ClusterId,
    /// The name that it gives itself.
    pub name: String,
    /// The key that signed the advertisement.
    pub key: PublicKey,
    /// What the owner thinks of it.
    pub standing: Standing,
    /// What it says of the storage that it sells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage_kinds: Vec<String>,
    /// The law that applies there, as it says.
    pub jurisdiction: Option<String>,
    /// Where it says that it is.
    pub region: Option<String>,
    /// Grams of CO2 equivalent for each kilowatt-hour, as it says.
    pub carbon_g_per_kwh: Option<u32>,
    /// The last round trip, in microseconds; none: it was not measured.
    pub rtt_us: Option<u64>,
    /// By this cluster's own contracts with it, in thousandths; none: nothing yet.
    pub reputation: Option<u64>,
    /// How good it is, in thousandths of the best there could be: 1000 is the best, and the
    /// higher the better. None unless offers are sorted by it.
    pub score: Option<u64>,
    /// The pool that is offered.
    pub pool: Pool,
    /// What is free, in buckets.
    pub free: Resources,
    /// What was asked for, as a contract would name it: a family's name gives way to the model.
    pub quantity: Resources,
    /// The price that is asked for it.
    pub price: Price,
    /// For the whole term; none: free, or no term was stated.
    pub total: Option<Money>,
    /// Whether guests are kept apart on its network.
    pub network_isolation: NetworkIsolation,
    /// The widest way out to the Internet that it offers; none: it offers none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressOffer>,
    /// What every contract with it says.
    pub terms: OfferTerms,
    /// When the offer ends, wall clock.
    pub expires_ms: u64,
}

/// The latest advertisement of each provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    listings: BTreeMap<ClusterId, Listing>,
}

impl Book {
    /// Takes an advertisement, unless a later one of its provider is known. A full book
    /// drops the stranger that would expire first.
    pub(crate) fn insert(&mut self, now: Now, ad: Box<Ad>, peers: &Peers) {
        if ad.header.expires_ms() <= now.wall_ms {
            return;
        }
        if let Some(known) = self.listings.get_mut(&ad.header.provider) {
            if number(&known.ad) < number(&ad) {
                known.replace(ad);
            }
        } else if self.make_room(now, peers) {
            self.listings.insert(ad.header.provider, Listing::new(ad));
        }
    }

    /// Whether one more provider may be kept; the stranger that would expire first gives way.
    fn make_room(&mut self, now: Now, peers: &Peers) -> bool {
        if self.listings.len() < limits::BOOK_PROVIDERS {
            return true;
        }
        self.listings.retain(|_, listing| !listing.is_over(now));
        if self.listings.len() < limits::BOOK_PROVIDERS {
            return true;
        }
        let listings = self.listings.iter();
        let strangers =
            listings.filter(|(cluster, _)| peers.standing(cluster) != Standing::Trusted);
        let first = strangers.min_by_key(|(_, listing)| listing.expires_ms);
        let first = first.map(|(cluster, _)| *cluster);
        first.is_some_and(|cluster| self.listings.remove(&cluster).is_some())
    }

    /// The provider offers nothing any more, unless it said something later.
    pub(crate) fn withdraw(&mut self, withdraw: &Verified<Withdraw>) {
        let covers = self.listings.get(&withdraw.provider).is_some_and(|known| {
            known.key == *withdraw.key() && number(&known.ad) < (withdraw.epoch, withdraw.seq)
        });
        if covers {
            self.listings.remove(&withdraw.provider);
        }
    }

    /// What a provider advertised with another key than this is not its word any more.
    pub(crate) fn keep_only(&mut self, provider: &ClusterId, key: PublicKey) {
        if self.listings.get(provider).is_some_and(|listing| listing.key != key) {
            self.listings.remove(provider);
        }
    }

    /// The advertisement of a provider.
    pub(crate) fn ad(&self, provider: &ClusterId) -> Option<&Ad> {
        self.listings.get(provider).map(|listing| &*listing.ad)
    }

    /// Whoever offers something, by the name that it gives itself.
    pub(crate) fn providers(&self, now: Now) -> impl Iterator<Item = (&Ad, &str)> {
        let live = self.listings.values().filter(move |listing| !listing.is_over(now));
        live.map(|listing| (&*listing.ad, &*listing.ad.name))
    }

    /// What suits a demand, and, if asked for, why the rest does not.
    pub(crate) fn browse(
        &self,
        now: Now,
        demand: &Demand,
        context: BuyerContext<'_>,
        audience: Audience,
        explain: bool,
    ) -> Market {
        let listings = self.live(now);
        let seen = offers(&listings);
        let Some(needs) = Needs::new(demand, audience, context) else {
            return Market { seen, ..Market::default() };
        };
        let mut explanation = Explanation::new(&needs, &listings, context);
        let mut note = |listing, row, bits| explanation.note(listing, row, bits);
        let missed: Option<Missed<'_>> = if explain { Some(&mut note) } else { None };
        let found = search(&needs, &listings, context, missed);
        let (suiting, excluded) = (found.len(), explanation.groups());
        let (ranking, best) = found.best(demand.sort, limits::CANDIDATES);
        let shown = |hit: &Hit| candidate(listings[hit.listing], hit, &ranking, &needs, context);
        let offers = best.iter().map(shown).collect();
        Market { seen, suiting, offers, excluded, unknown: Vec::new() }
    }

    /// Those that suit best: the best, and all that are as good. Empty: none suits.
    pub(crate) fn best(
        &self,
        now: Now,
        demand: &Demand,
        context: BuyerContext<'_>,
        audience: Audience,
    ) -> Vec<Candidate> {
        let listings = self.live(now);
        let Some(needs) = Needs::new(demand, audience, context) else { return Vec::new() };
        let found = search(&needs, &listings, context, None);
        let (ranking, mut best) = found.best(demand.sort, limits::CANDIDATES);
        let Some(first) = best.first().copied() else { return Vec::new() };
        best.retain(|hit| hit.rank.is_near(first.rank));
        let shown = |hit: &Hit| candidate(listings[hit.listing], hit, &ranking, &needs, context);
        best.iter().map(shown).collect()
    }

    /// How many offers there are: a pool each.
    pub(crate) fn offers(&self, now: Now) -> usize {
        offers(&self.live(now))
    }

    fn live(&self, now: Now) -> Vec<&Listing> {
        self.listings.values().filter(|listing| !listing.is_over(now)).collect()
    }
}

fn candidate(
    listing: &Listing,
    hit: &Hit,
    ranking: &Ranking,
    needs: &Needs<'_>,
    context: BuyerContext<'_>,
) -> Candidate {
    let Ad { header, body, key, .. } = &*listing.ad;
    let (pool, row) = listing.pool(hit.row);
    let facts = context.of(&listing.provider, &listing.key);
    let mut free = row.free.clone();
    free.gpus = sold(pool, row).map(|(gpu, free)| (gpu.model.clone(), free)).collect();
    free.gpus.retain(|_, free| *free > 0);
    Candidate {
        provider: header.provider,
        name: listing.ad.name.to_string(),
        key: *key,
        standing: facts.standing,
        storage_kinds: body.storage_classes.clone(),
        jurisdiction: body.jurisdiction.clone(),
        region: body.region.clone(),
        carbon_g_per_kwh: body.carbon_g_per_kwh,
        rtt_us: facts.rtt_us,
        reputation: facts.reputation,
        score: ranking.score(&hit.merits),
        pool: pool.clone(),
        free,
        quantity: needs.gpus.bought(listing, hit.row),
        price: row.price.clone(),
        total: hit.merits.cost.map(|(currency, micros)| Money { micros, currency }),
        network_isolation: body.network_isolation,
        egress: body.egress.clone(),
        terms: body.terms.clone(),
        expires_ms: header.expires_ms(),
    }
}

fn offers(listings: &[&Listing]) -> usize {
    listings.iter().map(|listing| listing.pools()).sum()
}

fn number(ad: &Ad) -> (u64, u64) {
    (ad.header.epoch, ad.header.seq)
}
