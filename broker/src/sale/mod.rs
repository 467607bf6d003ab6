//! What this cluster sells: under which policy, out of what capacity, and how that is advertised.

pub(crate) mod gpu_sharing;
pub(crate) mod ledger;
pub(crate) mod offer;
pub(crate) mod policy;
pub(crate) mod publisher;
pub mod size;
