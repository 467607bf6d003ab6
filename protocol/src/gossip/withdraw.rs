//! The end of an advertisement, by its publisher's own word.

use serde::{Deserialize, Serialize};

use super::mark::LAST_EPOCH;
use crate::codec::{self, CodecError, ensure, wire_map};
use crate::envelope::Payload;
use crate::id::{ClusterId, PublicKey};
use crate::limits;

/// The publisher offers nothing any more. Numbered in one series with its headers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Withdraw {
    /// The publisher; its key signs.
    pub provider: ClusterId,
    /// The epoch, as in the header of an advertisement.
    pub epoch: u64,
    /// The number in its epoch, as in the header of an advertisement.
    pub seq: u64,
    /// When it was signed, wall clock.
    pub issued_ms: u64,
}

impl codec::Message for Withdraw {
    const MAX_BYTES: usize = limits::AD_HEADER_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        ensure(self.epoch < LAST_EPOCH, "an epoch after which none can come")
    }
}

impl Payload for Withdraw {
    const TYPE: &'static str = "withdraw";

    fn may_sign(&self, _: &PublicKey, cluster: Option<ClusterId>) -> bool {
        cluster.is_none_or(|cluster| cluster == self.provider)
    }

    fn validity_ms(&self) -> Option<(u64, u64)> {
        Some((self.issued_ms, self.issued_ms.saturating_add(u64::from(limits::AD_TTL_S) * 1_000)))
    }
}

wire_map!(Withdraw { 1 => provider, 2 => epoch, 3 => seq, 4 => issued_ms });
