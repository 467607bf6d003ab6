//! Whose packet it is, and where it goes to or came from.

use mercato_protocol::id::ContractId;

use crate::peer_index::PeerIndex;

/// Where a packet goes to, or came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Whose packet it is.
    pub lease: ContractId,
    /// Through which gateway.
    pub peer: PeerIndex,
}
