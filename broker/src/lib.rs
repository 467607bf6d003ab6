//! What to offer, buy, lease and bill, as one value: inputs go in, effects come out.
//!
//! The order book, the selectors that it is asked with and its ranking, what this cluster offers
//! under its owner's policy, the ledger of capacity, both sides of a negotiation, leases,
//! metering, and whom the owner trusts. Finding peers, spreading advertisements and running pods are left to
//! other crates; opening what peers sent, to the caller.

mod broker;
mod burst;
mod catalogue;
pub mod config;
mod deal;
pub mod limits;
mod sale;
pub mod selector;
pub mod syntax;

pub use broker::{
    Broker, BurstsNow, BurstsOf, Command, Effect, Input, LeaseSpec, Record, RecordKey, Refusal,
    Reply, burst_of, bursts_now, limit, shared,
};
pub use burst::{
    BurstNews, BurstWord, NodeChoice, NodeFact, NodeTerm, NodeUse, PodDemand, Shape, WaitingPod,
};
pub use catalogue::{
    Affiliation, Budget, BurstPolicy, BuyPolicy, Candidate, CountryOf, Demand, Excluded, Exclusion,
    Known, Market, Membership, Miss, Noun, ParsePartyError, Party, Sort, Standing, Unknown,
};
pub use config::Config;
pub use deal::{
    Agreement, Agreements, Amendment, Bill, BurstKey, Closing, Deal, Desired, Dispute, End,
    EndCause, EndReason, Ending, Facts, Lease, Leaving, Line, Mark, Meter, Otherwise, Provisioned,
    RULES, Rules, Settlement, Side, SignedInvoice, SignedReceipt, Stage, Statement, WORDS, Word,
    ending,
};
pub use sale::{
    Approve, DevicePolicy, EgressPolicy, Inventory, PoolInventory, SharePolicy, ShareRule,
    StorageClass, StoragePolicy, Unsold, size,
};
pub use selector::Selector;
pub use syntax::{Amount, Rate};
