//! The order book: what others offer, which of it suits a demand, and why the rest does
//! not. Whether an advertisement is genuine was checked before it came here; old ones
//! that come again are kept out by gossip's marks.

use std::collections::BTreeMap;

use mercato_protocol::ad::{Ad, AdBody, AdLease, OfferTerms, Pool, PoolRow};
use mercato_protocol::envelope::Verified;
use mercato_protocol::gossip::Withdraw;
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::price::{Currency, Money, Price, PriceError, Usage};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{Class, NetworkIsolation};
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::limits;
use crate::trust::{Peers, Standing};

/// What a buyer wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Demand {
    /// How much.
    pub quantity: Resources,
    /// How long, in seconds.
    pub term_s: u64,
    /// How firmly; none: whichever is offered.
    pub class: Option<Class>,
    /// The most that is paid.
    pub max_price: Option<Rate>,
    /// From this provider and no other.
    pub from: Option<ClusterId>,
}

/// Money for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// So much.
    pub amount: Money,
    /// For so many seconds; never zero.
    pub per_s: u32,
}

/// An offer beside a demand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Who offers.
    pub provider: ClusterId,
    /// What it calls itself.
    pub name: String,
    /// The key that signed.
    pub key: PublicKey,
    /// What the owner thinks of it.
    pub standing: Standing,
    /// Where it says that it is.
    pub region: Option<String>,
    /// Which pool.
    pub pool: Pool,
    /// What is free, in buckets.
    pub free: Resources,
    /// At what price.
    pub price: Price,
    /// For the whole term; none: free, or no demand was stated.
    pub total: Option<Money>,
    /// Whether guests are kept apart on its network.
    pub network_isolation: NetworkIsolation,
    /// What every contract with it says.
    pub terms: OfferTerms,
    /// When the offer ends, wall clock.
    pub expires_ms: u64,
    /// Why it does not suit; none: it does.
    pub excluded: Option<Exclusion>,
}

/// Why an offer does not suit.
#[derive(Clone, Debug, Error, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Exclusion {
    /// The owner blocked the provider.
    #[error("blocked")]
    Blocked,
    /// Another provider was asked for.
    #[error("another provider was asked for")]
    OtherProvider,
    /// Not of this class.
    #[error("not offered as {0:?}")]
    Class(Class),
    /// The term is too short for it.
    #[error("not for less than {0} s")]
    TermTooShort(u64),
    /// The term is too long for it.
    #[error("not for more than {0} s")]
    TermTooLong(u64),
    /// Too little is free.
    #[error("{free} {resource} free, {asked} asked for")]
    Short {
        /// Of what.
        resource: Resource,
        /// What is free, in the smallest unit.
        free: u64,
        /// What was asked for, in the smallest unit.
        asked: u64,
    },
    /// Above the most that is paid.
    #[error("{total} for the whole term, at most {limit} is paid")]
    TooDear {
        /// Its price for the whole term.
        total: Money,
        /// The most that is paid for it.
        limit: Money,
    },
    /// Another currency than that of the most that is paid.
    #[error("in {0}, and currencies do not compare")]
    Currency(Currency),
    /// It has no price that can be expressed.
    #[error("its price cannot be computed")]
    Price,
}

/// The latest advertisement of each provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    entries: BTreeMap<ClusterId, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    ad: Ad,
    name: String,
}

impl Book {
    /// Takes an advertisement, unless a later one of its provider is known. A full book
    /// drops the stranger that would expire first.
    pub(crate) fn insert(&mut self, now: Now, ad: Ad, peers: &Peers) {
        let provider = ad.lease.provider;
        let known = self.entries.get(&provider).map(|known| number(&known.ad));
        if known.is_some_and(|known| known >= number(&ad)) || is_over(&ad, now) {
            return;
        }
        if known.is_none() && self.entries.len() >= limits::BOOK_PROVIDERS {
            self.entries.retain(|_, entry| !is_over(&entry.ad, now));
            let strangers = self
                .entries
                .iter()
                .filter(|(cluster, _)| peers.standing(cluster) != Standing::Trusted);
            let first = strangers.min_by_key(|(_, entry)| entry.ad.lease.expires_ms());
            let full = self.entries.len() >= limits::BOOK_PROVIDERS;
            match first.map(|(cluster, _)| *cluster).filter(|_| full) {
                Some(cluster) => drop(self.entries.remove(&cluster)),
                None if full => return,
                None => {}
            }
        }
        let name = ad.body.identity.open_identity(now).map(|owner| owner.name).unwrap_or_default();
        self.entries.insert(provider, Entry { ad, name });
    }

    /// The provider offers nothing any more, unless it said something later.
    pub(crate) fn withdraw(&mut self, withdraw: &Verified<Withdraw>) {
        let covers = self.entries.get(&withdraw.provider).is_some_and(|entry| {
            entry.ad.key == *withdraw.key() && number(&entry.ad) < (withdraw.epoch, withdraw.seq)
        });
        if covers {
            self.entries.remove(&withdraw.provider);
        }
    }

    /// The advertisement of a provider.
    pub(crate) fn ad(&self, provider: &ClusterId) -> Option<&Ad> {
        self.entries.get(provider).map(|entry| &entry.ad)
    }

    /// Every pool on offer, those that suit first, the cheapest first.
    pub(crate) fn rank(&self, now: Now, demand: Option<&Demand>, peers: &Peers) -> Vec<Candidate> {
        let live = self.entries.values().filter(|entry| !is_over(&entry.ad, now));
        let mut candidates: Vec<_> =
            live.flat_map(|entry| entry.candidates(demand, peers)).collect();
        candidates.sort_by_cached_key(|candidate| {
            let price = candidate.total.map(|total| (total.currency, total.micros));
            let excluded = candidate.excluded.is_some();
            (excluded, price, candidate.provider, candidate.pool.id.clone())
        });
        candidates
    }
}

fn number(ad: &Ad) -> (u64, u64) {
    (ad.lease.epoch, ad.lease.seq)
}

fn is_over(ad: &Ad, now: Now) -> bool {
    ad.lease.expires_ms() <= now.wall_ms
}

impl Entry {
    fn candidates<'a>(
        &'a self,
        demand: Option<&'a Demand>,
        peers: &'a Peers,
    ) -> impl Iterator<Item = Candidate> + 'a {
        let Ad { lease, body, key, .. } = &self.ad;
        body.pools.iter().zip(&lease.rows).map(move |(pool, row)| {
            let standing = peers.standing(&lease.provider);
            let total = demand.map_or(Ok(None), |demand| demand.cost(&row.price));
            Candidate {
                provider: lease.provider,
                name: self.name.clone(),
                key: *key,
                standing,
                region: body.region.clone(),
                pool: pool.clone(),
                free: row.free.clone(),
                price: row.price.clone(),
                total: total.clone().ok().flatten(),
                network_isolation: body.network_isolation,
                terms: body.terms.clone(),
                expires_ms: lease.expires_ms(),
                excluded: match standing {
                    Standing::Blocked => Some(Exclusion::Blocked),
                    Standing::Trusted | Standing::Stranger => {
                        demand.and_then(|demand| demand.exclusion(lease, body, row, total))
                    }
                },
            }
        })
    }
}

impl Demand {
    /// For the whole term; none when free.
    pub(crate) fn cost(&self, price: &Price) -> Result<Option<Money>, PriceError> {
        let term_ms = self.term_s.checked_mul(1_000).ok_or(PriceError::Overflow)?;
        price.total(&Usage::of(&self.quantity, term_ms)?)
    }

    fn exclusion(
        &self,
        lease: &AdLease,
        body: &AdBody,
        row: &PoolRow,
        total: Result<Option<Money>, PriceError>,
    ) -> Option<Exclusion> {
        if self.from.is_some_and(|from| from != lease.provider) {
            return Some(Exclusion::OtherProvider);
        }
        if let Some(class) = self.class.filter(|class| !body.terms.classes.contains(class)) {
            return Some(Exclusion::Class(class));
        }
        if self.term_s < body.terms.min_term_s {
            return Some(Exclusion::TermTooShort(body.terms.min_term_s));
        }
        if self.term_s > body.terms.max_term_s {
            return Some(Exclusion::TermTooLong(body.terms.max_term_s));
        }
        if let Some(resource) = self.quantity.shortage(&row.free) {
            let (free, asked) = (row.free.quantity(&resource), self.quantity.quantity(&resource));
            return Some(Exclusion::Short { resource, free, asked });
        }
        let Ok(total) = total else { return Some(Exclusion::Price) };
        let (total, rate) = (total?, self.max_price?);
        if total.currency != rate.amount.currency {
            return Some(Exclusion::Currency(total.currency));
        }
        let limit = rate.over(self.term_s);
        (total.micros > limit.micros).then_some(Exclusion::TooDear { total, limit })
    }
}

impl Rate {
    /// For so many seconds; what is too much to express is no limit.
    fn over(&self, term_s: u64) -> Money {
        let micros = u128::from(self.amount.micros) * u128::from(term_s);
        let micros = micros / u128::from(self.per_s.max(1));
        Money { micros: u64::try_from(micros).unwrap_or(u64::MAX), ..self.amount }
    }
}
