//! The first message on every peer connection, each way.

use serde::{Deserialize, Serialize};

use crate::envelope::Signed;
use crate::id::FederationId;
use crate::identity::Identity;

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
