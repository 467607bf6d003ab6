//! What the cluster has: nodes of one kind each, and what is asked of them; and devices that cannot
//! be sold, with the reason. What of it is for sale is the offer's.

use mercato_protocol::gpu::GpuPool;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::Platform;
use mercato_protocol::text::PoolId;
use serde::{Deserialize, Serialize};

use super::storage::StorageClass;

/// What the cluster has, and what home itself asks of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Nodes of one shape each.
    pub pools: Vec<PoolInventory>,
    /// Devices that are in none of them.
    pub unsold: Vec<Unsold>,
    /// Whether the cluster has the class of storage that its owner shares.
    pub storage: StorageClass,
}

/// Devices that are not for sale, whatever the owner shares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unsold {
    /// What pods ask for, such as `nvidia.com/gpu`.
    pub resource: String,
    /// How many nodes have any.
    pub nodes: u64,
    /// How many the nodes list in all.
    pub count: u64,
    /// Why they are not sold.
    pub reason: String,
    /// What the owner may write to sell them, if that helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

/// Nodes of one platform and one kind of GPU, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolInventory {
    /// What contracts call it: the same for nodes of the same kind, whatever else there is.
    pub id: PoolId,
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
