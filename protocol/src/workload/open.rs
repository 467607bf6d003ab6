//! What opens a stream of a lease.

use serde::{Deserialize, Serialize};

use crate::codec::{Message, wire_map};
use crate::id::ContractId;
use crate::limits;

/// The first message of a stream, by whoever opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Open {
    /// The lease that the stream is for, by its contract.
    pub contract: ContractId,
    /// Only acknowledgements come on it: they do not wait behind bodies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acks: bool,
    /// The sender refuses a body that it does not take, and listens on. Earlier releases do not know
    /// this word, pass over it, and end a stream over such a body.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refuses_bodies: bool,
}

impl Message for Open {
    const MAX_BYTES: usize = limits::OPEN_BYTES;
}

wire_map!(Open { ext { 2 optional => refuses_bodies }, 1 => contract, 2 => acks });
