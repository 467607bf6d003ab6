//! What this cluster shares, has on sale, and has.

use std::collections::BTreeMap;

use mercato_broker::Inventory;
use mercato_protocol::ad::{Pool, PoolRow};

use super::{Driver, known};
use crate::admin::{Devices, OnSale, OwnGateway, Share};
use crate::doctor::Finding;
use crate::present::unsold::{self, device};

/// All of it; `ruled`: the MarketPolicy says what is shared.
pub(super) fn look(driver: &Driver, ruled: bool) -> Share {
    let broker = driver.agent().broker();
    let on_sale = broker.offer().map_or_else(Vec::new, |(body, rows)| {
        let row = |(pool, row): (&Pool, _)| {
            let PoolRow { free, price, .. } = row;
            OnSale { pool: pool.clone(), free, price }
        };
        body.pools.iter().zip(rows).map(row).collect()
    });
    let inventory = broker.inventory();
    let unsold = inventory.map(|it| it.unsold.clone()).unwrap_or_default();
    let devices = inventory.map(devices).unwrap_or_default();
    let storage = inventory.map(|it| it.storage.clone()).unwrap_or_default();
    let unknown = known::unknown(driver);
    let policy = broker.share().cloned();
    let enforces_egress = broker.enforces_egress();
    Share { policy, ruled, on_sale, unsold, storage, enforces_egress, devices, unknown }
}

/// What `mercato doctor` says of devices that are not sold, where something is shared.
pub(super) fn unsold_devices(driver: &Driver) -> Vec<Finding> {
    let broker = driver.agent().broker();
    let inventory = broker.inventory().filter(|_| broker.share().is_some());
    let unsold = inventory.into_iter().flat_map(|inventory| &inventory.unsold);
    unsold.map(|unsold| Finding::warn("devices", device(unsold))).collect()
}

/// What `mercato doctor` says of the class of storage that is shared.
pub(super) fn storage(driver: &Driver) -> Vec<Finding> {
    let broker = driver.agent().broker();
    let said = broker.inventory().zip(broker.share());
    let said = said.map(|(inventory, policy)| unsold::storage(policy, &inventory.storage));
    said.unwrap_or_default().into_iter().map(|said| Finding::warn("storage", said)).collect()
}

/// Why the storage that is shared is not on sale; none: it is, or none is shared.
pub(super) fn no_storage(driver: &Driver) -> Option<String> {
    let broker = driver.agent().broker();
    unsold::no_storage(broker.share()?, &broker.inventory()?.storage)
}

/// What `mercato doctor` says of a way out that is shared, and not on sale.
pub(super) fn egress(driver: &Driver, own: &OwnGateway) -> Vec<Finding> {
    no_egress(driver, own).into_iter().map(|said| Finding::warn("egress", said)).collect()
}

/// Why the way out that is shared is not on sale; none: it is, or none is shared.
pub(super) fn no_egress(driver: &Driver, own: &OwnGateway) -> Option<String> {
    let broker = driver.agent().broker();
    unsold::no_egress(broker.share()?, broker.enforces_egress(), own)
}

/// The GPUs of all pools, by model.
fn devices(inventory: &Inventory) -> Vec<Devices> {
    let mut all: BTreeMap<_, u64> = BTreeMap::new();
    for gpu in inventory.pools.iter().flat_map(|pool| &pool.gpus) {
        let sum = all.entry(gpu.model.clone()).or_default();
        *sum = sum.saturating_add(gpu.count);
    }
    all.into_iter().map(|(model, count)| Devices { model, count }).collect()
}
