//! Why a gateway does not work, or works no more.

use std::io;

use thiserror::Error;

/// Why a gateway cannot begin, or has ended.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// The machine has no more descriptors.
    #[error("cannot make what wakes the gateway: {0}")]
    Wake(#[source] io::Error),
    /// The machine has no more threads.
    #[error("cannot start a thread of the tunnel: {0}")]
    Thread(#[source] io::Error),
    /// The device or the socket is gone.
    #[error("the tunnel's {what} failed: {source}")]
    Io {
        /// Which.
        what: &'static str,
        /// The kernel's word.
        source: io::Error,
    },
    /// A thread has panicked.
    #[error("a thread of the tunnel panicked")]
    Panicked,
}

impl GatewayError {
    /// For what the kernel says of the device or the socket: `what` names which.
    pub(crate) fn of(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
