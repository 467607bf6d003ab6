//! The capacity ledger: what is sellable, and what is held or committed of it.
//!
//! It has no memory of its own: it is what the deals say, so that a deal and its claim
//! on capacity are written in one transaction. Advertisements derive from it.

use std::collections::BTreeMap;

use mercato_protocol::ad::Pool;
use mercato_protocol::contract::Terms;
use mercato_protocol::gpu::is_a;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::text::PoolId;

use super::gpu_sharing::{capacity, is_kept, sharers};
use super::offer::Sellable;
use crate::deal::Deal;

/// What is sellable and what is taken, by pool; storage, which is the cluster's, beside them.
#[derive(Debug)]
pub(crate) struct Ledger<'a> {
    sellable: &'a Sellable,
    taken: BTreeMap<PoolId, Resources>,
    /// Bytes of storage that deals hold, whichever pools they are of. Of every deal once: a promise
    /// of an earlier name counts on several pools.
    stored: u64,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new<'d>(
        sellable: &'a Sellable,
        deals: impl IntoIterator<Item = &'d Deal>,
    ) -> Self {
        let mut taken: BTreeMap<PoolId, Resources> = BTreeMap::new();
        let mut stored: u64 = 0;
        for deal in deals {
            let Some(mut promised) = deal.promised() else { continue };
            stored = stored.saturating_add(std::mem::take(&mut promised.storage_bytes));
            for (pool, promised) in heirs(sellable, &deal.terms().pool, promised) {
                let sum = taken.entry(pool).or_default();
                *sum = sum.checked_add(&promised).unwrap_or_else(|_| everything());
            }
        }
        Self { sellable, taken, stored }
    }

    /// What is left of a pool, on every counter.
    pub(crate) fn free(&self, pool: &Pool) -> Resources {
        let (sellable, taken) = self.of(pool);
        let mut free = sellable.saturating_sub(taken);
        for (model, count) in &mut free.gpus {
            *count = (*count).min(capacity(&sharers(pool, model, sellable, taken), model));
        }
        free.gpus.retain(|_, count| *count > 0);
        free.storage_bytes = self.sellable.storage.saturating_sub(self.stored);
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
            let fits = match resource {
                Resource::Storage => self.stored <= self.sellable.storage,
                Resource::Cpu | Resource::Memory | Resource::Pods | Resource::Gpu(_) => {
                    taken.quantity(resource) <= sellable.quantity(resource)
                }
            };
            let is_kept = match resource {
                Resource::Gpu(model) => is_kept(&sharers(pool, model, sellable, taken)),
                Resource::Cpu | Resource::Memory | Resource::Pods | Resource::Storage => true,
            };
            !fits || !is_kept
        })
    }

    fn of(&self, pool: &Pool) -> (&Resources, &Resources) {
        const NONE: &Resources = &Resources {
            cpu_millis: 0,
            memory_bytes: 0,
            pods: 0,
            storage_bytes: 0,
            gpus: BTreeMap::new(),
        };
        let sellable = self.sellable.pools.get(&pool.id).unwrap_or(NONE);
        (sellable, self.taken.get(&pool.id).unwrap_or(NONE))
    }
}

/// The pools in which a promise counts, and what of it: its own, or those that have taken the place
/// of one of another name, as earlier releases had them. Of several each has to keep all of it: less
/// is sold then, and nothing twice.
fn heirs(sellable: &Sellable, pool: &PoolId, promised: Resources) -> Vec<(PoolId, Resources)> {
    if sellable.pools.contains_key(pool) {
        return vec![(pool.clone(), promised)];
    }
    let longer = |id: &PoolId| {
        let rest = id.as_str().strip_prefix(pool.as_str());
        rest.is_some_and(|rest| rest.starts_with(['-', '.']))
    };
    let has = |sold: &Resources| {
        let models = promised.gpus.keys();
        models.into_iter().any(|asked| sold.gpus.keys().any(|model| is_a(model, asked)))
    };
    let named = sellable.pools.keys().any(longer);
    let heir = |(id, sold): &(&PoolId, &Resources)| if named { longer(id) } else { has(sold) };
    let counted = |(id, sold): (&PoolId, &Resources)| {
        let mut quantity = Resources { gpus: BTreeMap::new(), ..promised.clone() };
        for (asked, count) in &promised.gpus {
            for model in sold.gpus.keys().filter(|model| is_a(model, asked)) {
                let sum: &mut u64 = quantity.gpus.entry(model.clone()).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        (id.clone(), quantity)
    };
    sellable.pools.iter().filter(heir).map(counted).collect()
}

/// Whether pools of other names have taken the place of that of these terms.
pub(crate) fn has_heirs(sellable: &Sellable, terms: &Terms) -> bool {
    !heirs(sellable, &terms.pool, terms.quantity.clone()).is_empty()
}

/// More than any pool has: a sum that overflows leaves nothing free.
fn everything() -> Resources {
    Resources { cpu_millis: u64::MAX, memory_bytes: u64::MAX, pods: u64::MAX, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::FromText as _;

    fn quantity(text: &str) -> Resources {
        Resources::from_text(text).unwrap()
    }

    #[test]
    fn a_promise_of_an_earlier_name_counts_on_every_pool_that_may_have_taken_its_place() {
        let pools = [
            ("amd64", "cpu=8"),
            ("amd64-h100-80gb-pcie", "cpu=64,gpu.h100-80gb-pcie=8"),
            ("amd64-h100-80gb-sxm", "cpu=64,gpu.h100-80gb-sxm=8"),
            ("amd64-h100-80gb-sxm.1g.10gb", "cpu=64,gpu.h100-80gb-sxm.1g.10gb=56"),
            ("amd64-l4", "cpu=8,gpu.l4=2"),
        ];
        let pools = pools.map(|(id, sold)| (id.parse().unwrap(), quantity(sold)));
        let sellable = Sellable { pools: pools.into(), storage: 0 };
        let counted = |pool: &str, promised: &str| {
            let heirs = heirs(&sellable, &pool.parse().unwrap(), quantity(promised));
            let shown = |(id, quantity): (PoolId, Resources)| (id.to_string(), quantity);
            heirs.into_iter().map(shown).collect::<Vec<_>>()
        };
        let of = |id: &str, text: &str| (id.to_owned(), quantity(text));
        assert_eq!(
            counted("amd64-h100", "cpu=4,gpu.h100=2"),
            [
                of("amd64-h100-80gb-pcie", "cpu=4,gpu.h100-80gb-pcie=2"),
                of("amd64-h100-80gb-sxm", "cpu=4,gpu.h100-80gb-sxm=2"),
                of("amd64-h100-80gb-sxm.1g.10gb", "cpu=4"),
            ]
        );
        assert_eq!(counted("amd64-l4", "gpu.l4=1"), [of("amd64-l4", "gpu.l4=1")]);
        // A pool that had a number for a name is found by what was bought of it.
        assert_eq!(counted("2-amd64-linux", "gpu.l4=1"), [of("amd64-l4", "gpu.l4=1")]);
        assert_eq!(counted("arm64", "cpu=4"), []);
    }
}
