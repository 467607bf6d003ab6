//! What this cluster sells: under which policy, out of what capacity, and how that is advertised.

mod devices;
mod egress;
mod enforced;
mod family;
mod gpu_sharing;
mod inventory;
mod ledger;
mod offer;
mod pace;
mod policy;
mod publisher;
mod said;
mod shortage;
pub mod size;
mod storage;
mod supply;

pub use devices::DevicePolicy;
pub use egress::EgressPolicy;
pub use inventory::{Inventory, PoolInventory, Unsold};
pub use policy::{Approve, SharePolicy, ShareRule};
pub use storage::{StorageClass, StoragePolicy};

pub(crate) use enforced::Enforced;
pub(crate) use family::may_mean;
pub(crate) use gpu_sharing::{is_kept, sharers};
pub(crate) use offer::{Purchase, terms_of};
pub(crate) use policy::{Buyer, certified_countries};
pub(crate) use publisher::{Announcement, Series};
pub(crate) use shortage::{Growth, Shortage};
pub(crate) use size::says_share;
pub(crate) use supply::Supply;
