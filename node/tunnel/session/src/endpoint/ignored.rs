//! Why an endpoint does nothing with a datagram.

use thiserror::Error;

use crate::message::Malformed;

/// Why a datagram had no effect; nothing was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Ignored {
    /// It is no message.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A sealed packet, which is a shard's.
    #[error("a sealed packet, which is not part of a handshake")]
    Data,
    /// Its sender does not know our public key.
    #[error("a message by somebody who does not know this gateway's key")]
    Stranger,
    /// Its sender is none of our peers, or it is of no handshake under way.
    #[error("a message of no peer and no handshake of ours")]
    Unknown,
    /// It is not authentic.
    #[error("a message that is not authentic")]
    NotAuthentic,
    /// It was recorded and sent again.
    #[error("a message that was sent before")]
    Replayed,
    /// The same peer began a handshake just now; or, under load, somebody at the same address.
    #[error("a handshake too soon after the last one")]
    TooSoon,
}
