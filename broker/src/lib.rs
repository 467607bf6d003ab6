//! What to offer, buy, lease and bill, as one value: inputs go in, effects come out.
//!
//! The order book and its ranking, what this cluster offers under its owner's policy,
//! the ledger of capacity, both sides of a negotiation, leases, metering, and whom the
//! owner trusts. Finding peers, spreading advertisements and running pods are left to
//! other rooms; opening what peers sent, to the caller.

pub mod book;
mod broker;
pub mod command;
pub mod config;
pub mod deal;
pub mod effect;
pub mod input;
pub mod limits;
pub mod meter;
pub mod policy;
pub mod record;
mod talk;
pub mod trust;

pub use broker::Broker;
pub use command::{Command, Refusal, Reply};
pub use config::Config;
pub use effect::{Desired, Effect, LeaseSpec};
pub use input::{Input, Inventory, PoolInventory};
pub use policy::{Amount, Approve, SharePolicy};
pub use record::{Record, RecordKey};
pub use trust::Standing;
