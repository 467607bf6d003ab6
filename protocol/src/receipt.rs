//! The usage receipt: what a lease has cost so far, signed by both.

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, Message, ensure, wire_map};
use crate::envelope::{Bilateral, Payload};
use crate::id::{ClusterId, ContractId, Digest, PublicKey};
use crate::limits;
use crate::price::{Money, Usage};

/// Cumulative counters of one contract at the end of one window. The provider signs
/// it (a report), the consumer countersigns the same bytes (a receipt).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The contract under which it was used.
    pub contract: ContractId,
    /// The cluster that sells, and measures.
    pub provider: ClusterId,
    /// The cluster that buys, and countersigns.
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

impl Message for Receipt {
    const MAX_BYTES: usize = limits::RECEIPT_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        ensure(self.from_ms < self.to_ms, "a window of no time")?;
        self.usage.validate()?;
        ensure((self.index == 0) == self.previous.is_none(), "only the first follows none")
    }
}

impl Payload for Receipt {
    const TYPE: &'static str = "receipt";

    fn may_sign(&self, _: &PublicKey, cluster: Option<ClusterId>) -> bool {
        [self.provider, self.consumer].map(Some).contains(&cluster)
    }
}

impl Bilateral for Receipt {
    fn parties(&self) -> (ClusterId, ClusterId) {
        (self.provider, self.consumer)
    }
}

wire_map!(Receipt {
    1 => contract,
    2 => provider,
    3 => consumer,
    4 => index,
    5 => from_ms,
    6 => to_ms,
    7 => usage,
    8 => amount,
    9 => previous,
});
