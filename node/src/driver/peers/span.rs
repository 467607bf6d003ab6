//! Whose a line in the log is: what is logged within one of these says of which peer it is.

use mercato_protocol::id::PublicKey;
use tracing::Span;

/// Of a connection, or a stream in it.
pub(in crate::driver) fn of_connection(peer: &PublicKey) -> Span {
    tracing::info_span!("peer", key = %peer.short())
}

/// Of a message. There is none unless DEBUG is logged: messages are many, and what is logged of
/// one with its peer is of that level.
pub(in crate::driver) fn of_message(peer: &PublicKey) -> Span {
    tracing::debug_span!("peer", key = %peer.short())
}
