//! The first message on every peer connection, each way.

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, Message, at_most, wire_map};
use crate::envelope::Signed;
use crate::id::FederationId;
use crate::identity::Identity;
use crate::limits;

/// Who is speaking. The connection has already proven the key; this binds the key to a
/// cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// The speaker's identity document.
    pub identity: Signed<Identity>,
    /// The federation that this connection serves.
    pub federation: FederationId,
    /// Name and version of the speaker's software, for display.
    pub software: String,
    /// Where the speaker can be dialled: multiaddresses.
    pub addresses: Vec<String>,
}

impl Message for Hello {
    const MAX_BYTES: usize = limits::HELLO_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        at_most("addresses", self.addresses.len(), limits::ADDRESSES)
    }
}

wire_map!(Hello { 1 => identity, 2 => federation, 3 => software, 4 => addresses });
