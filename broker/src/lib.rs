//! What to offer, buy, lease and bill, as one value: inputs go in, effects come out.
//!
//! The order book, the selectors that it is asked with and its ranking, what this cluster offers under its owner's policy,
//! the ledger of capacity, both sides of a negotiation, leases, metering, and whom the
//! owner trusts. Finding peers, spreading advertisements and running pods are left to
//! other crates; opening what peers sent, to the caller.

mod broker;
mod catalogue;
pub mod config;
pub mod deal;
pub mod limits;
mod sale;
pub mod selector;
pub mod syntax;

pub use broker::Broker;
pub use broker::command::{Command, Refusal, Reply};
pub use broker::effect::{Desired, Effect, LeaseSpec};
pub use broker::input::{Affiliation, Input, Inventory, Membership, PoolInventory};
pub use broker::record::{Record, RecordKey};
pub use broker::view::{Line, Statement};
pub use catalogue::book::{Candidate, Excluded, Market, Miss};
pub use catalogue::demand::{Demand, Exclusion, Rate};
pub use catalogue::party::{ParsePartyError, Party};
pub use catalogue::rank::Sort;
pub use catalogue::trust::Standing;
pub use config::Config;
pub use deal::amendment::Change;
pub use deal::{Agreement, Deal, Side, Stage};
pub use sale::policy::{Amount, Approve, BuyPolicy, SharePolicy, ShareRule};
pub use sale::size;
pub use selector::Selector;
