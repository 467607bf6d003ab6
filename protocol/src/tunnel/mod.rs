//! What two clusters tell each other so that their gateways can raise a tunnel: where the gateways
//! are, and the secret of the pair. It is said on a stream of its own, outside of contracts, so
//! that another key or another address changes none.
//!
//! The secret travels in [`Ask::Secret`] and nowhere else: no record, no contract and no object of
//! Kubernetes has it. When it is said, and what comes of a difference, is left to the daemon
//! (`node/src/tunnel/`); how a session uses it to `node/tunnel/session/`.

mod gateways;
mod pair_secret;
mod reserved;
mod second;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

pub use gateways::{Gateway, Gateways};
pub use pair_secret::PairSecret;
pub use reserved::{home_api, is_reserved, name_server};
pub use second::{SECOND_POOL, SECOND_PREFIX, second, second_range};

use crate::codec::{CodecError, Message, Wire as _, Writer, at_most, wire_enum, wire_union};
use crate::envelope::Signed;
use crate::id::Digest;
use crate::limits;

/// What one cluster says to another with which it has a lease in force.
#[derive(Debug, PartialEq, Eq)]
pub enum Ask {
    /// "These are my gateways, and this is what I have." Answered by [`Answer::Introduced`].
    Introduce {
        /// The latest list of the speaker's.
        gateways: Signed<Gateways>,
        /// Of the pair's secret, as the speaker has it; none: it has no secret.
        secret_hash: Option<Digest>,
    },
    /// "This is our secret from now on." Said by the lower of the two clusters alone, and answered
    /// by [`Answer::Holds`].
    Secret {
        /// The secret of the pair.
        secret: PairSecret,
        /// Of the one that it takes the place of, as the other side has said. Where the other
        /// side has another by now, it keeps that, and says so: what comes late does no harm.
        replaces: Option<Digest>,
    },
}

/// What the other cluster says to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// The same of the other side.
    Introduced {
        /// The latest list of whoever answers.
        gateways: Signed<Gateways>,
        /// Of the pair's secret, as whoever answers has it.
        secret_hash: Option<Digest>,
    },
    /// What whoever answers has from now on, on its disk.
    Holds {
        /// Of the pair's secret; none: it has no secret.
        secret_hash: Option<Digest>,
    },
    /// The list is older than one that is known, as after a restore: a later one has to be signed.
    Superseded {
        /// When the one that is known was issued, by the asker's own clock then.
        issued_ms: u64,
    },
    /// Nothing comes of what was asked.
    Refused {
        /// For the program that asks.
        reason: RefusedReason,
        /// For the operator of whoever asks.
        text: String,
    },
}

/// Why an [`Ask`] is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RefusedReason {
    /// The two have no lease in force, as far as whoever answers knows.
    NoLease,
    /// The list is not valid, or of another cluster.
    Invalid,
    /// It is not for the asker to say what the secret is.
    NotYours,
    /// Not now: whoever answers is starting, or cannot write to its disk.
    Unavailable,
}

impl Ask {
    /// The encoding, which is erased when it is dropped; an error where a peer would refuse it.
    pub fn to_frame(&self) -> Result<Zeroizing<Vec<u8>>, CodecError> {
        self.validate()?;
        // Without room for all of it the secret would be left behind as the bytes move.
        let mut writer = Writer::with_capacity(self.encoded_len());
        self.encode(&mut writer);
        let bytes = Zeroizing::new(writer.into_bytes());
        at_most("message bytes", bytes.len(), Self::MAX_BYTES)?;
        Ok(bytes)
    }
}

/// [`Ask::to_frame`] is the way to encode one: what [`Message::to_bytes`] gives is not erased.
impl Message for Ask {
    const MAX_BYTES: usize = limits::TUNNEL_BYTES;
}

impl Message for Answer {
    const MAX_BYTES: usize = limits::TUNNEL_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        let Self::Refused { text, .. } = self else { return Ok(()) };
        at_most("bytes of a reason", text.len(), limits::LINE_BYTES)
    }
}

wire_union!(Ask {
    0 => Introduce { 1 => gateways, 2 => secret_hash },
    1 => Secret { 1 => secret, 2 => replaces },
});
wire_union!(Answer {
    0 => Introduced { 1 => gateways, 2 => secret_hash },
    1 => Holds { 1 => secret_hash },
    2 => Superseded { 1 => issued_ms },
    3 => Refused { 1 => reason, 2 => text },
});
wire_enum!(RefusedReason { 0 => NoLease, 1 => Invalid, 2 => NotYours, 3 => Unavailable });
