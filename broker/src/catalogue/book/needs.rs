//! A demand, taken apart into needs, each with its bit: what an offer misses is a set of
//! bits, and one that misses none suits.

use mercato_protocol::egress::{Egress, EgressLack, EgressOffer};
use mercato_protocol::id::ClusterId;
use mercato_protocol::price::{Money, PriceError, Usage};
use mercato_protocol::resources::Resource;

use super::context::{Audience, BuyerContext, ProviderFacts};
use super::gpu_needs::GpuNeeds;
use super::listing::Listing;
use super::pool_set::{Filter, PoolSet};
use super::tariff::{Asked, Tariff, Used};
use crate::catalogue::demand::{Demand, Exclusion};
use crate::catalogue::trust::Standing;
use crate::sale::{is_kept, sharers};
use crate::selector::{Attribute, PoolFact, Priced, Term};

/// One thing that an offer must be.
#[derive(Clone, Debug)]
pub(super) enum Need<'a> {
    Unblocked,
    Trusted,
    /// What it signs is what it offers.
    Faithful,
    /// It has not just refused as much.
    Unrefused,
    Provider(ClusterId),
    Class,
    LongEnough,
    ShortEnough,
    /// It offers the way out that is asked for.
    Egress,
    Cpu,
    Memory,
    Pods,
    Storage,
    Gpus(Asked<'a>),
    /// No more processors and memory than come with the GPUs.
    InShare,
    /// Kinds of GPUs that share devices fit them together.
    Together,
    Affordable,
    InBudget,
    Allowed,
    Holds(&'a Term),
    /// A term of the owner's policy.
    Permitted(&'a Term),
}

impl<'a> Need<'a> {
    /// The term of a selector, if it is one.
    pub(super) fn term(&self) -> Option<&'a Term> {
        if let Self::Holds(term) | Self::Permitted(term) = self { Some(term) } else { None }
    }
}

/// A demand, taken apart into its needs.
pub(super) struct Needs<'a> {
    pub(super) demand: &'a Demand,
    pub(super) all: Vec<Need<'a>>,
    pub(super) gpus: GpuNeeds<'a>,
    /// What is left of every budget.
    budgets: &'a [Money],
    /// Of the whole term; an error has no price.
    used: Result<Used, PriceError>,
    levels: Levels<'a>,
}

/// Needs by where they are looked up, each with its bit.
#[derive(Default)]
struct Levels<'a> {
    ad: Vec<(u128, Need<'a>)>,
    row: Vec<(u128, Need<'a>)>,
    in_share: u128,
    together: u128,
    affordable: u128,
    in_budget: u128,
}

impl<'a> Levels<'a> {
    /// Notes where a need is looked up; terms on GPUs are among `gpus`.
    fn place(&mut self, bit: u128, need: &Need<'a>, gpus: &mut Vec<(u128, &'a Term)>) {
        match need {
            Need::Holds(term) | Need::Permitted(term) => match term.attribute() {
                Attribute::Ad(_) | Attribute::Claim { .. } => {
                    self.ad.push((bit, need.clone()));
                }
                Attribute::Gpu(_) | Attribute::Price(Priced::Gpu, _) => {
                    gpus.push((bit, term));
                }
                Attribute::Pool(_)
                | Attribute::Price(
                    Priced::Cpu | Priced::Memory | Priced::Pods | Priced::Storage,
                    _,
                ) => {
                    self.row.push((bit, need.clone()));
                }
            },
            Need::Cpu | Need::Memory | Need::Pods | Need::Storage | Need::Gpus(_) => {
                self.row.push((bit, need.clone()));
            }
            Need::InShare => self.in_share = bit,
            Need::Together => self.together = bit,
            Need::Affordable => self.affordable = bit,
            Need::InBudget => self.in_budget = bit,
            Need::Unblocked
            | Need::Trusted
            | Need::Faithful
            | Need::Unrefused
            | Need::Provider(_)
            | Need::Class
            | Need::LongEnough
            | Need::ShortEnough
            | Need::Egress
            | Need::Allowed => self.ad.push((bit, need.clone())),
        }
    }
}

/// What an offer costs for the whole term; none: nothing.
pub(super) type Cost = Result<Option<Money>, PriceError>;

impl<'a> Needs<'a> {
    /// None: there are more needs than can be told apart.
    pub(super) fn new(
        demand: &'a Demand,
        audience: Audience,
        context: BuyerContext<'a>,
    ) -> Option<Self> {
        let timed = demand.term_s > 0;
        let mut needs = vec![match audience {
            Audience::Anyone => Need::Unblocked,
            Audience::Trusted => Need::Trusted,
        }];
        // Who is asked for by name gets another chance.
        match demand.from {
            Some(from) => needs.push(Need::Provider(from)),
            None => needs.extend([Need::Faithful, Need::Unrefused]),
        }
        needs.extend(demand.class.map(|_| Need::Class));
        needs.extend(timed.then_some(Need::LongEnough));
        needs.extend(timed.then_some(Need::ShortEnough));
        needs.extend((demand.egress != Egress::None).then_some(Need::Egress));
        needs.extend(demand.selector.terms().iter().map(Need::Holds));
        if let Some(policy) = context.policy {
            needs.extend(policy.selector.terms().iter().map(Need::Permitted));
            let long = policy.longest_s.is_some_and(|longest_s| demand.term_s > longest_s);
            needs.extend(long.then_some(Need::Allowed));
        }
        let asked = &demand.quantity;
        needs.extend((asked.cpu_millis > 0).then_some(Need::Cpu));
        needs.extend((asked.memory_bytes > 0).then_some(Need::Memory));
        needs.extend((asked.pods > 0).then_some(Need::Pods));
        needs.extend((asked.storage_bytes > 0).then_some(Need::Storage));
        let mut gpus = GpuNeeds::new(demand);
        needs.extend(gpus.asked.iter().copied().map(Need::Gpus));
        needs.extend((asked.cpu_millis > 0 || asked.memory_bytes > 0).then_some(Need::InShare));
        needs.extend((asked.gpus.len() > 1).then_some(Need::Together));
        needs.push(Need::Affordable);
        needs.extend((!context.inputs.budgets.is_empty()).then_some(Need::InBudget));
        let mut levels = Levels::default();
        for (n, need) in needs.iter().enumerate() {
            let bit = 1u128.checked_shl(u32::try_from(n).ok()?)?;
            levels.place(bit, need, &mut gpus.terms);
        }
        let term_ms = demand.term_s.checked_mul(1_000).ok_or(PriceError::Overflow);
        let usage = term_ms.and_then(|term_ms| Usage::of(&demand.quantity, term_ms));
        let used = usage.map(|usage| Used::new(usage, &gpus.asked));
        Some(Self { demand, all: needs, gpus, budgets: &context.inputs.budgets, used, levels })
    }

    /// Those that all of an advertisement misses; only the first, unless all are asked for.
    pub(super) fn missed_by_ad(
        &self,
        listing: &Listing,
        facts: &ProviderFacts<'_>,
        all: bool,
    ) -> u128 {
        let missed = self.levels.ad.iter().filter(|(_, need)| !self.ad_meets(listing, facts, need));
        let bits = missed.map(|(bit, _)| *bit).take(if all { usize::MAX } else { 1 });
        bits.fold(0, |bits, bit| bits | bit)
    }

    fn ad_meets(&self, listing: &Listing, facts: &ProviderFacts<'_>, need: &Need<'_>) -> bool {
        let term_s = self.demand.term_s;
        match need {
            Need::Unblocked => facts.standing != Standing::Blocked,
            Need::Trusted => facts.standing == Standing::Trusted,
            Need::Faithful => !facts.unfaithful,
            Need::Unrefused => !facts.refused,
            Need::Provider(provider) => *provider == listing.provider,
            Need::Class => {
                let offered = &listing.ad.body.terms.classes;
                self.demand.class.is_none_or(|class| offered.contains(&class))
            }
            Need::LongEnough => term_s >= *listing.terms_s.start(),
            Need::ShortEnough => term_s <= *listing.terms_s.end(),
            Need::Egress => self.lacks_egress(listing).is_none(),
            // Its owner does not allow the term, whatever is on offer.
            Need::Allowed => false,
            Need::Holds(term) | Need::Permitted(term) => listing.ad_holds(term, facts),
            Need::Cpu
            | Need::Memory
            | Need::Pods
            | Need::Storage
            | Need::Gpus(_)
            | Need::InShare
            | Need::Together
            | Need::Affordable
            | Need::InBudget => true,
        }
    }

    /// Takes out the pools that miss something, whatever it costs.
    pub(super) fn apply(&self, listing: &Listing, filter: &mut Filter) {
        for (bit, need) in &self.levels.row {
            if filter.open().is_empty() {
                return;
            }
            filter.keep(self.rows_that_meet(listing, need, filter.open()), *bit);
        }
        if !self.gpus.terms.is_empty() {
            for row in filter.open().iter() {
                filter.miss(PoolSet::one(row), self.gpus.missed(listing, row));
            }
        }
        if self.levels.in_share != 0 {
            let beyond = filter.open().and(listing.rows_with_shares());
            let beyond = beyond.filter(|row| !self.gpus.is_in_share(listing, row));
            filter.miss(beyond, self.levels.in_share);
        }
        if self.levels.together != 0 {
            let fit = filter.open().filter(|row| self.fit_together(listing, row));
            filter.keep(fit, self.levels.together);
        }
    }

    /// The pools that meet a need, of those that are open at least.
    fn rows_that_meet(&self, listing: &Listing, need: &Need<'_>, open: PoolSet) -> PoolSet {
        let asked = &self.demand.quantity;
        let least = |fact, least| PoolSet::whose(listing.column(fact), |free| free >= least);
        match need {
            Need::Cpu => least(PoolFact::Cpu, asked.cpu_millis),
            Need::Memory => least(PoolFact::Memory, asked.memory_bytes),
            Need::Pods => least(PoolFact::Pods, asked.pods),
            Need::Storage => least(PoolFact::Storage, asked.storage_bytes),
            Need::Gpus(asked) => {
                open.filter(|row| listing.free_gpus(row, asked.name) >= asked.count)
            }
            Need::Holds(term) | Need::Permitted(term) => listing.rows_that_hold(term),
            Need::Unblocked
            | Need::Trusted
            | Need::Faithful
            | Need::Unrefused
            | Need::Provider(_)
            | Need::Class
            | Need::LongEnough
            | Need::ShortEnough
            | Need::Egress
            | Need::InShare
            | Need::Together
            | Need::Affordable
            | Need::InBudget
            | Need::Allowed => open,
        }
    }

    /// What of the way out that is asked for is not offered; none: nothing lacks.
    fn lacks_egress(&self, listing: &Listing) -> Option<EgressLack> {
        EgressOffer::lack_of(listing.ad.body.egress.as_ref(), &self.demand.egress)
    }

    /// Those that a cost misses.
    pub(super) fn missed_at(&self, cost: &Cost) -> u128 {
        let affordable = self.exceeds(cost).map_or(0, |_| self.levels.affordable);
        affordable | self.overdraws(cost).map_or(0, |_| self.levels.in_budget)
    }

    fn fit_together(&self, listing: &Listing, row: usize) -> bool {
        let bought = self.gpus.bought(listing, row);
        let (pool, row) = listing.pool(row);
        bought.gpus.keys().all(|model| is_kept(&sharers(pool, model, &row.free, &bought)))
    }

    /// Which budget does not have so much left; none: each has.
    fn overdraws(&self, cost: &Cost) -> Option<Exclusion> {
        let total = cost.as_ref().ok().copied().flatten()?;
        let over = |left: &&Money| left.currency != total.currency || left.micros < total.micros;
        self.budgets.iter().find(over).map(|left| Exclusion::OverBudget { total, left: *left })
    }

    /// What these models cost at a price, and all else that is asked for.
    pub(super) fn cost(&self, price: &Tariff, models: &[u64]) -> Cost {
        if self.demand.term_s == 0 {
            return Ok(None);
        }
        price.total(self.used.as_ref().map_err(Clone::clone)?, models)
    }

    fn cost_of(&self, listing: &Listing, row: usize) -> Cost {
        self.cost(listing.price(row), &self.gpus.models(listing, row))
    }

    /// Why so much is not paid; none: it is.
    fn exceeds(&self, cost: &Cost) -> Option<Exclusion> {
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
            Need::Faithful => Exclusion::NotAsOffered,
            Need::Unrefused => Exclusion::Refused,
            Need::Provider(_) => Exclusion::OtherProvider,
            Need::Class => Exclusion::Class(self.demand.class.unwrap_or_default()),
            Need::LongEnough => Exclusion::TermTooShort(terms.min_term_s),
            Need::ShortEnough => Exclusion::TermTooLong(terms.max_term_s),
            Need::Egress => {
                Exclusion::Egress(self.lacks_egress(listing).unwrap_or(EgressLack::All))
            }
            Need::Cpu => short(Resource::Cpu, free.cpu_millis),
            Need::Memory => short(Resource::Memory, free.memory_bytes),
            Need::Pods => short(Resource::Pods, free.pods),
            Need::Storage => short(Resource::Storage, free.storage_bytes),
            Need::Gpus(asked) => {
                let free = listing.free_gpus(row, asked.name);
                short(Resource::Gpu(asked.model.clone()), free)
            }
            Need::InShare => self.gpus.beyond_share(listing, row),
            Need::Affordable => {
                self.exceeds(&self.cost_of(listing, row)).unwrap_or(Exclusion::Price)
            }
            Need::Together => Exclusion::Devices,
            Need::InBudget => {
                self.overdraws(&self.cost_of(listing, row)).unwrap_or(Exclusion::Price)
            }
            Need::Allowed => Exclusion::TermNotAllowed,
            Need::Holds(term) | Need::Permitted(term) => {
                Exclusion::Term { attribute: term.name().to_owned(), said: None }
            }
        }
    }
}
