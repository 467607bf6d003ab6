//! Whose a line in the log is: what is logged within one of these says of which lease or peer it is.
//! The broker has one for a deal.

use mercato_protocol::id::{ContractId, PublicKey};
use tracing::Span;

/// Of a lease in force, and all that is begun for it.
pub(crate) fn of_lease(contract: &ContractId) -> Span {
    tracing::info_span!("lease", contract = %contract.short())
}

/// Of a connection, or a stream in it.
pub(crate) fn of_connection(peer: &PublicKey) -> Span {
    tracing::info_span!("peer", key = %peer.short())
}

/// Of a message. There is none unless DEBUG is logged: messages are many, and what is logged of
/// one with its peer is of that level.
pub(crate) fn of_message(peer: &PublicKey) -> Span {
    tracing::debug_span!("peer", key = %peer.short())
}
