//! The first frame of a request stream: one of the three things that a peer asks another, and
//! which of them it is. What answers each is one frame too, on the same stream.

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, Message, wire_union};
use crate::envelope::Signed;
use crate::hello::Hello;
use crate::join::JoinRequest;
use crate::{limits, negotiation};

/// What a peer asks. A kind that a release does not know it refuses whole, and closes the stream
/// without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::large_enum_variant, reason = "one at a time, and moved once")]
pub enum FirstFrame {
    /// "This is who I am." Answered by the other's [`Hello`].
    Hello(Hello),
    /// "Let me into the federation", or "renew my membership". Answered by a
    /// [`JoinReply`](crate::join::JoinReply).
    Join(JoinRequest),
    /// A word in a negotiation. Answered by an empty frame once all that comes of it is on disk.
    Negotiation(Signed<negotiation::Message>),
}

impl Message for FirstFrame {
    const MAX_BYTES: usize = limits::REQUEST_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        match self {
            Self::Hello(hello) => hello.validate(),
            Self::Join(request) => request.validate(),
            Self::Negotiation(_) => Ok(()),
        }
    }
}

wire_union!(FirstFrame { 0 => Hello(hello), 1 => Join(request), 2 => Negotiation(message) });
