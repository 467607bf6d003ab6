//! The cluster's nodes and devices as the market knows them, and the owner's word on them as the
//! reader of nodes takes it.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use mercato_broker::{DevicePolicy, Inventory, PoolInventory, StorageClass, StoragePolicy, Unsold};
use mercato_kubelet::guest::stream::Refused;
use mercato_kubelet::inventory::{
    self, OwnersWord, Pool, SharedStorage, StorageState, UnsoldDevices,
};
use mercato_offload::placement::{Binding, Taint};
use mercato_protocol::contract::Terms;
use mercato_protocol::kubelet_stream::{NodeFacts, RefusedReason};
use mercato_protocol::text::GpuModel;
use tokio::sync::watch;

use super::shared::Shared;

/// What the cluster has, for the broker. How guests find the nodes of each pool is kept for those who
/// make guests.
pub(super) fn inventory(
    shared: Arc<Shared>,
    word: watch::Receiver<OwnersWord>,
) -> BoxStream<'static, Inventory> {
    let all = inventory::watch(&shared.cluster, shared.sold.subscribe(), word);
    let told = move |all: inventory::Inventory| {
        let inventory::Inventory { pools, unsold, bindings, zones, left_out, storage } = all;
        tell(&shared.bindings, bindings);
        tell(&shared.zones, zones);
        tell(&shared.left_out, left_out);
        tell(&shared.storage_class, class_name(&storage));
        Inventory {
            pools: pools.into_iter().map(pool).collect(),
            unsold: unsold.into_iter().map(self::unsold).collect(),
            storage: class(storage),
        }
    };
    all.map(told).boxed()
}

/// Those who follow it hear of it if it is another.
fn tell<T: PartialEq>(told: &watch::Sender<Option<T>>, now: T) {
    let now = Some(now);
    told.send_if_modified(|known| {
        let is_new = *known != now;
        *known = now;
        is_new
    });
}

fn pool(pool: Pool) -> PoolInventory {
    let Pool { id, platform, nodes: _, allocatable, requested, largest_pod, gpus } = pool;
    PoolInventory { id, platform, allocatable, requested, largest_pod, gpus }
}

/// What guests' claims are made of; it never crosses.
fn class_name(state: &StorageState) -> Option<String> {
    match state {
        StorageState::There { class, .. } => Some(class.clone()),
        StorageState::Unknown | StorageState::Missing { .. } => None,
    }
}

fn class(state: StorageState) -> StorageClass {
    match state {
        StorageState::Unknown => StorageClass::Unknown,
        StorageState::There { told, .. } => StorageClass::There { told },
        StorageState::Missing { why, line } => StorageClass::Missing { why, line },
    }
}

fn unsold(devices: UnsoldDevices) -> Unsold {
    let UnsoldDevices { nodes, of } = devices;
    let inventory::Unsold { resource, count, reason, line } = of;
    Unsold { resource, nodes, count, reason, line }
}

/// What guests of these terms find on their nodes: nothing, where there is no node any more.
pub(super) fn node_facts(shared: &Shared, terms: &Terms) -> Result<NodeFacts, Refused> {
    let known = shared.bindings.borrow();
    let unavailable = || Refused::new(RefusedReason::Unavailable, "the nodes are being looked at");
    let known = known.as_ref().ok_or_else(unavailable)?;
    let Some(binding) = Binding::of(known, &terms.pool, &terms.quantity.gpus) else {
        return Ok(NodeFacts::default());
    };
    let bought = |(model, _): &(GpuModel, String)| terms.quantity.gpus.contains_key(model);
    let resources = binding.resources.into_iter().filter(bought).collect();
    Ok(NodeFacts { resources, ..binding.said.said() })
}

/// What the owner says of devices.
pub(super) fn word(said: &DevicePolicy) -> OwnersWord {
    let DevicePolicy { models, shared, any_node, tolerate, runtime_class } = said.clone();
    let taint = |text: &String| {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        Taint { key: key.to_owned(), value: value.to_owned() }
    };
    let tolerate = tolerate.iter().map(taint).collect();
    let storage = SharedStorage::Nothing;
    OwnersWord { models, shared, any_node, tolerate, runtime_class, storage }
}

/// Which class of storage the owner shares.
pub(super) fn storage(shared: Option<&StoragePolicy>) -> SharedStorage {
    match shared.map(|shared| shared.class.clone()) {
        Some(Some(name)) => SharedStorage::Class(name),
        Some(None) => SharedStorage::DefaultClass,
        None => SharedStorage::Nothing,
    }
}
