//! One advertisement as it lies in the book: beside what was sent, every fact that a
//! selector can ask for, flat and in fixed places, what pools say in columns, so that a
//! search of a million offers reads little memory, in its order, and no text.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use mercato_protocol::ad::{Ad, Assurance, Attribute as Claim, Pool, PoolRow};
use mercato_protocol::gpu::{GpuMode, GpuPool, any_variant, part};
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::limits::POOLS;
use mercato_protocol::time::Now;

use super::context::ProviderFacts;
use super::pool_set::PoolSet;
use super::tariff::Tariff;
use crate::sale::says_share;
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
    /// What else there is to each kind of GPU.
    kinds: Vec<Kind>,
    /// The pools that say such shares.
    with_shares: PoolSet,
}

/// What no term asks of one kind of GPU.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// The processors and the memory that come with one.
    share: (u64, u64),
    /// Whether others have the same device at the same time, and nothing but software between.
    is_shared: bool,
}

/// Where what else a pool says is found.
#[derive(Clone, Debug)]
struct Row {
    /// Which of the listing's prices.
    price: u32,
    gpus: Range<u32>,
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

    /// The kinds of GPUs of a pool that somebody means who asks for a name; by its fingerprint.
    #[inline]
    pub(super) fn meant(&self, row: usize, name: u64) -> impl Iterator<Item = usize> {
        let is_meant = move |kind: &usize| {
            let gpu = &self.stock.gpus[*kind];
            gpu[GpuFact::Model as usize] == name || gpu[GpuFact::AnyVariant as usize] == name
        };
        self.gpus(row).filter(is_meant)
    }

    /// How many GPUs of a name are free, of the kind that has most; the name by its fingerprint.
    pub(super) fn free_gpus(&self, row: usize, name: u64) -> u64 {
        let free = self.meant(row, name).map(|kind| self.gpu_fact(kind, GpuFact::Count));
        free.max().unwrap_or(0)
    }

    /// What one kind of GPU says.
    #[inline]
    pub(super) fn gpu_fact(&self, kind: usize, fact: GpuFact) -> u64 {
        self.stock.gpus[kind][fact as usize]
    }

    /// One kind of GPU of a pool as it was sent, and how many are free.
    pub(super) fn gpu(&self, row: usize, kind: usize) -> Option<(&GpuPool, u64)> {
        let nth = kind.checked_sub(self.gpus(row).start)?;
        let (pool, free) = self.pool(row);
        sold(pool, free).nth(nth)
    }

    /// The processors and the memory that come with one of a kind of GPU.
    pub(super) fn share(&self, kind: usize) -> (u64, u64) {
        self.stock.kinds[kind].share
    }

    /// Whether others have the same device of that kind, in turns or in shares.
    pub(super) fn is_shared(&self, kind: usize) -> bool {
        self.stock.kinds[kind].is_shared
    }

    /// The pools of which processors and memory come with GPUs alone.
    pub(super) fn rows_with_shares(&self) -> PoolSet {
        self.stock.with_shares
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
        let (mut kinds, mut with_shares) = (Vec::new(), PoolSet::default());
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
                let share = (gpu.cpu_millis_per_unit, gpu.memory_bytes_per_unit);
                kinds.push(Kind { share, is_shared: is_shared(gpu) });
            }
            if says_share(&pool.gpus) {
                with_shares.add(n);
            }
            for (fact, said) in of_pool(pool, row) {
                columns[fact as usize * offers().count() + n] = said.value().raw();
            }
            rows.push(Row { price: index(price), gpus: first..index(gpus.len()) });
        }
        Self { prices, columns, rows, gpus, kinds, with_shares }
    }
}

/// What is claimed: the fingerprint of its name, and its value.
fn named(claim: &Claim) -> (u64, Value) {
    (Value::word(claim.name.as_str()).raw(), Value::word(&claim.value))
}

/// Whether others have the same device, in turns or in shares.
fn is_shared(gpu: &GpuPool) -> bool {
    matches!(gpu.mode, GpuMode::Timeslice { .. } | GpuMode::Mps { .. })
}

/// The GPUs of a pool that are really sold, and how many are free. Shared devices have the name of
/// a part, as `t4.ts4`: under that of a whole one they are no GPUs, whatever an advertisement says.
pub(crate) fn sold<'a>(
    pool: &'a Pool,
    row: &'a PoolRow,
) -> impl Iterator<Item = (&'a GpuPool, u64)> {
    let sold = pool.gpus.iter().filter(|gpu| !is_shared(gpu) || part(&gpu.model).is_some());
    sold.map(|gpu| (gpu, row.free.gpus.get(&gpu.model).copied().unwrap_or(0)))
}

/// An advertisement is of 16 KiB, so that nothing in it is counted in billions.
fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
