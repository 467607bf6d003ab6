//! What is sold, from what the cluster has and what its owner shares; and the terms
//! that an offer means, which both sides derive alike, so that agreement is equality.
//!
//! Nothing is sold unless guests are kept apart on the network, or the policy says that
//! they are not. When to publish is the publisher's.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::ad::{AdBody, AdHeader, Goods, OfferTerms, Pool, PoolRow};
use mercato_protocol::codec::Message as _;
use mercato_protocol::contract::Terms;
use mercato_protocol::egress::Egress;
use mercato_protocol::gpu::GpuPool;
use mercato_protocol::id::{ClusterId, Digest};
use mercato_protocol::limits::{AD_BODY_BYTES, AD_HEADER_BYTES, ADDRESSES, POOLS};
use mercato_protocol::price::Price;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{Class, Isolation, NetworkIsolation, OnDisconnect, PodSecurity};
use mercato_protocol::text::{GpuModel, PoolId};

use super::enforced::Enforced;
use super::family;
use super::inventory::{Inventory, PoolInventory};
use super::policy::SharePolicy;
use super::size;
use super::storage;
use crate::config::Config;
use crate::limits;
use crate::syntax::Amount;

const MI: u64 = 1 << 20;
const GI: u64 = 1 << 30;
const TI: u64 = 1 << 40;

/// Exactly what may be promised, by pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sellable {
    /// Without storage, which is no pool's.
    pub(crate) pools: BTreeMap<PoolId, Resources>,
    /// Bytes of storage, of all pools together.
    pub(crate) storage: u64,
}

impl Sellable {
    /// What all pools and the cluster have together.
    pub(crate) fn all(&self) -> Resources {
        let storage = Resources { storage_bytes: self.storage, ..Resources::default() };
        self.pools.values().fold(storage, |sum, more| sum.checked_add(more).unwrap_or(sum))
    }
}

/// What is on sale, and its advertisement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) sellable: Sellable,
    pub(crate) body: AdBody,
    pub(crate) price: Price,
}

impl Offer {
    /// None if there is nothing to sell.
    pub(crate) fn new(
        config: &Config,
        policy: &SharePolicy,
        inventory: &Inventory,
        addresses: &[String],
        enforced: Enforced,
    ) -> Option<Self> {
        // Who may do as root on the node's kernel is kept apart by no rule.
        let is_enforced = enforced.isolation && policy.pod_security != PodSecurity::Privileged;
        if policy.network_isolation == NetworkIsolation::Required && !is_enforced {
            return None;
        }
        let pools = sellable(policy, inventory);
        let storage = storage::for_sale(policy.amounts.get(&Resource::Storage), &inventory.storage);
        let models: BTreeSet<_> = pools.values().flat_map(|(_, sold)| sold.gpus.keys()).collect();
        // Of more lines than a price has, the last models would be free of charge.
        let price = family::price(&policy.price, models)?;
        if pools.is_empty() {
            return None;
        }
        let body = AdBody {
            identity: config.identity.clone(),
            jurisdiction: config.jurisdiction.clone(),
            region: config.region.clone(),
            attributes: config.attributes.clone(),
            carbon_g_per_kwh: config.carbon_g_per_kwh,
            addresses: addresses.iter().take(ADDRESSES).cloned().collect(),
            storage_classes: policy.storage.said(storage),
            services: Vec::new(),
            isolation: vec![Isolation::Runc],
            network_isolation: policy.network_isolation,
            pod_security: policy.pod_security,
            pools: pools
                .iter()
                .map(|(id, (pool, sold))| advertised(id, pool, sold, storage))
                .collect(),
            terms: OfferTerms {
                classes: vec![policy.class],
                min_term_s: limits::MIN_TERM_S.min(policy.max_term_s),
                max_term_s: policy.max_term_s,
                reclaim_notice_s: policy.reclaim_notice_s,
                metering_interval_s: config.metering_interval_s,
            },
            rotations: config.rotations.clone(),
            certificates: Vec::new(),
            // Where guests are not closed, their network keeps them to it as far as it does to anything.
            egress: policy
                .egress
                .offer()
                .filter(|_| enforced.egress || policy.network_isolation == NetworkIsolation::None),
        };
        let pools = pools.into_iter().map(|(id, (_, sold))| (id, sold)).collect();
        Some(Self { sellable: Sellable { pools, storage }, body, price })
    }

    /// Leaves out the last pools, as far as they do not fit into an advertisement: nobody can
    /// order of them.
    pub(crate) fn fit(&mut self, provider: ClusterId) {
        let rows = self.body.pools.iter().map(|pool| PoolRow {
            pool: pool.id.clone(),
            free: pool.total.clone(),
            price: self.price.clone(),
        });
        let mut longest = AdHeader {
            provider,
            epoch: u64::MAX,
            seq: u64::MAX,
            body: Digest([0; 32]),
            issued_ms: u64::MAX,
            ttl_s: u32::MAX,
            rows: rows.collect(),
        };
        let too_long = |body: &AdBody, header: &AdHeader| {
            body.encoded_len() > AD_BODY_BYTES || header.encoded_len() > AD_HEADER_BYTES
        };
        let count = self.body.pools.len();
        while too_long(&self.body, &longest) && self.body.pools.pop().is_some() {
            longest.rows.pop();
        }
        let left_out = count - self.body.pools.len();
        if left_out > 0 {
            tracing::debug!(left_out, "an advertisement has no room for all pools");
        }
    }

    /// A pool by its id.
    pub(crate) fn pool(&self, id: &PoolId) -> Option<&Pool> {
        self.body.pools.iter().find(|pool| pool.id == *id)
    }
}

/// So much of a pool, how firmly and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purchase<'a> {
    pub(crate) quantity: &'a Resources,
    pub(crate) class: Class,
    pub(crate) term_s: u64,
    pub(crate) egress: &'a Egress,
}

/// What a contract for so much of a pool says.
pub(crate) fn terms_of(body: &AdBody, pool: &Pool, price: &Price, purchase: Purchase<'_>) -> Terms {
    let Purchase { quantity, class, term_s, egress } = purchase;
    Terms {
        pool: pool.id.clone(),
        platform: pool.platform.clone(),
        quantity: quantity.clone(),
        class,
        price: price.clone(),
        term_s,
        isolation: body.isolation.first().copied().unwrap_or_default(),
        network_isolation: body.network_isolation,
        pod_security: body.pod_security,
        transit_hops: 0,
        on_disconnect: OnDisconnect::Keep,
        reclaim_notice_s: body.terms.reclaim_notice_s,
        sla: None,
        metering_interval_s: body.terms.metering_interval_s,
        dispute_tolerance_ppm: 0,
        egress: egress.clone(),
    }
}

type Pools<'a> = BTreeMap<PoolId, (&'a PoolInventory, Resources)>;

/// By pool, what home neither asks for nor keeps free, as far as the owner shares it.
/// What is kept free, and amounts, are of the whole cluster: pool after pool gives.
fn sellable<'a>(policy: &SharePolicy, inventory: &'a Inventory) -> Pools<'a> {
    let mut keep: BTreeMap<Resource, u64> = policy.keep_free.iter().collect();
    let mut given: BTreeMap<&Resource, u64> = BTreeMap::new();
    let mut pools = Pools::new();
    for pool in &inventory.pools {
        let idle = pool.allocatable.saturating_sub(&pool.requested);
        let spare = keep_back(&idle, &mut keep);
        let mut sold = Resources::default();
        let gpus_first =
            spare.iter().partition(|(resource, _)| matches!(resource, Resource::Gpu(_)));
        let (gpus, others): (Vec<_>, Vec<_>) = gpus_first;
        // Storage is no pool's.
        let counted = gpus.into_iter().chain(others).filter(|(it, _)| *it != Resource::Storage);
        for (resource, spare) in counted {
            let Some((line, amount)) = family::line(&policy.amounts, &resource) else { continue };
            let given = given.entry(line).or_default();
            let most = match amount {
                Amount::Percent(percent) => {
                    percent_of(pool.allocatable.quantity(&resource), *percent)
                }
                Amount::Exactly(n) => n.saturating_sub(*given),
            };
            let comes_with_gpus = size::most_with_gpus(&resource, &sold, &pool.gpus);
            let n = spare.min(most).min(comes_with_gpus);
            *given = given.saturating_add(n);
            put(&mut sold, resource, n);
        }
        if !sold.is_zero() && pools.len() < POOLS {
            pools.insert(pool.id.clone(), (pool, sold));
        }
    }
    pools
}

/// What is left of it when the owner's share is kept back, of which less is to be kept then.
fn keep_back(idle: &Resources, keep: &mut BTreeMap<Resource, u64>) -> Resources {
    let mut spare = Resources::default();
    for (resource, mut n) in idle.iter() {
        for (_, kept) in keep.iter_mut().filter(|(line, _)| resource.is_a(line)) {
            let back = n.min(*kept);
            *kept -= back;
            n -= back;
        }
        put(&mut spare, resource, n);
    }
    spare
}

fn percent_of(n: u64, percent: u8) -> u64 {
    let part = u128::from(n) * u128::from(percent.min(100)) / 100;
    u64::try_from(part).unwrap_or(n)
}

fn put(resources: &mut Resources, resource: Resource, n: u64) {
    match resource {
        Resource::Cpu => resources.cpu_millis = n,
        Resource::Memory => resources.memory_bytes = n,
        Resource::Pods => resources.pods = n,
        Resource::Storage => resources.storage_bytes = n,
        Resource::Gpu(_) if n == 0 => {}
        Resource::Gpu(model) => {
            resources.gpus.insert(model, n);
        }
    }
}

fn advertised(id: &PoolId, pool: &PoolInventory, sold: &Resources, storage: u64) -> Pool {
    let mut gpus: Vec<GpuPool> = pool
        .gpus
        .iter()
        .filter(|gpu| sold.gpus.contains_key(&gpu.model))
        .map(|gpu| GpuPool { count: bucket_gpus(sold_count(sold, &gpu.model)), ..gpu.clone() })
        .collect();
    gpus.sort_by(|a, b| a.model.cmp(&b.model));
    gpus.dedup_by(|a, b| a.model == b.model);
    Pool {
        id: id.clone(),
        goods: Goods::Compute,
        platform: pool.platform.clone(),
        total: bucket(&Resources { storage_bytes: storage, ..sold.clone() }),
        largest_pod: bucket(&at_most(&pool.largest_pod, sold)),
        gpus,
    }
}

fn sold_count(sold: &Resources, model: &GpuModel) -> u64 {
    sold.gpus.get(model).copied().unwrap_or(0)
}

pub(super) fn at_most(a: &Resources, most: &Resources) -> Resources {
    a.saturating_sub(&a.saturating_sub(most))
}

/// Rounded down to steps that say what a buyer needs, and no more. The steps are a guess.
pub(crate) fn bucket(exact: &Resources) -> Resources {
    let down = |n: u64, steps: [(u64, u64); 3]| {
        let step = steps.into_iter().find(|(below, _)| n < *below).map_or(1, |(_, step)| step);
        n - n % step
    };
    Resources {
        cpu_millis: down(exact.cpu_millis, [(4_000, 100), (32_000, 500), (u64::MAX, 4_000)]),
        memory_bytes: down(
            exact.memory_bytes,
            [(4 * GI, 64 * MI), (32 * GI, 512 * MI), (u64::MAX, 4 * GI)],
        ),
        pods: down(exact.pods, [(20, 1), (200, 10), (u64::MAX, 50)]),
        storage_bytes: down(
            exact.storage_bytes,
            [(32 * GI, GI), (TI, 16 * GI), (u64::MAX, TI / 4)],
        ),
        gpus: exact.gpus.iter().map(|(model, n)| (model.clone(), bucket_gpus(*n))).collect(),
    }
}

fn bucket_gpus(n: u64) -> u64 {
    if n < 8 { n } else { n - n % 4 }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::terms::Platform;

    use super::*;
    use crate::sale::{Approve, DevicePolicy};
    use crate::syntax::FromText as _;

    fn pool(model: &str, count: u64) -> PoolInventory {
        let gpu = GpuPool::whole(model.parse().unwrap(), count, 81_559);
        let has = Resources::from_text(&format!("cpu=64,pods=100,gpu.{model}={count}")).unwrap();
        PoolInventory {
            id: format!("amd64-{model}").parse().unwrap(),
            platform: Platform { arch: "amd64".parse().unwrap(), os: "linux".parse().unwrap() },
            allocatable: has.clone(),
            requested: Resources::default(),
            largest_pod: has,
            gpus: vec![gpu],
        }
    }

    fn inventory() -> Inventory {
        let part = "h100-80gb-sxm.1g.10gb";
        Inventory {
            pools: vec![pool("h100-80gb-pcie", 2), pool("h100-80gb-sxm", 8), pool(part, 7)],
            ..Inventory::default()
        }
    }

    fn policy(share: &[(&str, u64)], keep_free: &str) -> SharePolicy {
        let amounts = share.iter().map(|(line, n)| (line.parse().unwrap(), Amount::Exactly(*n)));
        SharePolicy {
            amounts: amounts.collect(),
            devices: DevicePolicy::default(),
            storage: Box::default(),
            egress: Box::default(),
            objects: None,
            keep_free: Resources::from_text(keep_free).unwrap(),
            price: Price::Free,
            class: Class::default(),
            network_isolation: NetworkIsolation::default(),
            pod_security: PodSecurity::default(),
            approve: Approve::default(),
            allow: BTreeSet::new(),
            rules: Vec::new(),
            reclaim_notice_s: 0,
            max_term_s: 1,
        }
    }

    fn sold(share: &[(&str, u64)], keep_free: &str) -> Vec<(String, u64)> {
        let (policy, inventory) = (policy(share, keep_free), inventory());
        let pools = sellable(&policy, &inventory);
        let gpus = pools.into_values().flat_map(|(_, sold)| sold.gpus);
        gpus.map(|(model, n)| (model.to_string(), n)).collect()
    }

    /// By what an earlier release reads of an owner who shares nothing any more.
    #[test]
    fn of_nothing_nothing_is_sold() {
        assert_eq!(sellable(&policy(&[], "cpu=0"), &inventory()).len(), 0);
    }

    #[test]
    fn a_pool_of_gpus_sells_processors_with_them_alone() {
        let mut inventory = inventory();
        for gpu in inventory.pools.iter_mut().flat_map(|pool| &mut pool.gpus) {
            gpu.cpu_millis_per_unit = 8_000;
        }
        let all = [("cpu", 1_000_000), ("pods", 1_000)];
        let none = sellable(&policy(&all, "cpu=1"), &inventory);
        assert!(none.is_empty(), "no GPU is shared: {none:?}");
        let with = [("gpu.h100-80gb-sxm", 2), ("cpu", 1_000_000), ("pods", 1_000)];
        let sold = sellable(&policy(&with, "cpu=1"), &inventory);
        let all: Vec<_> =
            sold.iter().map(|(id, (_, n))| (id.as_str(), n.cpu_millis, n.pods)).collect();
        assert_eq!(all, [("amd64-h100-80gb-sxm", 16_000, 100)], "of 64 processors");
    }

    #[test]
    fn a_familys_line_gives_of_all_its_models_together_and_never_parts() {
        let of = |model: &str, n: u64| (model.to_owned(), n);
        let both = [of("h100-80gb-pcie", 2), of("h100-80gb-sxm", 3)];
        assert_eq!(sold(&[("gpu.h100", 5)], "cpu=1"), both);
        let exact = [("gpu.h100", 5), ("gpu.h100-80gb-sxm", 1)];
        assert_eq!(sold(&exact, "cpu=1"), [of("h100-80gb-pcie", 2), of("h100-80gb-sxm", 1)]);
        let part = [of("h100-80gb-sxm.1g.10gb", 7)];
        assert_eq!(sold(&[("gpu.h100.1g.10gb", 9)], "cpu=1"), part);
        assert_eq!(sold(&[("gpu.h100", 9)], "gpu.h100=3"), [of("h100-80gb-sxm", 7)]);
    }
}
