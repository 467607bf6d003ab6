//! How it is with this node, as the daemon is told: worked out from all that is known of it, whichever
//! part has found that out, and for whatever end.

use std::collections::BTreeSet;
use std::net::IpAddr;

use mercato_protocol::limits::LINE_BYTES;
use mercato_protocol::node::{FromNode, NodeState, UnopenedName};

use super::force::Word;
use super::names::Served;
use crate::nodes::closing::Closings;
use crate::nodes::never::OwnNetworks;

/// What came of setting up the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SetUp {
    /// The snapshot that is in force; none before the first.
    pub(super) word: Option<Word>,
    /// The largest packet of the network of the nodes here; zero while that is not known.
    pub(super) mtu: u32,
    /// The node's address of the pool that is in force.
    pub(super) address: Option<IpAddr>,
    /// Why the latest snapshot is not in force, in a line.
    pub(super) trouble: Option<String>,
    /// What is in force is so for both families.
    pub(super) second: bool,
}

/// How it is with this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) set_up: SetUp,
    /// Why guests cannot be closed here, in a line.
    pub(super) open: Option<String>,
    /// How often packet rules of ours were put back that somebody else had changed.
    pub(super) mended: u64,
    /// Why guests here are told no names, though they should be, in a line.
    pub(super) unnamed: Option<String>,
    /// For which names of namespaces that are not open to them guests here have asked lately.
    pub(super) unopened: BTreeSet<UnopenedName>,
    /// Why guests here cannot be kept to the egress of their contracts, in a line.
    pub(super) unkept: Option<String>,
}

impl Standing {
    /// By what is known now. `closings`: none where this process closes nobody.
    pub(super) fn new(
        set_up: &SetUp,
        closings: Option<&Closings>,
        mended: u64,
        served: &Served,
        own: &OwnNetworks,
    ) -> Self {
        let open = closings.and_then(|closings| closings.trouble.as_ref()).map(line);
        let unnamed = served.unnamed.as_ref().map(line);
        let unopened = served.unopened.clone();
        let unkept = own.as_ref().err().map(line);
        Self { set_up: set_up.clone(), open, mended, unnamed, unopened, unkept }
    }

    /// The same as it is said on this connection.
    pub(super) fn state(&self, connection: u64) -> FromNode {
        let Self { set_up, open, mended, unnamed, unopened, unkept } = self.clone();
        let SetUp { word, mtu, address: _, trouble, second } = set_up;
        let of_this = word.filter(|word| word.connection == connection);
        FromNode::State(NodeState {
            version: of_this.map_or(0, |word| word.version),
            mtu,
            trouble,
            second: second && of_this.is_some(),
            open,
            mended: Some(mended).filter(|mended| *mended > 0),
            unnamed,
            unopened,
            egress: true,
            unkept,
        })
    }
}

/// What is said of it to the daemon: not all bytes of names are text that it takes.
pub(super) fn line(trouble: &impl ToString) -> String {
    let shown = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    trouble.to_string().chars().take(LINE_BYTES).map(shown).collect()
}
