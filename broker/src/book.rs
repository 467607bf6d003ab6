//! The order book: what others offer, and which of it suits a demand.

use mercato_protocol::id::ClusterId;
use mercato_protocol::price::Money;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::Class;
use serde::{Deserialize, Serialize};

/// What a buyer wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Demand {
    /// How much.
    pub quantity: Resources,
    /// How long, in seconds.
    pub term_s: u64,
    /// How firmly; none: whichever is offered.
    pub class: Option<Class>,
    /// The most that is paid.
    pub max_price: Option<Rate>,
    /// From this provider and no other.
    pub from: Option<ClusterId>,
}

/// Money for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// So much.
    pub amount: Money,
    /// For so many seconds; never zero.
    pub per_s: u32,
}
