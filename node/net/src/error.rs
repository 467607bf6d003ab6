//! Why the network does not start, why a call failed, and why a dial brought nobody.

use std::io;

use mercato_discovery::{Address, DialFailure};
use mercato_protocol::codec::CodecError;
use thiserror::Error;

/// Why the network does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Something of the keys.
    #[error("cannot set up the peer connections' encryption: {0}")]
    Keys(String),
    /// A required address.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: Address,
        /// Why.
        source: io::Error,
    },
}

/// Why a call failed.
#[derive(Debug, Error)]
pub enum NetError {
    /// There is no connection to the peer.
    #[error("the peer is not connected")]
    NotConnected,
    /// The peer is another or an older program.
    #[error("the peer does not speak {0}")]
    Unsupported(&'static str),
    /// Nothing came in time.
    #[error("the peer did not answer in time")]
    TimedOut,
    /// A message is above its bound; nothing of it was sent.
    #[error("a message of {bytes} bytes, at most {max}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// Its bound.
        max: usize,
    },
    /// The stream broke, or what came is no frame.
    #[error("the stream broke: {0}")]
    Io(#[from] io::Error),
    /// The network has been stopped.
    #[error("the network has stopped")]
    Stopped,
}

impl NetError {
    pub(crate) fn check_size(message: &[u8], max: usize) -> Result<(), Self> {
        let bytes = message.len();
        if bytes > max { Err(Self::TooLarge { bytes, max }) } else { Ok(()) }
    }
}

/// Why a question about the tunnel has no answer.
#[derive(Debug, Error)]
pub enum TunnelError {
    /// The peer does not speak of tunnels.
    #[error("the peer is of an earlier version, which has no tunnel: update mercato over there")]
    Unsupported,
    /// The question cannot be said; nothing of it was sent.
    #[error("what was to be said of the tunnel is not valid: {0}")]
    Ask(#[source] CodecError),
    /// What came is no answer.
    #[error("the peer's answer about the tunnel is not valid: {0}")]
    Answer(#[source] CodecError),
    /// The connection, or the peer, failed: what was asked may have been heard.
    #[error(transparent)]
    Net(NetError),
}

impl From<NetError> for TunnelError {
    fn from(error: NetError) -> Self {
        match error {
            NetError::Unsupported(_) => Self::Unsupported,
            error @ (NetError::NotConnected
            | NetError::TimedOut
            | NetError::TooLarge { .. }
            | NetError::Io(_)
            | NetError::Stopped) => Self::Net(error),
        }
    }
}

/// Why a dial brought nobody.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct DialError {
    /// For the directory.
    pub failure: DialFailure,
    /// For people.
    pub reason: String,
}

impl DialError {
    pub(crate) fn unreachable(reason: impl Into<String>) -> Self {
        Self { failure: DialFailure::Unreachable, reason: reason.into() }
    }
}
