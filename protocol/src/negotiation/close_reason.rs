//! Why a lease ended, as both sides say it and as its invoice repeats it.

use serde::{Deserialize, Serialize};

use crate::codec::wire_enum;

/// Why a lease ended: a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CloseReason {
    /// The term of the contract is over.
    Expired,
    /// The consumer has cancelled the contract.
    Cancelled,
    /// The provider has ended it early.
    EndedByProvider,
    /// The provider took the capacity back, with notice.
    Reclaimed,
    /// Usage reports stayed without the consumer's signature for too long.
    Unsigned,
    /// What was sold could not be provided.
    ProvisioningFailed,
    /// The other side broke the contract.
    Breach,
}

wire_enum!(CloseReason {
    0 => Expired,
    1 => Cancelled,
    2 => EndedByProvider,
    3 => Reclaimed,
    4 => Unsigned,
    5 => ProvisioningFailed,
    6 => Breach,
});
