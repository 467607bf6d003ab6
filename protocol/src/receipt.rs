//! The usage receipt: what a lease has cost so far, signed by both.

use serde::{Deserialize, Serialize};

use crate::id::{ClusterId, ContractId, Digest};
use crate::price::{Money, Usage};

/// Cumulative counters of one contract at the end of one window. The provider signs
/// it (a report), the consumer countersigns the same bytes (a receipt).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Which contract.
    pub contract: ContractId,
    /// Who sells.
    pub provider: ClusterId,
    /// Who buys.
    pub consumer: ClusterId,
    /// Counts the windows, from zero.
    pub index: u64,
    /// The window's start, wall clock: the end of the previous one.
    pub from_ms: u64,
    /// The window's end, wall clock.
    pub to_ms: u64,
    /// Reserved quantity times time since the lease began.
    pub usage: Usage,
    /// What that costs in all; none when free.
    pub amount: Option<Money>,
    /// The payload of the previous receipt; none in the first.
    pub previous: Option<Digest>,
}
