//! One advertisement as it lies in the book: beside what was sent, every fact that a
//! selector can ask for, flat and in fixed places, what pools say in columns, so that a
//! search of a million offers reads little memory, in its order, and no text.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use mercato_protocol::ad::{Ad, Assurance, Attribute as Claim, Pool, PoolRow};
use mercato_protocol::gpu::{GpuMode, any_variant};
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::limits::POOLS;
use mercato_protocol::price::{Currency, Money, Price, PriceError, UnitPrice, Usage};
use mercato_protocol::resources::Resource;
use mercato_protocol::text::GpuModel;
use mercato_protocol::time::Now;

use super::context::ProviderFacts;
use super::pool_set::PoolSet;
use crate::selector::{
    AdFact, Attribute, GpuFact, PoolFact, Priced, Term, UNSAID, Value, of_ad, of_gpu, of_pool,
};

/// An advertisement, and its facts.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    /// As it was sent. A search stays clear of it: it is far away in memory.
    pub(crate) ad: Box<Ad>,
    pub(crate) provider: ClusterId,
    pub(crate) key: PublicKey,
    pub(crate) expires_ms: u64,
    /// The terms on offer, in seconds.
    pub(crate) terms_s: RangeInclusive<u64>,
    pub(super) stock: Stock,
    facts: [u64; AdFact::SINGLE],
    /// What is said more than once.
    sets: Vec<(AdFact, Value)>,
    /// Its own claims. Whatever it says of who vouches for them is its own word as well, and is not
    /// kept.
    claims: Vec<(u64, Value)>,
}

/// What is free, and at what price: the part of a listing that changes.
#[derive(Clone, Debug)]
pub(super) struct Stock {
    /// Every price that it asks, once.
    pub(super) prices: Vec<Tariff>,
    /// What each pool says, in the advertisement's order: a column for each fact.
    columns: Vec<u64>,
    rows: Vec<Row>,
    gpus: Vec<[u64; GpuFact::COUNT]>,
}

/// Where what else a pool says is found.
#[derive(Clone, Debug)]
struct Row {
    /// Which of the listing's prices.
    price: u32,
    gpus: Range<u32>,
}

/// A price by what it is for.
#[derive(Clone, Debug)]
pub(crate) struct Tariff {
    /// The pools at this price.
    pub(super) rows: PoolSet,
    /// None: all of it is free.
    currency: Option<Currency>,
    cpu: Option<UnitPrice>,
    memory: Option<UnitPrice>,
    pods: Option<UnitPrice>,
    /// What a GPU costs, by the model's fingerprint.
    gpus: Vec<(u64, UnitPrice)>,
}

/// What would be used of each resource, with its model's fingerprint.
pub(super) struct Used(Vec<(Resource, u64, u64)>);

impl Used {
    pub(super) fn new(usage: Usage) -> Self {
        let line = |(resource, counter): (Resource, u64)| {
            let model =
                if let Resource::Gpu(model) = &resource { fingerprint(model) } else { UNSAID };
            (resource, model, counter)
        };
        Self(usage.counters.into_iter().map(line).collect())
    }
}

impl Listing {
    pub(crate) fn new(ad: Box<Ad>) -> Self {
        let (mut facts, mut sets) = ([UNSAID; AdFact::SINGLE], Vec::new());
        for (fact, said) in of_ad(&ad.body, &ad.name) {
            match facts.get_mut(fact as usize) {
                Some(place) => *place = said.value().raw(),
                None => sets.push((fact, said.value())),
            }
        }
        let claims = ad.body.attributes.iter().map(named);
        let claims = claims.collect();
        let terms_s = ad.body.terms.min_term_s..=ad.body.terms.max_term_s;
        let (provider, key, expires_ms) = (ad.header.provider, ad.key, ad.header.expires_ms());
        let stock = Stock::new(&ad);
        Self { ad, provider, key, expires_ms, terms_s, stock, facts, sets, claims }
    }

    /// Takes the provider's later advertisement. Most only renew the last, or have other rows.
    pub(crate) fn replace(&mut self, ad: Box<Ad>) {
        if !Arc::ptr_eq(&self.ad.body, &ad.body) {
            *self = Self::new(ad);
            return;
        }
        if self.ad.header.rows != ad.header.rows {
            self.stock = Stock::new(&ad);
        }
        (self.expires_ms, self.ad) = (ad.header.expires_ms(), ad);
    }

    pub(crate) fn is_over(&self, now: Now) -> bool {
        self.expires_ms <= now.wall_ms
    }

    /// Whether a term on the whole advertisement holds; `facts` are what the buyer knows.
    pub(crate) fn ad_holds(&self, term: &Term, facts: &ProviderFacts<'_>) -> bool {
        match term.attribute() {
            Attribute::Ad(asked) => match self.facts.get(asked as usize) {
                Some(said) => term.holds(Value::of_raw(*said)),
                None => {
                    let said = self.sets.iter().filter(|(fact, _)| *fact == asked);
                    let said = said.map(|(_, value)| *value).chain(facts.value(asked));
                    term.holds(said.chain(facts.words(asked).map(Value::word)))
                }
            },
            Attribute::Claim { name, least } => {
                let own = self.claims.iter().copied();
                let own = own.filter(|_| least == Assurance::SelfAsserted);
                let certified = facts.certified().filter(|claim| claim.assurance >= least);
                let said = own.chain(certified.map(named)).filter(|(claim, _)| *claim == name);
                term.holds(said.map(|(_, value)| value))
            }
            Attribute::Pool(_) | Attribute::Gpu(_) | Attribute::Price(..) => true,
        }
    }

    /// What the advertisement says of itself, if that is one value.
    pub(crate) fn ad_value(&self, asked: AdFact) -> Option<Value> {
        self.facts.get(asked as usize).and_then(|said| Value::of_raw(*said))
    }

    /// How many pools there are.
    #[inline]
    pub(crate) fn pools(&self) -> usize {
        self.stock.rows.len()
    }

    /// What all pools say of themselves.
    #[inline]
    pub(super) fn column(&self, fact: PoolFact) -> &[u64] {
        let (first, pools) = (fact as usize * self.pools(), self.pools());
        &self.stock.columns[first..first + pools]
    }

    /// The pools for which a term on pools, or on the price of something that each has, holds.
    pub(super) fn rows_that_hold(&self, term: &Term) -> PoolSet {
        match term.attribute() {
            Attribute::Pool(fact) => {
                PoolSet::whose(self.column(fact), |said| term.holds(Value::of_raw(said)))
            }
            Attribute::Price(priced, currency) => {
                let holds = |at: &&Tariff| term.holds(at.unit(priced, currency, UNSAID));
                self.stock
                    .prices
                    .iter()
                    .filter(holds)
                    .fold(PoolSet::default(), |all, at| all.or(at.rows))
            }
            Attribute::Ad(_) | Attribute::Claim { .. } | Attribute::Gpu(_) => PoolSet::default(),
        }
    }

    /// What one kind of GPU has to say to a term.
    pub(crate) fn gpu_value(&self, attribute: Attribute, row: usize, gpu: usize) -> Option<Value> {
        let facts = &self.stock.gpus[gpu];
        match attribute {
            Attribute::Gpu(fact) => Value::of_raw(facts[fact as usize]),
            Attribute::Price(priced, currency) => {
                self.price(row).unit(priced, currency, facts[GpuFact::Model as usize])
            }
            Attribute::Ad(_) | Attribute::Claim { .. } | Attribute::Pool(_) => None,
        }
    }

    /// All that one kind of GPU has to say to a term: of a model also its family.
    pub(crate) fn gpu_values(
        &self,
        attribute: Attribute,
        row: usize,
        gpu: usize,
    ) -> impl Iterator<Item = Value> {
        let is_model = attribute == Attribute::Gpu(GpuFact::Model);
        let family = self.stock.gpus[gpu][GpuFact::AnyVariant as usize];
        let family = is_model.then_some(family).and_then(Value::of_raw);
        self.gpu_value(attribute, row, gpu).into_iter().chain(family)
    }

    /// What a pool, or one kind of its GPUs, has to say to a term.
    pub(crate) fn value(
        &self,
        attribute: Attribute,
        row: usize,
        gpu: Option<usize>,
    ) -> Option<Value> {
        match attribute {
            Attribute::Gpu(_) | Attribute::Price(Priced::Gpu, _) => {
                self.gpu_value(attribute, row, gpu?)
            }
            Attribute::Pool(fact) => Value::of_raw(self.column(fact)[row]),
            Attribute::Price(priced, currency) => self.price(row).unit(priced, currency, UNSAID),
            Attribute::Ad(_) | Attribute::Claim { .. } => None,
        }
    }

    /// The price of a pool.
    pub(super) fn price(&self, row: usize) -> &Tariff {
        &self.stock.prices[self.stock.rows[row].price as usize]
    }

    /// The kinds of GPUs of a pool.
    #[inline]
    pub(crate) fn gpus(&self, row: usize) -> Range<usize> {
        let gpus = &self.stock.rows[row].gpus;
        gpus.start as usize..gpus.end as usize
    }

    /// How many GPUs of a model are free; the model by its fingerprint.
    pub(crate) fn free_gpus(&self, row: usize, model: u64) -> u64 {
        let of_model = |gpu: &&[u64; GpuFact::COUNT]| gpu[GpuFact::Model as usize] == model;
        let gpu = self.stock.gpus[self.gpus(row)].iter().find(of_model);
        gpu.map_or(0, |gpu| gpu[GpuFact::Count as usize])
    }

    /// A pool, and what is free of it.
    pub(crate) fn pool(&self, row: usize) -> (&Pool, &PoolRow) {
        (&self.ad.body.pools[row], &self.ad.header.rows[row])
    }
}

impl Stock {
    fn new(ad: &Ad) -> Self {
        let offers = || ad.body.pools.iter().zip(&ad.header.rows).take(POOLS);
        let (mut prices, mut gpus, mut rows) = (Vec::<Tariff>::new(), Vec::new(), Vec::new());
        let mut columns = vec![UNSAID; PoolFact::COUNT * offers().count()];
        for (n, (pool, row)) in offers().enumerate() {
            let mut others = ad.header.rows.iter().zip(&rows);
            let same = others.find(|(other, _)| other.price == row.price);
            let price = same.map_or(prices.len(), |(_, same): (_, &Row)| same.price as usize);
            if price == prices.len() {
                prices.push(Tariff::new(&row.price));
            }
            prices[price].rows.add(n);
            let first = index(gpus.len());
            for (gpu, free) in sold(pool, row) {
                let mut facts = [UNSAID; GpuFact::COUNT];
                let said = of_gpu(gpu, free);
                said.into_iter().for_each(|(fact, said)| facts[fact as usize] = said.value().raw());
                facts[GpuFact::AnyVariant as usize] = match any_variant(&gpu.model) {
                    name if name == gpu.model.as_str() => facts[GpuFact::Model as usize],
                    name => Value::word(&name).raw(),
                };
                gpus.push(facts);
            }
            for (fact, said) in of_pool(pool, row) {
                columns[fact as usize * offers().count() + n] = said.value().raw();
            }
            rows.push(Row { price: index(price), gpus: first..index(gpus.len()) });
        }
        Self { prices, columns, rows, gpus }
    }
}

impl Tariff {
    fn new(price: &Price) -> Self {
        let mut tariff = Self {
            rows: PoolSet::default(),
            currency: None,
            cpu: None,
            memory: None,
            pods: None,
            gpus: Vec::new(),
        };
        if let Price::Posted { currency, units } = price {
            tariff.currency = Some(*currency);
            for (resource, unit) in units {
                match resource {
                    Resource::Cpu => tariff.cpu = Some(*unit),
                    Resource::Memory => tariff.memory = Some(*unit),
                    Resource::Pods => tariff.pods = Some(*unit),
                    Resource::Gpu(model) => tariff.gpus.push((fingerprint(model), *unit)),
                }
            }
        }
        tariff
    }

    /// What one unit costs; none, in another currency. What is free, or has no line of its
    /// own, costs nothing.
    #[inline]
    fn unit(&self, priced: Priced, wanted: Currency, model: u64) -> Option<Value> {
        let unit = match priced {
            Priced::Cpu => self.cpu,
            Priced::Memory => self.memory,
            Priced::Pods => self.pods,
            Priced::Gpu => self.gpu(model),
        };
        let value =
            unit.map_or(Value::price(0, 1), |unit| Value::price(unit.micros, unit.period_s));
        self.currency.is_none_or(|currency| currency == wanted).then_some(value)
    }

    fn gpu(&self, model: u64) -> Option<UnitPrice> {
        self.gpus.iter().find(|(of, _)| *of == model).map(|(_, unit)| *unit)
    }

    /// What all of it costs: the same as [`Price::total`], without a look at the far away
    /// price itself.
    pub(super) fn total(&self, used: &Used) -> Result<Option<Money>, PriceError> {
        let Some(currency) = self.currency else { return Ok(None) };
        let line = |sum: u64, (resource, model, counter): &(Resource, u64, u64)| {
            let unit = match resource {
                Resource::Cpu => self.cpu,
                Resource::Memory => self.memory,
                Resource::Pods => self.pods,
                Resource::Gpu(_) => self.gpu(*model),
            };
            let line = unit.map_or(Ok(0), |unit| unit.line(resource, *counter))?;
            sum.checked_add(line).ok_or(PriceError::Overflow)
        };
        let micros = used.0.iter().try_fold(0, line)?;
        Ok(Some(Money { micros, currency }))
    }
}

/// What is claimed: the fingerprint of its name, and its value.
fn named(claim: &Claim) -> (u64, Value) {
    (Value::word(claim.name.as_str()).raw(), Value::word(&claim.value))
}

/// The fingerprint of a model.
pub(crate) fn fingerprint(model: &GpuModel) -> u64 {
    Value::word(model.as_str()).raw()
}

/// The GPUs of a pool that are really sold, and how many are free. The replicas of a
/// time-slice are not GPUs, whatever an advertisement says.
pub(crate) fn sold<'a>(
    pool: &'a Pool,
    row: &'a PoolRow,
) -> impl Iterator<Item = (&'a mercato_protocol::gpu::GpuPool, u64)> {
    let whole = pool.gpus.iter().filter(|gpu| !matches!(gpu.mode, GpuMode::Timeslice { .. }));
    whole.map(|gpu| (gpu, row.free.gpus.get(&gpu.model).copied().unwrap_or(0)))
}

/// An advertisement is of 16 KiB, so that nothing in it is counted in billions.
fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
