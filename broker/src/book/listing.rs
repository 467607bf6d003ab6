//! One advertisement as it lies in the book: beside what was sent, every fact that a
//! selector can ask for, flat and in fixed places, so that a search of a million offers
//! reads little memory and no text.

use std::ops::{Range, RangeInclusive};

use mercato_protocol::ad::{Ad, Assurance, Pool, PoolRow};
use mercato_protocol::gpu::GpuMode;
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::price::{Currency, Price};
use mercato_protocol::resources::Resource;
use mercato_protocol::text::GpuModel;
use mercato_protocol::time::Now;

use super::search::Known;
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
    /// What the provider calls itself.
    pub(crate) name: String,
    /// One for each pool, in the advertisement's order.
    pub(crate) rows: Vec<Row>,
    /// Every price that it asks, once.
    pub(crate) prices: Vec<Tariff>,
    facts: [u64; AdFact::SINGLE],
    /// What is said more than once.
    sets: Vec<(AdFact, Value)>,
    claims: Vec<(u64, Value, Assurance)>,
    gpus: Vec<[u64; GpuFact::COUNT]>,
}

/// The facts of one pool.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    facts: [u64; PoolFact::COUNT],
    /// Which of the listing's prices.
    pub(crate) price: u32,
    gpus: Range<u32>,
}

/// A price by what it is for.
#[derive(Clone, Debug)]
pub(crate) struct Tariff {
    pub(crate) price: Price,
    /// None is for free.
    currency: Option<Currency>,
    cpu: Value,
    memory: Value,
    pods: Value,
    /// By the model's fingerprint.
    gpus: Vec<(u64, Value)>,
}

impl Listing {
    pub(crate) fn new(ad: Box<Ad>, name: String) -> Self {
        let (mut facts, mut sets) = ([UNSAID; AdFact::SINGLE], Vec::new());
        for (fact, said) in of_ad(&ad.body, &name) {
            match facts.get_mut(fact as usize) {
                Some(place) => *place = said.value().raw(),
                None => sets.push((fact, said.value())),
            }
        }
        let claims = ad.body.attributes.iter().map(|claim| {
            (Value::word(claim.name.as_str()).raw(), Value::word(&claim.value), claim.assurance)
        });
        let claims = claims.collect();
        let (mut prices, mut gpus, mut rows) = (Vec::<Tariff>::new(), Vec::new(), Vec::new());
        for (pool, row) in ad.body.pools.iter().zip(&ad.lease.rows) {
            let known = prices.iter().position(|known| known.price == row.price);
            let price = known.unwrap_or_else(|| {
                prices.push(Tariff::new(&row.price));
                prices.len() - 1
            });
            let first = index(gpus.len());
            for (gpu, free) in sold(pool, row) {
                let mut facts = [UNSAID; GpuFact::COUNT];
                let said = of_gpu(gpu, free);
                said.into_iter().for_each(|(fact, said)| facts[fact as usize] = said.value().raw());
                gpus.push(facts);
            }
            let facts = of_pool(pool, row).map(|(_, said)| said.value().raw());
            rows.push(Row { facts, price: index(price), gpus: first..index(gpus.len()) });
        }
        let terms_s = ad.body.terms.min_term_s..=ad.body.terms.max_term_s;
        let (provider, key, expires_ms) = (ad.lease.provider, ad.key, ad.lease.expires_ms());
        Self {
            ad,
            provider,
            key,
            expires_ms,
            terms_s,
            name,
            rows,
            prices,
            facts,
            sets,
            claims,
            gpus,
        }
    }

    pub(crate) fn is_over(&self, now: Now) -> bool {
        self.expires_ms <= now.wall_ms
    }

    /// Whether a term on the whole advertisement holds; `known` is what the buyer knows.
    pub(crate) fn ad_holds(&self, term: &Term, known: &Known<'_>) -> bool {
        match term.attribute() {
            Attribute::Ad(asked) => match self.facts.get(asked as usize) {
                Some(said) => term.holds(Value::of_raw(*said)),
                None => {
                    let said = self.sets.iter().filter(|(fact, _)| *fact == asked);
                    let said = said.map(|(_, value)| *value).chain(known.value(asked));
                    term.holds(said.chain(known.words(asked).map(Value::word)))
                }
            },
            Attribute::Claim { name, least } => {
                let said = self.claims.iter();
                let said = said.filter(|(claim, _, who)| *claim == name && *who >= least);
                term.holds(said.map(|(_, value, _)| *value))
            }
            Attribute::Pool(_) | Attribute::Gpu(_) | Attribute::Price(..) => true,
        }
    }

    /// What the advertisement says of itself, if that is one value.
    pub(crate) fn ad_value(&self, asked: AdFact) -> Option<Value> {
        self.facts.get(asked as usize).and_then(|said| Value::of_raw(*said))
    }

    /// Whether a term on a pool holds.
    #[inline]
    pub(crate) fn row_holds(&self, term: &Term, row: &Row) -> bool {
        term.holds(self.row_value(term.attribute(), row))
    }

    /// What a pool has to say to a term.
    #[inline]
    pub(crate) fn row_value(&self, attribute: Attribute, row: &Row) -> Option<Value> {
        match attribute {
            Attribute::Pool(fact) => Value::of_raw(row.facts[fact as usize]),
            Attribute::Price(priced, currency) => {
                self.prices[row.price as usize].unit(priced, currency, UNSAID)
            }
            Attribute::Ad(_) | Attribute::Claim { .. } | Attribute::Gpu(_) => None,
        }
    }

    /// What one kind of GPU has to say to a term.
    #[inline]
    pub(crate) fn gpu_value(&self, attribute: Attribute, row: &Row, gpu: usize) -> Option<Value> {
        let facts = &self.gpus[gpu];
        match attribute {
            Attribute::Gpu(fact) => Value::of_raw(facts[fact as usize]),
            Attribute::Price(priced, currency) => {
                let model = facts[GpuFact::Model as usize];
                self.prices[row.price as usize].unit(priced, currency, model)
            }
            Attribute::Ad(_) | Attribute::Claim { .. } | Attribute::Pool(_) => None,
        }
    }

    /// What a pool, or one kind of its GPUs, has to say to a term.
    pub(crate) fn value(
        &self,
        attribute: Attribute,
        row: &Row,
        gpu: Option<usize>,
    ) -> Option<Value> {
        match attribute {
            Attribute::Gpu(_) | Attribute::Price(Priced::Gpu, _) => {
                self.gpu_value(attribute, row, gpu?)
            }
            Attribute::Ad(_)
            | Attribute::Claim { .. }
            | Attribute::Pool(_)
            | Attribute::Price(..) => self.row_value(attribute, row),
        }
    }

    /// The kinds of GPUs of a pool.
    #[inline]
    pub(crate) fn gpus(&self, row: &Row) -> Range<usize> {
        row.gpus.start as usize..row.gpus.end as usize
    }

    /// How many GPUs of a model are free; the model by its fingerprint.
    pub(crate) fn free_gpus(&self, row: &Row, model: u64) -> u64 {
        let of_model = |gpu: &&[u64; GpuFact::COUNT]| gpu[GpuFact::Model as usize] == model;
        let gpu = self.gpus[self.gpus(row)].iter().find(of_model);
        gpu.map_or(0, |gpu| gpu[GpuFact::Count as usize])
    }

    /// A pool, and what is free of it.
    pub(crate) fn pool(&self, row: usize) -> (&Pool, &PoolRow) {
        (&self.ad.body.pools[row], &self.ad.lease.rows[row])
    }
}

impl Row {
    /// One of the numbers that every pool says.
    #[inline]
    pub(crate) fn number(&self, fact: PoolFact) -> u64 {
        self.facts[fact as usize]
    }
}

impl Tariff {
    /// What is free, or has no line of its own, costs nothing.
    fn new(price: &Price) -> Self {
        let nothing = Value::price(0, 1);
        let (cpu, memory, pods) = (nothing, nothing, nothing);
        let mut tariff =
            Self { price: price.clone(), currency: None, cpu, memory, pods, gpus: Vec::new() };
        if let Price::Posted { currency, units } = price {
            tariff.currency = Some(*currency);
            for (resource, unit) in units {
                let value = Value::price(unit.micros, unit.period_s);
                match resource {
                    Resource::Cpu => tariff.cpu = value,
                    Resource::Memory => tariff.memory = value,
                    Resource::Pods => tariff.pods = value,
                    Resource::Gpu(model) => tariff.gpus.push((fingerprint(model), value)),
                }
            }
        }
        tariff
    }

    /// What one unit costs; none, in another currency.
    #[inline]
    fn unit(&self, priced: Priced, wanted: Currency, model: u64) -> Option<Value> {
        let value = match priced {
            Priced::Cpu => self.cpu,
            Priced::Memory => self.memory,
            Priced::Pods => self.pods,
            Priced::Gpu => {
                let unit = self.gpus.iter().find(|(of, _)| *of == model);
                unit.map_or(Value::price(0, 1), |(_, value)| *value)
            }
        };
        self.currency.is_none_or(|currency| currency == wanted).then_some(value)
    }
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
