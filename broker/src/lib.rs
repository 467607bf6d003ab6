//! What to offer, buy, lease and bill, as one value: inputs go in, effects come out.
//!
//! The order book, the selectors that it is asked with and its ranking, what this cluster offers under its owner's policy,
//! the ledger of capacity, both sides of a negotiation, leases, metering, and whom the
//! owner trusts. Finding peers, spreading advertisements and running pods are left to
//! other rooms; opening what peers sent, to the caller.

mod archive;
mod book;
mod broker;
mod budget;
mod buyer;
pub mod change;
mod change_end;
pub mod command;
pub mod config;
pub mod deal;
mod demand;
mod early;
pub mod effect;
pub mod ending;
pub mod input;
mod keys;
mod ledger;
pub mod limits;
pub mod meter;
mod offer;
mod orders;
pub mod party;
mod policy;
mod publisher;
mod rank;
pub mod record;
mod reputation;
mod requests;
mod rounds;
pub mod selector;
mod seller;
mod shared;
pub mod size;
mod stage;
pub mod syntax;
mod talk;
mod timers;
pub mod trust;
pub mod view;

pub use book::{Candidate, Excluded, Market, Miss};
pub use broker::Broker;
pub use change::Change;
pub use command::{Command, Refusal, Reply};
pub use config::Config;
pub use deal::{Agreement, Deal, Side, Stage};
pub use demand::{Demand, Exclusion, Rate};
pub use effect::{Desired, Effect, LeaseSpec};
pub use input::{Affiliation, Input, Inventory, Membership, PoolInventory};
pub use party::{ParsePartyError, Party};
pub use policy::{Amount, Approve, BuyPolicy, SharePolicy, ShareRule};
pub use rank::Sort;
pub use record::{Record, RecordKey};
pub use selector::Selector;
pub use trust::Standing;
pub use view::{Line, Statement};
