//! The capacity ledger: what is sellable, and what is held or committed of it.
//!
//! It has no memory of its own: it is what the deals say, so that a deal and its claim
//! on capacity are written in one transaction. Advertisements derive from it.

use std::collections::BTreeMap;

use mercato_protocol::ad::Pool;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::text::{GpuModel, PoolId};

use crate::deal::Deal;
use crate::offer::Sellable;

/// What is sellable and what is taken, by pool.
#[derive(Debug)]
pub(crate) struct Ledger<'a> {
    sellable: &'a Sellable,
    taken: BTreeMap<PoolId, Resources>,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new<'d>(
        sellable: &'a Sellable,
        deals: impl IntoIterator<Item = &'d Deal>,
    ) -> Self {
        let mut taken: BTreeMap<PoolId, Resources> = BTreeMap::new();
        for deal in deals.into_iter().filter(|deal| deal.takes_capacity()) {
            let terms = &deal.request.terms;
            let sum = taken.entry(terms.pool.clone()).or_default();
            *sum = sum.checked_add(&terms.quantity).unwrap_or_else(|_| everything());
        }
        Self { sellable, taken }
    }

    /// What is left of a pool, on every counter.
    pub(crate) fn free(&self, pool: &Pool) -> Resources {
        let Some(sellable) = self.sellable.pools.get(&pool.id) else {
            return Resources::default();
        };
        let none = Resources::default();
        let taken = self.taken.get(&pool.id).unwrap_or(&none);
        let mut free = sellable.saturating_sub(taken);
        for (model, count) in &mut free.gpus {
            *count = (*count).min(shared_left(pool, model, sellable, taken));
        }
        free.gpus.retain(|_, count| *count > 0);
        free
    }

    /// The first resource of which a pool has less than `quantity` left.
    pub(crate) fn shortage(&self, pool: &Pool, quantity: &Resources) -> Option<Resource> {
        quantity.shortage(&self.free(pool)).or_else(|| shared_shortage(pool, quantity, self))
    }
}

/// Units that are cut out of the same devices count against each other, each as a
/// device: where a unit will land is not known here, and it may spoil a whole one.
fn shared_left(pool: &Pool, model: &GpuModel, sellable: &Resources, taken: &Resources) -> u64 {
    let sharers = sharers(pool, model);
    let count = |of: &Resources, model: &GpuModel| of.gpus.get(model).copied().unwrap_or(0);
    let devices = sharers.iter().map(|model| count(sellable, model)).filter(|n| *n > 0).min();
    let used: u64 = sharers.iter().map(|model| count(taken, model)).sum();
    devices.map_or(u64::MAX, |devices| devices.saturating_sub(used))
}

/// A purchase of several models that share devices must fit them together.
fn shared_shortage(pool: &Pool, quantity: &Resources, ledger: &Ledger<'_>) -> Option<Resource> {
    let free = ledger.free(pool);
    quantity.gpus.keys().find_map(|model| {
        let sharers = sharers(pool, model);
        let asked: u64 = sharers.iter().filter_map(|model| quantity.gpus.get(*model)).sum();
        let left = sharers.iter().filter_map(|model| free.gpus.get(*model)).min();
        let short = sharers.len() > 1 && asked > left.copied().unwrap_or(0);
        short.then(|| Resource::Gpu(model.clone()))
    })
}

/// The models that share a counter with `model`; none if it shares none.
fn sharers<'p>(pool: &'p Pool, model: &GpuModel) -> Vec<&'p GpuModel> {
    let own = pool.gpus.iter().find(|gpu| gpu.model == *model);
    let Some(counter) = own.and_then(|gpu| gpu.shared_counter.as_ref()) else {
        return Vec::new();
    };
    let shares = pool.gpus.iter().filter(|gpu| gpu.shared_counter.as_ref() == Some(counter));
    shares.map(|gpu| &gpu.model).collect()
}

/// More than any pool has: a sum that overflows leaves nothing free.
fn everything() -> Resources {
    Resources { cpu_millis: u64::MAX, memory_bytes: u64::MAX, pods: u64::MAX, ..Default::default() }
}
