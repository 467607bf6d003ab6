//! Why offers do not suit: for each need how many it excludes, and which of those comes
//! nearest, with all that this one lacks.

use std::cmp::Reverse;

use mercato_protocol::ad::Assurance;
use mercato_protocol::id::ClusterId;
use mercato_protocol::price::Money;
use mercato_protocol::resources::Resource;
use mercato_protocol::text::PoolId;
use serde::{Deserialize, Serialize};

use super::context::{BuyerContext, ProviderFacts};
use super::listing::Listing;
use super::needs::{Need, Needs};
use crate::catalogue::demand::Exclusion;
use crate::selector::{
    AdFact, Attribute, Said, TRUST, Term, Value, assurance, kind, of_ad, of_gpu, of_pool,
};
use crate::syntax::{Rate, Seconds, Show as _, quantity};

/// The offers that one need excludes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Excluded {
    /// The need: a term as it was written, or what else was asked for.
    pub by: String,
    /// How many do not meet it. Who misses several needs counts with each.
    pub offers: usize,
    /// How many of those meet all others: what dropping it would gain.
    pub alone: usize,
    /// The one that misses the fewest needs, and this one by the least.
    pub nearest: Miss,
}

/// An offer that does not suit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Miss {
    /// The cluster that makes the offer.
    pub provider: ClusterId,
    /// The name that it gives itself.
    pub name: String,
    /// The pool that is offered.
    pub pool: PoolId,
    /// All that it lacks, this need first.
    pub lacks: Vec<Exclusion>,
}

/// What is counted of one need.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    offers: usize,
    alone: usize,
    nearest: Option<Near>,
}

/// How near an offer comes: the less, the nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Near {
    misses: u32,
    gap: u64,
    listing: usize,
    row: usize,
    bits: u128,
}

/// Counts what misses each need, and remembers the nearest.
pub(super) struct Explanation<'s> {
    needs: &'s Needs<'s>,
    listings: &'s [&'s Listing],
    context: BuyerContext<'s>,
    tallies: Vec<Tally>,
}

impl<'s> Explanation<'s> {
    pub(super) fn new(
        needs: &'s Needs<'s>,
        listings: &'s [&'s Listing],
        context: BuyerContext<'s>,
    ) -> Self {
        let tallies = vec![Tally::default(); needs.all.len()];
        Self { needs, listings, context, tallies }
    }

    /// An offer misses these needs.
    pub(super) fn note(&mut self, listing: usize, row: usize, bits: u128) {
        let misses = bits.count_ones();
        for n in (0..self.tallies.len()).filter(|n| bits >> n & 1 == 1) {
            let of = self.listings[listing];
            let gap = gap(self.needs, &self.needs.all[n], of, row, self.context);
            let tally = &mut self.tallies[n];
            tally.offers += 1;
            tally.alone += usize::from(misses == 1);
            let near = Near { misses, gap, listing, row, bits };
            if tally.nearest.is_none_or(|nearest| near < nearest) {
                tally.nearest = Some(near);
            }
        }
    }

    /// The needs that exclude any, those that alone exclude the most first.
    pub(super) fn groups(&self) -> Vec<Excluded> {
        let group = |(n, tally): (usize, &Tally)| {
            let nearest = tally.nearest?;
            let listing = self.listings[nearest.listing];
            let bits = (0..self.needs.all.len()).filter(|bit| nearest.bits >> bit & 1 == 1);
            let mut lacks: Vec<usize> = bits.collect();
            lacks.sort_by_key(|bit| *bit != n);
            Some(Excluded {
                by: self.said(&self.needs.all[n]),
                offers: tally.offers,
                alone: tally.alone,
                nearest: Miss {
                    provider: listing.ad.header.provider,
                    name: listing.ad.name.to_string(),
                    pool: listing.pool(nearest.row).0.id.clone(),
                    lacks: lacks.into_iter().map(|n| self.why(n, listing, nearest.row)).collect(),
                },
            })
        };
        let mut groups: Vec<_> = self.tallies.iter().enumerate().filter_map(group).collect();
        groups.sort_by_key(|group| Reverse((group.alone, group.offers)));
        groups
    }

    /// A need in words for people.
    fn said(&self, need: &Need<'_>) -> String {
        let demand = self.needs.demand;
        let asked = |resource: Resource| {
            let n = demand.quantity.quantity(&resource);
            format!("{resource}>={}", quantity::show(&resource, n))
        };
        match need {
            Need::Unblocked => "not blocked".to_owned(),
            Need::Faithful => "signs what it offers".to_owned(),
            Need::Unrefused => "has not just refused as much".to_owned(),
            Need::Trusted => "trusted".to_owned(),
            Need::Provider(provider) => format!("provider {}", provider.short()),
            Need::Class => {
                let class = demand.class.unwrap_or_default();
                format!("class={}", format!("{class:?}").to_lowercase())
            }
            Need::LongEnough | Need::ShortEnough => {
                format!("for {}", Seconds(demand.term_s).show())
            }
            Need::Egress => format!("egress to {}", demand.egress),
            Need::Cpu => asked(Resource::Cpu),
            Need::Memory => asked(Resource::Memory),
            Need::Pods => asked(Resource::Pods),
            Need::Storage => asked(Resource::Storage),
            Need::Gpus(gpus) => asked(Resource::Gpu(gpus.model.clone())),
            Need::InShare => "no more than comes with the GPUs".to_owned(),
            Need::Affordable => {
                demand.max_price.map_or_else(|| "a price".to_owned(), |rate| rate.show())
            }
            Need::Together => "GPUs together".to_owned(),
            Need::InBudget => "budget".to_owned(),
            Need::Allowed => format!("policy: for {}", Seconds(demand.term_s).show()),
            Need::Holds(term) => term.to_string(),
            Need::Permitted(term) => format!("policy: {term}"),
        }
    }

    fn why(&self, need: usize, listing: &Listing, row: usize) -> Exclusion {
        let need = &self.needs.all[need];
        let Some(term) = need.term() else {
            return self.needs.exclusion(need, listing, row);
        };
        let gpu = self.needs.gpus.spokesman(listing, row);
        let said =
            heard(term, listing, row, gpu, &self.context.of(&listing.provider, &listing.key));
        let said = (!said.is_empty()).then(|| said.join(" and "));
        Exclusion::Term { attribute: term.name().to_owned(), said }
    }
}

/// How far an offer is from meeting a need, in thousandths.
fn gap(
    needs: &Needs<'_>,
    need: &Need<'_>,
    listing: &Listing,
    row: usize,
    context: BuyerContext<'_>,
) -> u64 {
    match need {
        Need::Holds(term) | Need::Permitted(term) => term.gap(match term.attribute() {
            Attribute::Ad(fact) => listing
                .ad_value(fact)
                .or_else(|| context.of(&listing.provider, &listing.key).value(fact)),
            Attribute::Claim { .. } => None,
            Attribute::Pool(_) | Attribute::Gpu(_) | Attribute::Price(..) => {
                listing.value(term.attribute(), row, needs.gpus.spokesman(listing, row))
            }
        }),
        Need::Cpu
        | Need::Memory
        | Need::Pods
        | Need::Storage
        | Need::Gpus(_)
        | Need::InShare
        | Need::Affordable => match needs.exclusion(need, listing, row) {
            Exclusion::Short { free, asked, .. } => Value::number(free).gap(Value::number(asked)),
            Exclusion::BeyondShare { most, asked, .. } => {
                Value::number(most).gap(Value::number(asked))
            }
            Exclusion::TooDear { total, limit } => {
                Value::number(total.micros).gap(Value::number(limit.micros))
            }
            Exclusion::Blocked
            | Exclusion::Untrusted
            | Exclusion::NotAsOffered
            | Exclusion::Refused
            | Exclusion::OtherProvider
            | Exclusion::Class(_)
            | Exclusion::TermTooShort(_)
            | Exclusion::TermTooLong(_)
            | Exclusion::Egress(_)
            | Exclusion::Currency(_)
            | Exclusion::Price
            | Exclusion::OverBudget { .. }
            | Exclusion::TermNotAllowed
            | Exclusion::Devices
            | Exclusion::OnlyWithGpus { .. }
            | Exclusion::Term { .. } => 1_000,
        },
        Need::Unblocked
        | Need::Trusted
        | Need::Faithful
        | Need::Unrefused
        | Need::Provider(_)
        | Need::Class
        | Need::LongEnough
        | Need::ShortEnough
        | Need::Egress
        | Need::Together
        | Need::InBudget
        | Need::Allowed => 1_000,
    }
}

/// What an offer has to say to a term, as it says it.
fn heard(
    term: &Term,
    listing: &Listing,
    row: usize,
    gpu: Option<usize>,
    facts: &ProviderFacts<'_>,
) -> Vec<String> {
    let kind = kind(term.attribute());
    let show = |said: Said<'_>| match said {
        Said::Word(word) => word.to_owned(),
        Said::Number(n) => kind.show(n),
    };
    let (pool, free) = listing.pool(row);
    match term.attribute() {
        Attribute::Ad(AdFact::Trust) => vec![TRUST[facts.standing as usize].to_owned()],
        Attribute::Ad(AdFact::Rtt) => facts.rtt_us.map(|us| kind.show(us)).into_iter().collect(),
        Attribute::Ad(AdFact::Reputation) => {
            facts.reputation.map(|n| kind.show(n)).into_iter().collect()
        }
        Attribute::Ad(asked @ (AdFact::Organisation | AdFact::Federation)) => {
            facts.words(asked).map(str::to_owned).collect()
        }
        Attribute::Ad(asked) => {
            let said = of_ad(&listing.ad.body, &listing.ad.name).into_iter();
            said.filter(|(fact, _)| *fact == asked).map(|(_, said)| show(said)).collect()
        }
        Attribute::Claim { .. } => {
            let own = listing.ad.body.attributes.iter();
            let own = own.map(|claim| (claim, Assurance::SelfAsserted));
            let certified = facts.certified().map(|claim| (claim, claim.assurance));
            let said = own.chain(certified);
            let said = said.filter(|(claim, _)| claim.name.as_str() == term.name());
            said.map(|(claim, by)| format!("{}@{}", claim.value, assurance(by))).collect()
        }
        Attribute::Pool(asked) => {
            let said = of_pool(pool, free).into_iter();
            said.filter(|(fact, _)| *fact == asked).map(|(_, said)| show(said)).collect()
        }
        Attribute::Gpu(asked) => {
            let gpu = gpu.and_then(|kind| listing.gpu(row, kind));
            let said = gpu.map(|(gpu, free)| of_gpu(gpu, free)).unwrap_or_default().into_iter();
            said.filter(|(fact, _)| *fact == asked).map(|(_, said)| show(said)).collect()
        }
        Attribute::Price(_, currency) => {
            let value = listing.value(term.attribute(), row, gpu);
            let rate = |value: Value| {
                let (micros, per_s) = value.parts();
                Rate { amount: Money { micros, currency }, per_s }.show()
            };
            value.map(rate).into_iter().collect()
        }
    }
}
