//! Which offers suit a demand, and in which order.
//!
//! Pools of one provider at one price, of which the same models would be bought, rank alike, so
//! they are ranked as one bunch.

use mercato_protocol::price::Currency;

use super::context::{BuyerContext, ProviderFacts};
use super::listing::Listing;
use super::needs::Needs;
use super::pool_set::{Filter, PoolSet};
use crate::catalogue::rank::{Merits, Rank, Ranking, Sort};
use crate::selector::{AdFact, Value};

/// All offers that suit a demand.
#[derive(Debug, Default)]
pub(super) struct Found {
    bunches: Vec<Bunch>,
}

/// The pools of one provider that suit at one price, with the same models.
#[derive(Clone, Copy, Debug)]
struct Bunch {
    // No memory holds as many advertisements as 32 bits count.
    listing: u32,
    rows: PoolSet,
    merits: Merits,
}

/// One offer that suits, with its rank.
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
    context: BuyerContext<'_>,
    mut missed: Option<Missed<'_>>,
) -> Found {
    let all = missed.is_some();
    let mut found = Found::default();
    for (at, listing) in listings.iter().enumerate() {
        let facts = context.of(&listing.provider, &listing.key);
        let of_ad = needs.missed_by_ad(listing, &facts, all);
        if of_ad != 0 && !all {
            continue;
        }
        let mut filter = Filter::new(listing.pools(), of_ad, all);
        needs.apply(listing, &mut filter);
        for price in &listing.stock.prices {
            let mut open = price.rows.and(filter.open());
            while let Some((alike, models)) = needs.gpus.alike(listing, open) {
                open = open.without(alike);
                let cost = needs.cost(price, &models);
                let missed_at = needs.missed_at(&cost);
                filter.miss(alike, missed_at);
                let rows = alike.and(filter.left());
                if !rows.is_empty() {
                    let total = cost.ok().flatten().map(|total| (total.currency, total.micros));
                    let merits = merits(&facts, listing, total);
                    found.bunches.push(Bunch { listing: at as u32, rows, merits });
                }
            }
        }
        if let Some(missed) = &mut missed {
            filter.misses().for_each(|(row, bits)| missed(at, row, bits));
        }
    }
    found
}

fn merits(facts: &ProviderFacts<'_>, listing: &Listing, cost: Option<(Currency, u64)>) -> Merits {
    let carbon = listing.ad_value(AdFact::Carbon).map(Value::raw);
    Merits { cost, rtt_us: facts.rtt_us, carbon, reputation: facts.reputation }
}

impl Found {
    /// How many offers there are.
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
