//! What a cluster has for sale, and what home's own pods ask of it.

use mercato_broker::{Inventory, PoolInventory, StorageClass};
use mercato_protocol::gpu::GpuPool;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::Platform;

/// One pool of all nodes, of which home's pods have requested this.
pub(super) fn inventory(has: &Resources, requested: Resources) -> Inventory {
    let slug = |text: &str| text.parse().expect("it has the form of a slug");
    let gpus = has.gpus.iter();
    let gpus = gpus.map(|(model, count)| GpuPool::whole(model.clone(), *count, 81_920));
    let name = has.gpus.keys().next().map_or("amd64".to_owned(), |model| format!("amd64-{model}"));
    let pool = PoolInventory {
        id: slug(&name),
        platform: Platform { arch: slug("amd64"), os: slug("linux") },
        allocatable: Resources { storage_bytes: 0, ..has.clone() },
        requested,
        largest_pod: Resources { storage_bytes: 0, ..has.clone() },
        gpus: gpus.collect(),
    };
    let storage = StorageClass::There { told: Vec::new() };
    Inventory { pools: vec![pool], storage, ..Inventory::default() }
}
