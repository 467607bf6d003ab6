//! The invoice: what a lease that is over comes to, signed by both. Paying it is left to
//! others.

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, Message, ensure, wire_enum, wire_map};
use crate::envelope::{Bilateral, Payload};
use crate::id::{ClusterId, ContractId, Digest, PublicKey};
use crate::limits;
use crate::negotiation::CloseReason;
use crate::price::Money;

/// The last receipt less credits. The provider signs it, the consumer countersigns the same
/// bytes, or disputes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Invoice {
    /// The contract that is billed.
    pub contract: ContractId,
    /// The cluster that has sold.
    pub provider: ClusterId,
    /// The cluster that has bought.
    pub consumer: ClusterId,
    /// For which reason the lease has ended.
    pub closed: CloseReason,
    /// The reclaim notice, if one was given.
    pub notice: Option<Notice>,
    /// The payload of the last receipt: it ends when the lease did.
    pub receipt: Digest,
    /// The amount of the last receipt; none when free.
    pub amount: Option<Money>,
    /// What is taken off the sum, and why.
    pub credits: Vec<Credit>,
    /// What is left to pay; none when free.
    pub due: Option<Money>,
}

/// That capacity is taken back. Wall clock, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// When notice was given, in milliseconds of Unix time.
    pub given_ms: u64,
    /// When the lease ends by it, in milliseconds of Unix time.
    pub until_ms: u64,
}

/// A sum that is taken off a bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credit {
    /// What the sum makes up for.
    pub kind: CreditKind,
    /// How much is taken off.
    pub amount: Money,
}

/// What a credit is for: a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CreditKind {
    /// Less of the term was provided than the contract promises.
    Availability,
    /// Less notice was given than the contract promises.
    ReclaimNotice,
}

impl Message for Invoice {
    const MAX_BYTES: usize = limits::RECEIPT_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        let ahead = self.notice.is_none_or(|notice| notice.given_ms <= notice.until_ms);
        ensure(ahead, "a notice of what is over")?;
        let currency = self.amount.map(|amount| amount.currency);
        let same = self.credits.iter().all(|credit| Some(credit.amount.currency) == currency);
        ensure(same, "a credit in another currency")?;
        let credits = self.credits.iter().map(|credit| credit.amount.micros);
        let credits = credits.fold(0, u64::saturating_add);
        let due = self.amount.map(|a| Money { micros: a.micros.saturating_sub(credits), ..a });
        let covered = credits <= self.amount.map_or(0, |amount| amount.micros);
        ensure(covered && due == self.due, "the sum is wrong")
    }
}

impl Payload for Invoice {
    const TYPE: &'static str = "invoice";

    fn may_sign(&self, _: &PublicKey, cluster: Option<ClusterId>) -> bool {
        [self.provider, self.consumer].map(Some).contains(&cluster)
    }
}

impl Bilateral for Invoice {
    fn parties(&self) -> (ClusterId, ClusterId) {
        (self.provider, self.consumer)
    }
}

wire_map!(Invoice {
    1 => contract,
    2 => provider,
    3 => consumer,
    4 => closed,
    5 => notice,
    6 => receipt,
    7 => amount,
    8 => credits,
    9 => due,
});
wire_map!(Notice { 1 => given_ms, 2 => until_ms });
wire_map!(Credit { 1 => kind, 2 => amount });
wire_enum!(CreditKind { 0 => Availability, 1 => ReclaimNotice });
