//! Who speaks: what each side of a new connection says first.

use serde::{Deserialize, Serialize};

use crate::certificate::Certificate;
use crate::codec::{CodecError, Message, at_most, wire_map};
use crate::envelope::{EnvelopeError, Signed};
use crate::id::FederationId;
use crate::identity::{ClusterIdentity, Identity};
use crate::limits;
use crate::time::Now;

/// Who is speaking. The connection has already proven the key; this binds the key to a
/// cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// The speaker's identity document, signed by its root key.
    pub identity: Signed<Identity>,
    /// The federation that this connection serves.
    pub federation: FederationId,
    /// Name and version of the speaker's software, for display.
    pub software: String,
    /// Where the speaker can be dialled: multiaddresses.
    pub addresses: Vec<String>,
    /// The identity documents after the first, in order.
    pub rotations: Vec<Signed<Identity>>,
    /// That it belongs to the federation: its certificate, then its registrar's.
    pub certificates: Vec<Signed<Certificate>>,
    /// What the speaker's clock says, for display: a clock that is far off explains why
    /// signatures are refused.
    pub time_ms: Option<u64>,
}

impl Hello {
    /// Whom the speaker's last key stands for.
    pub fn owner(&self, now: Now) -> Result<ClusterIdentity, EnvelopeError> {
        let first = self.identity.open_identity(now)?;
        self.rotations.iter().try_fold(first, |owner, next| owner.follow(next, now))
    }
}

/// Refuses more dial addresses than a cluster has, and one that is longer than any can be.
pub(crate) fn check_addresses(addresses: &[String]) -> Result<(), CodecError> {
    at_most("addresses", addresses.len(), limits::ADDRESSES)?;
    let longest = addresses.iter().map(String::len).max();
    at_most("bytes of an address", longest.unwrap_or(0), limits::ADDRESS_BYTES)
}

impl Message for Hello {
    const MAX_BYTES: usize = limits::HELLO_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        at_most("bytes of software", self.software.len(), limits::SOFTWARE_BYTES)?;
        check_addresses(&self.addresses)?;
        at_most("rotations", self.rotations.len(), limits::ROTATIONS)?;
        at_most("certificates", self.certificates.len(), limits::CERTIFICATES)
    }
}

wire_map!(Hello {
    1 => identity,
    2 => federation,
    3 => software,
    4 => addresses,
    5 => rotations,
    6 => certificates,
    7 => time_ms,
});
