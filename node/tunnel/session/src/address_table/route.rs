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

/// Where a packet of this cluster goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outbound {
    /// It goes to another cluster.
    Through(Route),
    /// It comes back to this one: both its ends are guests of this lease here.
    Back(ContractId),
}

impl Outbound {
    /// The way to another cluster, if it goes to one.
    pub fn through(self) -> Option<Route> {
        match self {
            Self::Through(route) => Some(route),
            Self::Back(_) => None,
        }
    }
}
