//! The capacity ledger: what is sellable, and what is held or committed of it.
//!
//! It has no memory of its own: it is what the deals say, so that a deal and its claim
//! on capacity are written in one transaction. Advertisements derive from it.

use std::collections::BTreeMap;

use mercato_protocol::ad::Pool;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::text::PoolId;

use super::gpu_sharing::{capacity, is_kept, sharers};
use super::offer::Sellable;
use crate::deal::Deal;

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
        for deal in deals {
            let Some(promised) = deal.promised() else { continue };
            let sum = taken.entry(deal.terms().pool.clone()).or_default();
            *sum = sum.checked_add(&promised).unwrap_or_else(|_| everything());
        }
        Self { sellable, taken }
    }

    /// What is left of a pool, on every counter.
    pub(crate) fn free(&self, pool: &Pool) -> Resources {
        let (sellable, taken) = self.of(pool);
        let mut free = sellable.saturating_sub(taken);
        for (model, count) in &mut free.gpus {
            *count = (*count).min(capacity(&sharers(pool, model, sellable, taken), model));
        }
        free.gpus.retain(|_, count| *count > 0);
        free
    }

    /// The first resource of which a pool has less than `quantity` left. Kinds of GPUs
    /// that share devices must fit them together.
    pub(crate) fn shortage(&self, pool: &Pool, quantity: &Resources) -> Option<Resource> {
        let alone = quantity.shortage(&self.free(pool));
        let (sellable, taken) = self.of(pool);
        let Ok(with) = taken.checked_add(quantity) else { return alone.or(Some(Resource::Cpu)) };
        let together = || {
            let mut models = quantity.gpus.iter().filter(|(_, count)| **count > 0);
            models.find(|(model, _)| !is_kept(&sharers(pool, model, sellable, &with)))
        };
        alone.or_else(|| together().map(|(model, _)| Resource::Gpu(model.clone())))
    }

    /// The first resource of which more is promised than can be sold, among those of which `more`
    /// names any; GPUs that share devices must fit them together.
    pub(crate) fn overdrawn(&self, pool: &Pool, more: &Resources) -> Option<Resource> {
        let (sellable, taken) = self.of(pool);
        more.iter().filter(|(_, n)| *n > 0).map(|(resource, _)| resource).find(|resource| {
            let fits = taken.quantity(resource) <= sellable.quantity(resource);
            let is_kept = match resource {
                Resource::Gpu(model) => is_kept(&sharers(pool, model, sellable, taken)),
                Resource::Cpu | Resource::Memory | Resource::Pods => true,
            };
            !fits || !is_kept
        })
    }

    fn of(&self, pool: &Pool) -> (&Resources, &Resources) {
        const NONE: &Resources =
            &Resources { cpu_millis: 0, memory_bytes: 0, pods: 0, gpus: BTreeMap::new() };
        let sellable = self.sellable.pools.get(&pool.id).unwrap_or(NONE);
        (sellable, self.taken.get(&pool.id).unwrap_or(NONE))
    }
}

/// More than any pool has: a sum that overflows leaves nothing free.
fn everything() -> Resources {
    Resources { cpu_millis: u64::MAX, memory_bytes: u64::MAX, pods: u64::MAX, ..Default::default() }
}
