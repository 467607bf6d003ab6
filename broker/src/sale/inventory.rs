//! What the cluster has: nodes of one kind each, and what is asked of them. What of it is for
//! sale is the offer's.

use mercato_protocol::gpu::GpuPool;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::Platform;

/// What the cluster has, and what home itself asks of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Nodes of one shape each.
    pub pools: Vec<PoolInventory>,
}

/// Nodes of one platform and one kind of GPU, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolInventory {
    /// Processor and operating system of the nodes.
    pub platform: Platform,
    /// What pods may ask for in all.
    pub allocatable: Resources,
    /// What home's own pods ask for. Guests are not in it: the ledger knows them.
    pub requested: Resources,
    /// The largest single pod that fits now.
    pub largest_pod: Resources,
    /// The GPUs, their count over all nodes.
    pub gpus: Vec<GpuPool>,
}
