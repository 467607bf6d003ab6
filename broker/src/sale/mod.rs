//! What this cluster sells: under which policy, out of what capacity, and how that is advertised.

mod devices;
mod family;
mod gpu_sharing;
mod inventory;
mod ledger;
mod offer;
mod pace;
mod policy;
mod publisher;
mod said;
pub mod size;
mod storage;
mod supply;

pub use devices::DevicePolicy;
pub use inventory::{Inventory, PoolInventory, Unsold};
pub use policy::{Approve, SharePolicy, ShareRule};
pub use storage::{StorageClass, StoragePolicy};

pub(crate) use family::may_mean;
pub(crate) use gpu_sharing::{is_kept, sharers};
pub(crate) use offer::{Purchase, terms_of};
pub(crate) use policy::{Buyer, certified_countries};
pub(crate) use publisher::{Announcement, Series};
pub(crate) use size::says_share;
pub(crate) use supply::{Growth, Shortage, Supply};
