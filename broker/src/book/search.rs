//! Which offers suit a demand, in which order, and what the others lack.
//!
//! A demand comes apart into needs, numbered by bits: an offer suits if none is missed.
//! Without an explanation an offer is left at the first miss.

use std::collections::BTreeMap;

use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::price::{Currency, Money, PriceError, Usage};
use mercato_protocol::resources::Resource;
use mercato_protocol::text::GpuModel;

use super::listing::{Listing, Row, fingerprint};
use crate::demand::{Demand, Exclusion};
use crate::rank::{Merits, Rank, Ranking};
use crate::selector::{AdFact, Attribute, PoolFact, Priced, TRUST, Term, Value};
use crate::trust::{Peers, Standing};

/// Whom an order may be placed with, or an offer shown of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Anyone,
    Trusted,
}

/// What this cluster knows of others by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knowledge<'a> {
    pub(crate) peers: &'a Peers,
    /// Microseconds, by key.
    pub(crate) round_trips: &'a BTreeMap<PublicKey, u64>,
    /// Thousandths of the best.
    pub(crate) reputation: &'a BTreeMap<ClusterId, u64>,
}

/// What is known of one of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    pub(crate) standing: Standing,
    pub(crate) rtt_us: Option<u64>,
    pub(crate) reputation: Option<u64>,
}

impl Knowledge<'_> {
    pub(crate) fn of(&self, listing: &Listing) -> Known {
        let provider = &listing.ad.lease.provider;
        Known {
            standing: self.peers.standing(provider),
            rtt_us: self.round_trips.get(&listing.ad.key).copied(),
            reputation: self.reputation.get(provider).copied(),
        }
    }
}

impl Known {
    pub(super) fn facts(&self) -> Vec<(AdFact, Value)> {
        let number = |fact, n: Option<u64>| n.map(|n| (fact, Value::number(n)));
        let trust = (AdFact::Trust, Value::word(TRUST[self.standing as usize]));
        let rtt = number(AdFact::Rtt, self.rtt_us);
        let reputation = number(AdFact::Reputation, self.reputation);
        [Some(trust), rtt, reputation].into_iter().flatten().collect()
    }
}

/// One thing that an offer must be.
#[derive(Clone, Debug)]
pub(super) enum Need<'a> {
    Unblocked,
    Trusted,
    Provider(ClusterId),
    Class,
    LongEnough,
    ShortEnough,
    Cpu,
    Memory,
    Pods,
    Gpus { model: &'a GpuModel, fingerprint: u64, count: u64 },
    Affordable,
    Holds(&'a Term),
}

/// A demand, made ready.
pub(super) struct Search<'a> {
    pub(super) demand: &'a Demand,
    pub(super) needs: Vec<Need<'a>>,
    /// Of the whole term; an error has no price.
    usage: Result<Usage, PriceError>,
    levels: Levels<'a>,
}

/// Needs by where they are looked up, each with its bit.
#[derive(Default)]
struct Levels<'a> {
    ad: Vec<(u64, Need<'a>)>,
    row: Vec<(u64, Need<'a>)>,
    gpu: Vec<(u64, &'a Term)>,
    affordable: u64,
}

/// An offer that suits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) listing: u32,
    pub(super) row: u32,
    pub(super) merits: Merits,
}

/// What an offer costs for the whole term; none: nothing.
type Cost = Result<Option<Money>, PriceError>;

impl<'a> Search<'a> {
    /// None: there are more needs than can be told apart.
    pub(super) fn new(demand: &'a Demand, whom: Whom) -> Option<Self> {
        let timed = demand.term_s > 0;
        let mut needs = vec![match whom {
            Whom::Anyone => Need::Unblocked,
            Whom::Trusted => Need::Trusted,
        }];
        needs.extend(demand.from.map(Need::Provider));
        needs.extend(demand.class.map(|_| Need::Class));
        needs.extend(timed.then_some(Need::LongEnough));
        needs.extend(timed.then_some(Need::ShortEnough));
        needs.extend(demand.selector.terms().iter().map(Need::Holds));
        let asked = &demand.quantity;
        needs.extend((asked.cpu_millis > 0).then_some(Need::Cpu));
        needs.extend((asked.memory_bytes > 0).then_some(Need::Memory));
        needs.extend((asked.pods > 0).then_some(Need::Pods));
        needs.extend(asked.gpus.iter().filter(|(_, count)| **count > 0).map(|(model, count)| {
            Need::Gpus { model, fingerprint: fingerprint(model), count: *count }
        }));
        needs.push(Need::Affordable);
        let mut levels = Levels::default();
        for (n, need) in needs.iter().enumerate() {
            let bit = 1u64.checked_shl(u32::try_from(n).ok()?)?;
            match need {
                Need::Holds(term) => match term.attribute() {
                    Attribute::Ad(_) | Attribute::Claim { .. } => {
                        levels.ad.push((bit, need.clone()));
                    }
                    Attribute::Gpu(_) | Attribute::Price(Priced::Gpu, _) => {
                        levels.gpu.push((bit, term));
                    }
                    Attribute::Pool(_)
                    | Attribute::Price(Priced::Cpu | Priced::Memory | Priced::Pods, _) => {
                        levels.row.push((bit, need.clone()));
                    }
                },
                Need::Cpu | Need::Memory | Need::Pods | Need::Gpus { .. } => {
                    levels.row.push((bit, need.clone()));
                }
                Need::Affordable => levels.affordable = bit,
                Need::Unblocked
                | Need::Trusted
                | Need::Provider(_)
                | Need::Class
                | Need::LongEnough
                | Need::ShortEnough => levels.ad.push((bit, need.clone())),
            }
        }
        let term_ms = demand.term_s.checked_mul(1_000).ok_or(PriceError::Overflow);
        let usage = term_ms.and_then(|term_ms| Usage::of(&demand.quantity, term_ms));
        Some(Self { demand, needs, usage, levels })
    }

    /// Finds what suits. `missed`, if there is one, hears of every offer that does not,
    /// with all that it misses; without, an offer is left at its first miss.
    pub(super) fn run(
        &self,
        listings: &[&Listing],
        knowledge: Knowledge<'_>,
        mut missed: Option<&mut dyn FnMut(usize, usize, u64)>,
    ) -> Vec<Hit> {
        let mut hits = Vec::new();
        let all = missed.is_some();
        for (at, listing) in listings.iter().enumerate() {
            let known = knowledge.of(listing);
            let of_ad = self.ad_misses(listing, &known);
            if of_ad != 0 && !all {
                continue;
            }
            let mut costs: Vec<Option<Cost>> = vec![None; listing.prices.len()];
            let carbon = listing.ad.body.carbon_g_per_kwh.map(u64::from);
            for (n, row) in listing.rows.iter().enumerate() {
                let mut misses = of_ad | self.row_misses(listing, row, all);
                if misses != 0 && !all {
                    continue;
                }
                let price = row.price as usize;
                let cost = costs[price].get_or_insert_with(|| self.cost(listing, row));
                if self.exceeds(cost).is_some() {
                    misses |= self.levels.affordable;
                }
                if misses == 0 {
                    let merits = Merits {
                        cost: cost.as_ref().ok().and_then(priced),
                        rtt_us: known.rtt_us,
                        carbon,
                        reputation: known.reputation,
                    };
                    // A book of four thousand million offers does not fit any memory.
                    hits.push(Hit { listing: at as u32, row: n as u32, merits });
                } else if let Some(missed) = &mut missed {
                    missed(at, n, misses);
                }
            }
        }
        hits
    }

    /// Sorts the best to the front, and leaves at most so many.
    pub(super) fn best(
        &self,
        listings: &[&Listing],
        hits: Vec<Hit>,
        most: usize,
    ) -> (Ranking, Vec<(Rank, Hit)>) {
        let ranking = Ranking::new(self.demand.sort, hits.iter().filter_map(|hit| hit.merits.cost));
        let rank = |hit: Hit| (ranking.rank(&hit.merits), hit);
        let mut ranked: Vec<_> = hits.into_iter().map(rank).collect();
        let place = |(rank, hit): &(Rank, Hit)| {
            (*rank, hit.merits.cost, listings[hit.listing as usize].ad.lease.provider, hit.row)
        };
        if ranked.len() > most {
            ranked.select_nth_unstable_by_key(most, place);
            ranked.truncate(most);
        }
        ranked.sort_by_cached_key(place);
        (ranking, ranked)
    }

    fn ad_misses(&self, listing: &Listing, known: &Known) -> u64 {
        let (demand, terms) = (self.demand, &listing.ad.body.terms);
        let facts = known.facts();
        let misses = self.levels.ad.iter().filter(|(_, need)| match need {
            Need::Unblocked => known.standing == Standing::Blocked,
            Need::Trusted => known.standing != Standing::Trusted,
            Need::Provider(provider) => *provider != listing.ad.lease.provider,
            Need::Class => demand.class.is_some_and(|class| !terms.classes.contains(&class)),
            Need::LongEnough => demand.term_s < terms.min_term_s,
            Need::ShortEnough => demand.term_s > terms.max_term_s,
            Need::Holds(term) => !listing.ad_holds(term, &facts),
            Need::Cpu | Need::Memory | Need::Pods | Need::Gpus { .. } | Need::Affordable => false,
        });
        misses.fold(0, |bits, (bit, _)| bits | bit)
    }

    #[inline]
    fn row_misses(&self, listing: &Listing, row: &Row, all: bool) -> u64 {
        let mut bits = 0;
        for (bit, need) in &self.levels.row {
            if !self.row_meets(listing, row, need) {
                bits |= bit;
                if !all {
                    return bits;
                }
            }
        }
        if self.levels.gpu.is_empty() {
            return bits;
        }
        bits | self.closest_gpu(listing, row).1
    }

    fn row_meets(&self, listing: &Listing, row: &Row, need: &Need<'_>) -> bool {
        let asked = &self.demand.quantity;
        match need {
            Need::Cpu => row.number(PoolFact::Cpu) >= asked.cpu_millis,
            Need::Memory => row.number(PoolFact::Memory) >= asked.memory_bytes,
            Need::Pods => row.number(PoolFact::Pods) >= asked.pods,
            Need::Gpus { fingerprint, count, .. } => listing.free_gpus(row, *fingerprint) >= *count,
            Need::Holds(term) => listing.row_holds(term, row),
            Need::Unblocked
            | Need::Trusted
            | Need::Provider(_)
            | Need::Class
            | Need::LongEnough
            | Need::ShortEnough
            | Need::Affordable => true,
        }
    }

    /// The kind of GPU of a pool that misses the fewest terms, and which those are; none,
    /// and all of them, if there are no GPUs.
    pub(super) fn closest_gpu(&self, listing: &Listing, row: &Row) -> (Option<usize>, u64) {
        let all = self.levels.gpu.iter().fold(0, |bits, (bit, _)| bits | bit);
        let misses = |gpu: usize| {
            let missed = |(_, term): &&(u64, &Term)| {
                !term.holds(listing.gpu_value(term.attribute(), row, gpu))
            };
            self.levels.gpu.iter().filter(missed).fold(0, |bits, (bit, _)| bits | bit)
        };
        let gpus = listing.gpus(row).map(|gpu| (Some(gpu), misses(gpu)));
        gpus.min_by_key(|(_, bits): &(_, u64)| bits.count_ones()).unwrap_or((None, all))
    }

    pub(super) fn cost(&self, listing: &Listing, row: &Row) -> Cost {
        if self.demand.term_s == 0 {
            return Ok(None);
        }
        let usage = self.usage.as_ref().map_err(Clone::clone)?;
        listing.prices[row.price as usize].price.total(usage)
    }

    /// Why so much is not paid; none: it is.
    pub(super) fn exceeds(&self, cost: &Cost) -> Option<Exclusion> {
        let Ok(cost) = cost else { return Some(Exclusion::Price) };
        let (total, rate) = ((*cost)?, self.demand.max_price?);
        if total.currency != rate.amount.currency {
            return Some(Exclusion::Currency(total.currency));
        }
        let limit = rate.over(self.demand.term_s);
        (total.micros > limit.micros).then_some(Exclusion::TooDear { total, limit })
    }

    /// Why an offer misses a need.
    pub(super) fn exclusion(&self, need: &Need<'_>, listing: &Listing, row: usize) -> Exclusion {
        let (terms, free) = (&listing.ad.body.terms, &listing.pool(row).1.free);
        let short = |resource: Resource, free: u64| {
            let asked = self.demand.quantity.quantity(&resource);
            Exclusion::Short { resource, free, asked }
        };
        match need {
            Need::Unblocked => Exclusion::Blocked,
            Need::Trusted => Exclusion::Untrusted,
            Need::Provider(_) => Exclusion::OtherProvider,
            Need::Class => Exclusion::Class(self.demand.class.unwrap_or_default()),
            Need::LongEnough => Exclusion::TermTooShort(terms.min_term_s),
            Need::ShortEnough => Exclusion::TermTooLong(terms.max_term_s),
            Need::Cpu => short(Resource::Cpu, free.cpu_millis),
            Need::Memory => short(Resource::Memory, free.memory_bytes),
            Need::Pods => short(Resource::Pods, free.pods),
            Need::Gpus { model, fingerprint, .. } => {
                let free = listing.free_gpus(&listing.rows[row], *fingerprint);
                short(Resource::Gpu((*model).clone()), free)
            }
            Need::Affordable => {
                let cost = self.cost(listing, &listing.rows[row]);
                self.exceeds(&cost).unwrap_or(Exclusion::Price)
            }
            Need::Holds(term) => Exclusion::Term { attribute: term.name().to_owned(), said: None },
        }
    }
}

fn priced(cost: &Option<Money>) -> Option<(Currency, u64)> {
    cost.map(|money| (money.currency, money.micros))
}
