//! The cluster's nodes and devices as the market knows them, and the owner's word on them as the
//! reader of nodes takes it.

use mercato_broker::{DevicePolicy, Inventory, PoolInventory, Unsold};
use mercato_kubelet::inventory::{self, OwnersWord, Pool, UnsoldDevices};

/// What the cluster has, for the broker.
pub(super) fn inventory(all: inventory::Inventory) -> Inventory {
    Inventory {
        pools: all.pools.into_iter().map(pool).collect(),
        unsold: all.unsold.into_iter().map(unsold).collect(),
    }
}

fn pool(pool: Pool) -> PoolInventory {
    let Pool { id, platform, nodes: _, allocatable, requested, largest_pod, gpus } = pool;
    PoolInventory { id, platform, allocatable, requested, largest_pod, gpus }
}

fn unsold(devices: UnsoldDevices) -> Unsold {
    let UnsoldDevices { nodes, of } = devices;
    let inventory::Unsold { resource, count, reason, line } = of;
    Unsold { resource, nodes, count, reason, line }
}

/// What the owner says of devices.
pub(super) fn word(said: &DevicePolicy) -> OwnersWord {
    let DevicePolicy { models, shared, any_node } = said.clone();
    OwnersWord { models, shared, any_node }
}
