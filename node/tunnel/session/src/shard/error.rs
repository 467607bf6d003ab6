//! Why a shard does nothing with a packet.

use thiserror::Error;

use crate::seal::OpenError;

/// Why nothing was sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShardError {
    /// There is no session with this peer yet, or no more.
    #[error("there is no session with this peer")]
    NoSession,
    /// The receiver's index is of no session, or of another shard.
    #[error("a packet of no session")]
    UnknownIndex,
    /// The keys of this session are too old.
    #[error("a packet of a session that is over")]
    Expired,
    /// Its counter was seen, or is too old to tell.
    #[error("a packet that was seen before, or is too old to tell")]
    Replayed,
    /// It was not sealed with the session's key.
    #[error("a packet that was not sealed with the session's key")]
    NotAuthentic,
}

impl From<OpenError> for ShardError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Replayed => Self::Replayed,
            OpenError::NotAuthentic => Self::NotAuthentic,
        }
    }
}
