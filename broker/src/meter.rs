//! Metering: cumulative reports and their countersignatures.

use mercato_protocol::envelope::Signed;
use mercato_protocol::receipt::Receipt;
use serde::{Deserialize, Serialize};

/// What was used of one lease, as far as it was reported and signed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meter {
    /// When the buyer said that it can use it, wall clock by this side: before it nothing
    /// accrues.
    pub(crate) started_ms: Option<u64>,
    /// When the lease ended, wall clock by this side.
    pub(crate) ended_ms: Option<u64>,
    /// The last receipt that both signed.
    pub(crate) signed: Option<SignedReceipt>,
    /// Provider: reported, not signed by the buyer yet.
    pub(crate) reported: Option<(Receipt, Signed<Receipt>)>,
}

/// A receipt and both signatures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedReceipt {
    /// What was signed.
    pub receipt: Receipt,
    /// By the provider.
    pub provider: Signed<Receipt>,
    /// By the consumer.
    pub consumer: Signed<Receipt>,
}
