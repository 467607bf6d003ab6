//! How it is at a node with what it was told.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::UnopenedName;
use crate::codec::{CodecError, at_most, wire_map};
use crate::limits;

/// How it is at a node with the latest snapshot; by default nothing is in force there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    /// Of the snapshot that is in force; zero: none of this connection.
    pub version: u64,
    /// The largest packet that the network of the nodes takes there, in bytes; zero while that
    /// is not known.
    pub mtu: u32,
    /// Why the latest snapshot is not in force, for the operator.
    pub trouble: Option<String>,
    /// Whether the snapshot that is in force is so for IPv6 too.
    pub second: bool,
    /// Why guests cannot be closed here, for the operator; none: they can.
    pub open: Option<String>,
    /// How often since the start of the node's process somebody else had changed or removed packet
    /// rules that it had set, which it has put back; none: never.
    pub mended: Option<u64>,
    /// Why guests here are told no names of their home, though they should be, for the operator.
    pub unnamed: Option<String>,
    /// Names for which guests here have asked lately, of namespaces that are not open to them.
    pub unopened: BTreeSet<UnopenedName>,
    /// Whether the node's program knows how guests are kept to the egress of their contracts.
    pub egress: bool,
    /// Why it cannot keep them to that here, for the operator; none: it can, if it knows how.
    pub unkept: Option<String>,
}

impl NodeState {
    pub(super) fn validate(&self) -> Result<(), CodecError> {
        let Self { trouble, open, unnamed, unopened, unkept, .. } = self;
        at_most("names that are not open", unopened.len(), limits::NODE_UNOPENED)?;
        unopened.iter().try_for_each(UnopenedName::validate)?;
        let mut reasons = trouble.iter().chain(open).chain(unnamed).chain(unkept);
        let fits = |text: &String| at_most("bytes of a reason", text.len(), limits::LINE_BYTES);
        reasons.try_for_each(fits)
    }
}

wire_map!(NodeState {
    1 => version,
    2 => mtu,
    3 => trouble,
    4 => second,
    5 => open,
    6 => mended,
    7 => unnamed,
    8 => unopened,
    9 => egress,
    10 => unkept,
});
