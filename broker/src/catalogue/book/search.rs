//! Which offers suit a demand, and in which order.
//!
//! Pools of one provider at one price rank alike, so they are ranked as one bunch.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::price::{Currency, Money};
use mercato_protocol::text::Slug;

use super::listing::Listing;
use super::needs::Needs;
use super::pool_set::{Rows, Sieve};
use crate::broker::input::Affiliation;
use crate::catalogue::rank::{Merits, Rank, Ranking, Sort};
use crate::catalogue::trust::{Peers, Standing};
use crate::sale::policy::BuyPolicy;
use crate::selector::{AdFact, TRUST, Value};

/// Whom an order may be placed with, or an offer shown of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Anyone,
    Trusted,
}

/// All that decides beside the offers themselves: what this cluster knows of others, and
/// what its owner allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knowledge<'a> {
    pub(crate) peers: &'a Peers,
    /// Microseconds, by key.
    pub(crate) round_trips: &'a BTreeMap<PublicKey, u64>,
    pub(crate) policy: Option<&'a BuyPolicy>,
    pub(crate) sight: &'a Sight,
}

/// The part of it that is worked out for each search.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    /// Thousandths of the best.
    pub(crate) reputation: BTreeMap<ClusterId, u64>,
    /// Those that lately would not sign what they offer.
    pub(crate) unfaithful: BTreeSet<ClusterId>,
    /// Those that refused as much of what they still offer.
    pub(crate) refused: BTreeSet<ClusterId>,
    /// What is left of every budget that is bought from.
    pub(crate) budgets: Vec<Money>,
}

/// What is known of one of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known<'a> {
    pub(crate) standing: Standing,
    pub(crate) affiliations: &'a [Affiliation],
    pub(crate) rtt_us: Option<u64>,
    pub(crate) reputation: Option<u64>,
    /// It lately would not sign what it offers.
    pub(crate) unfaithful: bool,
    /// It refused as much of what it still offers.
    pub(crate) refused: bool,
}

impl<'a> Knowledge<'a> {
    pub(crate) fn of(&self, listing: &Listing) -> Known<'a> {
        let provider = &listing.provider;
        Known {
            standing: self.peers.as_provider(provider),
            affiliations: self.peers.affiliations(provider),
            rtt_us: self.round_trips.get(&listing.key).copied(),
            reputation: self.sight.reputation.get(provider).copied(),
            unfaithful: self.sight.unfaithful.contains(provider),
            refused: self.sight.refused.contains(provider),
        }
    }
}

impl Known<'_> {
    /// What it has to say to a term, in words: where the provider belongs.
    pub(super) fn words(&self, asked: AdFact) -> impl Iterator<Item = &str> {
        self.affiliations.iter().filter_map(move |of| match asked {
            AdFact::Organisation => of.organisation.as_ref().map(Slug::as_str),
            AdFact::Federation => Some(of.name.as_str()),
            AdFact::Provider
            | AdFact::Jurisdiction
            | AdFact::Region
            | AdFact::Carbon
            | AdFact::Reclaim
            | AdFact::Term
            | AdFact::NetworkIsolation
            | AdFact::PodSecurity
            | AdFact::Class
            | AdFact::Isolation
            | AdFact::Storage
            | AdFact::Service
            | AdFact::Trust
            | AdFact::Reputation
            | AdFact::Rtt => None,
        })
    }

    /// What it has to say to a term, if that is one value.
    pub(super) fn value(&self, asked: AdFact) -> Option<Value> {
        match asked {
            AdFact::Trust => Some(Value::word(TRUST[self.standing as usize])),
            AdFact::Rtt => self.rtt_us.map(Value::number),
            AdFact::Reputation => self.reputation.map(Value::number),
            AdFact::Provider
            | AdFact::Jurisdiction
            | AdFact::Region
            | AdFact::Carbon
            | AdFact::Reclaim
            | AdFact::Term
            | AdFact::NetworkIsolation
            | AdFact::PodSecurity
            | AdFact::Class
            | AdFact::Isolation
            | AdFact::Storage
            | AdFact::Organisation
            | AdFact::Federation
            | AdFact::Service => None,
        }
    }
}

/// What suits.
#[derive(Debug, Default)]
pub(super) struct Found {
    bunches: Vec<Bunch>,
}

/// The pools of one provider that suit at one price.
#[derive(Clone, Copy, Debug)]
struct Bunch {
    // No memory holds as many advertisements as 32 bits count.
    listing: u32,
    rows: Rows,
    merits: Merits,
}

/// One offer that suits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) listing: usize,
    pub(super) row: usize,
    pub(super) merits: Merits,
    pub(super) rank: Rank,
}

/// Who hears of an offer that does not suit: which listing and row, and what it misses.
pub(super) type Missed<'m> = &'m mut dyn FnMut(usize, usize, u128);

/// Finds what suits. `missed`, if there is one, hears of every offer that does not, with
/// all that it misses; without, an offer is left at its first miss.
pub(super) fn search(
    needs: &Needs<'_>,
    listings: &[&Listing],
    knowledge: Knowledge<'_>,
    mut missed: Option<Missed<'_>>,
) -> Found {
    let all = missed.is_some();
    let mut found = Found::default();
    for (at, listing) in listings.iter().enumerate() {
        let known = knowledge.of(listing);
        let of_ad = needs.missed_by_ad(listing, &known, all);
        if of_ad != 0 && !all {
            continue;
        }
        let mut sieve = Sieve::new(listing.pools(), of_ad, all);
        needs.sift(listing, &mut sieve);
        for price in &listing.stock.prices {
            let open = price.rows.and(sieve.open());
            if open.is_empty() {
                continue;
            }
            let cost = needs.cost(price);
            let missed_at = needs.missed_at(&cost);
            sieve.miss(open, missed_at);
            let rows = price.rows.and(sieve.left());
            if !rows.is_empty() {
                let total = cost.ok().flatten().map(|total| (total.currency, total.micros));
                let merits = known.merits(listing, total);
                found.bunches.push(Bunch { listing: at as u32, rows, merits });
            }
        }
        if let Some(missed) = &mut missed {
            sieve.misses().for_each(|(row, bits)| missed(at, row, bits));
        }
    }
    found
}

impl Known<'_> {
    fn merits(&self, listing: &Listing, cost: Option<(Currency, u64)>) -> Merits {
        let carbon = listing.ad_value(AdFact::Carbon).map(Value::raw);
        Merits { cost, rtt_us: self.rtt_us, carbon, reputation: self.reputation }
    }
}

impl Found {
    /// How many.
    pub(super) fn len(&self) -> usize {
        self.bunches.iter().map(|bunch| bunch.rows.len()).sum()
    }

    /// The best, the best first, but not more than so many. Of equals the cheapest comes
    /// first, and then the one of the lower provider.
    pub(super) fn best(self, sort: Sort, most: usize) -> (Ranking, Vec<Hit>) {
        let Self { bunches } = self;
        let ranking = Ranking::new(sort, bunches.iter().filter_map(|one| one.merits.cost));
        let ranked = bunches.iter().zip(0u32..).map(|(one, nth)| (ranking.rank(&one.merits), nth));
        let mut ranked: Vec<(Rank, u32)> = ranked.collect();
        let cost = |nth: u32| bunches[nth as usize].merits.cost;
        let order = |a: &(Rank, u32), b: &(Rank, u32)| {
            a.0.cmp(&b.0).then_with(|| (cost(a.1), a.1).cmp(&(cost(b.1), b.1)))
        };
        if ranked.len() > most {
            ranked.select_nth_unstable_by(most, order);
            ranked.truncate(most);
        }
        ranked.sort_unstable_by(order);
        let hits = ranked.iter().flat_map(|(rank, nth)| {
            let Bunch { listing, rows, merits } = bunches[*nth as usize];
            let hit = move |row| Hit { listing: listing as usize, row, merits, rank: *rank };
            rows.iter().map(hit)
        });
        let hits = hits.take(most).collect();
        (ranking, hits)
    }
}
