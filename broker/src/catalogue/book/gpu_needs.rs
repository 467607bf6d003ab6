//! The GPUs of a demand, and what is bought of a pool for them: a name may be that of a family, and
//! what is signed, priced and counted is a model of the pool's.

use mercato_protocol::resources::{Resource, Resources};

use super::listing::Listing;
use super::pool_set::PoolSet;
use super::tariff::Asked;
use crate::catalogue::demand::{Demand, Exclusion};
use crate::selector::{GpuFact, Term, Value};

/// What is asked for of GPUs, and how much beside.
pub(super) struct GpuNeeds<'a> {
    quantity: &'a Resources,
    /// In the order of their names.
    pub(super) asked: Vec<Asked<'a>>,
    /// The terms on GPUs, each with its bit.
    pub(super) terms: Vec<(u128, &'a Term)>,
    /// A term names the kinds of GPUs that are wanted.
    names_gpus: bool,
}

impl<'a> GpuNeeds<'a> {
    /// Those of a demand, without terms.
    pub(super) fn new(demand: &'a Demand) -> Self {
        Self {
            quantity: &demand.quantity,
            asked: Asked::all(&demand.quantity).collect(),
            terms: Vec::new(),
            names_gpus: demand.selector.terms().iter().any(Term::names_gpus),
        }
    }
}

impl GpuNeeds<'_> {
    /// The kind of a pool's GPUs that is bought for a name: one that has enough free, of those one
    /// that misses the fewest terms, and of those the cheapest. None: the pool has none of the name.
    pub(super) fn kind(&self, listing: &Listing, row: usize, asked: &Asked<'_>) -> Option<usize> {
        let mut meant = listing.meant(row, asked.name);
        let first = meant.next()?;
        let Some(second) = meant.next() else { return Some(first) };
        let tariff = listing.price(row);
        [first, second].into_iter().chain(meant).min_by_key(|kind| {
            let is_short = listing.gpu_fact(*kind, GpuFact::Count) < asked.count;
            let misses = self.missed_by(listing, row, *kind).count_ones();
            let unit = tariff.gpu(listing.gpu_fact(*kind, GpuFact::Model));
            let unit = unit.map_or(Value::price(0, 1), |it| Value::price(it.micros, it.period_s));
            (is_short, misses, unit)
        })
    }

    /// The models that are bought of a pool, by their fingerprints, in the order in which they were
    /// asked for; what a pool does not have stays as it was asked for.
    pub(super) fn models(&self, listing: &Listing, row: usize) -> Vec<u64> {
        let model = |asked| match self.kind(listing, row, asked) {
            Some(kind) => listing.gpu_fact(kind, GpuFact::Model),
            None => asked.name,
        };
        self.asked.iter().map(model).collect()
    }

    /// The first of these pools and all others of which the same models would be bought, and those
    /// models. None: there are no pools.
    pub(super) fn alike(&self, listing: &Listing, rows: PoolSet) -> Option<(PoolSet, Vec<u64>)> {
        let first = rows.iter().next()?;
        if self.asked.is_empty() {
            return Some((rows, Vec::new()));
        }
        let models = self.models(listing, first);
        let is_alike = |row| row == first || self.models(listing, row) == models;
        Some((rows.filter(is_alike), models))
    }

    /// What a contract would say that is bought of a pool.
    pub(super) fn bought(&self, listing: &Listing, row: usize) -> Resources {
        let model = |asked: &Asked<'_>| {
            let kind = self.kind(listing, row, asked);
            let gpu = kind.and_then(|kind| listing.gpu(row, kind));
            gpu.map_or_else(|| asked.model.clone(), |(gpu, _)| gpu.model.clone())
        };
        let mut bought = self.quantity.clone();
        bought.gpus = self.asked.iter().map(|asked| (model(asked), asked.count)).collect();
        bought
    }

    /// The terms on GPUs that a pool misses: all kinds that are bought must meet them; where none
    /// is asked for, any one of the pool's.
    pub(super) fn missed(&self, listing: &Listing, row: usize) -> u128 {
        if self.asked.is_empty() {
            return self.closest(listing, row).1;
        }
        let missed = self.asked.iter().map(|asked| match self.kind(listing, row, asked) {
            Some(kind) => self.missed_by(listing, row, kind),
            None => self.all_terms(),
        });
        missed.fold(0, |bits, missed| bits | missed)
    }

    /// The kind of GPU of a pool that misses the fewest terms, and which those are; none,
    /// and all of them, if there are no GPUs. Shared devices are for who names them.
    fn closest(&self, listing: &Listing, row: usize) -> (Option<usize>, u128) {
        let misses = |gpu| (Some(gpu), self.missed_by(listing, row, gpu));
        let is_meant = |gpu: &usize| self.names_gpus || !listing.is_shared(*gpu);
        let gpus = listing.gpus(row).filter(is_meant).map(misses);
        let closest = gpus.min_by_key(|(_, bits): &(_, u128)| bits.count_ones());
        closest.unwrap_or((None, self.all_terms()))
    }

    /// The kind of GPU of a pool that speaks for it where terms do not hold: of those that would be
    /// bought the one that misses most.
    pub(super) fn spokesman(&self, listing: &Listing, row: usize) -> Option<usize> {
        let kinds = self.asked.iter().filter_map(|asked| self.kind(listing, row, asked));
        let bought = kinds.max_by_key(|kind| self.missed_by(listing, row, *kind).count_ones());
        bought.or_else(|| self.closest(listing, row).0)
    }

    /// Whether no more processors and memory are asked for than come with the GPUs of a pool that
    /// says so: the same as [`check_share`](crate::sale::check_share), without a look at the far
    /// away pool itself.
    pub(super) fn is_in_share(&self, listing: &Listing, row: usize) -> bool {
        let (cpu, memory) = self.share(listing, row);
        self.quantity.cpu_millis <= cpu && self.quantity.memory_bytes <= memory
    }

    /// The processors and the memory that come with the GPUs that are asked for.
    fn share(&self, listing: &Listing, row: usize) -> (u64, u64) {
        let with = |asked: &Asked<'_>| {
            let kind = self.kind(listing, row, asked)?;
            let (cpu, memory) = listing.share(kind);
            Some((cpu.saturating_mul(asked.count), memory.saturating_mul(asked.count)))
        };
        self.asked.iter().filter_map(with).fold((0, 0), |(cpus, memories), (cpu, memory)| {
            (cpus.saturating_add(cpu), memories.saturating_add(memory))
        })
    }

    /// How more is asked for than comes with the GPUs of a pool.
    pub(super) fn beyond_share(&self, listing: &Listing, row: usize) -> Exclusion {
        let asked = self.quantity;
        if self.asked.is_empty() {
            let gpu = listing.gpus(row).next().and_then(|kind| listing.gpu(row, kind));
            let Some((gpu, _)) = gpu else { return Exclusion::Devices };
            return Exclusion::OnlyWithGpus {
                model: gpu.model.clone(),
                cpu_millis: gpu.cpu_millis_per_unit,
                memory_bytes: gpu.memory_bytes_per_unit,
            };
        }
        let (cpu, memory) = self.share(listing, row);
        let (resource, most) =
            if asked.cpu_millis > cpu { (Resource::Cpu, cpu) } else { (Resource::Memory, memory) };
        let asked = asked.quantity(&resource);
        Exclusion::BeyondShare { resource, most, asked }
    }

    fn all_terms(&self) -> u128 {
        self.terms.iter().fold(0, |bits, (bit, _)| bits | bit)
    }

    /// The terms that a kind of GPU misses.
    fn missed_by(&self, listing: &Listing, row: usize, gpu: usize) -> u128 {
        let missed = |(_, term): &&(u128, &Term)| {
            !term.holds(listing.gpu_values(term.attribute(), row, gpu))
        };
        self.terms.iter().filter(missed).fold(0, |bits, (bit, _)| bits | bit)
    }
}
