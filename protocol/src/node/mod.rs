//! What the daemon of a cluster and the other nodes of that cluster say to each other, so that
//! pods of every node reach other clusters through the gateway. It never leaves the cluster.
//!
//! A node opens the connection, says who it is, and gets snapshots: each is all that the node
//! should have, and takes the place of the one before. Each side says something now and then, so
//! that the other one knows that it is there.

mod snapshot;
mod state;
mod unopened;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, Message, at_most, wire_union};
use crate::limits;
use crate::names::{LeaseNames, NamesChange};

pub use snapshot::{
    Draft, LEAST_MTU, LEAST_MTU_V6, NodeGuest, NodeLease, NodeNames, NodeWay, ServiceAddress,
    Snapshot, is_callable,
};
pub use state::NodeState;
pub use unopened::UnopenedName;

/// What a node says to the daemon of its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FromNode {
    /// The first word on a connection, and said at no other time.
    Hello {
        /// A token of the node's own account, which the API server vouches for.
        token: String,
        /// The node's address of the pool, as it is in force there; none after a start.
        address: Option<IpAddr>,
    },
    /// How it is with the latest snapshot; said again every few seconds.
    State(NodeState),
}

/// What the daemon says to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ToNode {
    /// The node should have this from now on.
    Snapshot(Snapshot),
    /// A state was heard, and there is nothing new.
    Heard,
    /// The daemon keeps this node's machine itself, for it runs there: the node's process leaves it
    /// alone. Said in the place of a snapshot.
    Own,
    /// The last word on a connection.
    Refused {
        /// For the operator of the node.
        text: String,
    },
    /// The names of one lease from now on, whose guests the latest snapshot says.
    Names {
        /// Larger than that of all names of the lease before.
        number: u64,
        /// All names that it has.
        names: LeaseNames,
    },
    /// What is another in the names that were said last of a lease on this connection.
    NamesChange(NamesChange),
}

impl Message for FromNode {
    const MAX_BYTES: usize = limits::FROM_NODE_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        match self {
            Self::Hello { token, .. } => {
                at_most("bytes of a token", token.len(), limits::NODE_TOKEN_BYTES)
            }
            Self::State(state) => state.validate(),
        }
    }
}

impl Message for ToNode {
    const MAX_BYTES: usize = limits::TO_NODE_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        match self {
            Self::Snapshot(snapshot) => snapshot.validate(),
            Self::Heard | Self::Own => Ok(()),
            Self::Refused { text } => at_most("bytes of a reason", text.len(), limits::LINE_BYTES),
            Self::Names { names, .. } => names.check(),
            Self::NamesChange(change) => change.validate(),
        }
    }
}

wire_union!(FromNode {
    0 => Hello { 1 => token, 2 => address },
    1 => State(state),
});
wire_union!(ToNode {
    0 => Snapshot(snapshot),
    1 => Heard {},
    2 => Own {},
    3 => Refused { 1 => text },
    4 => Names { 1 => number, 2 => names },
    5 => NamesChange(change),
});
