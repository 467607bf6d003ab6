//! How it is with this node, as the daemon is told.

use std::net::IpAddr;

use mercato_protocol::node::FromNode;

use super::force::Word;

/// How it is with this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
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
    /// Why guests cannot be closed here, in a line.
    pub(super) open: Option<String>,
    /// How often packet rules of ours were put back that somebody else had changed.
    pub(super) mended: u64,
}

impl Standing {
    /// The same as it is said on this connection.
    pub(super) fn state(&self, connection: u64) -> FromNode {
        let of_this = self.word.filter(|word| word.connection == connection);
        FromNode::State {
            version: of_this.map_or(0, |word| word.version),
            mtu: self.mtu,
            trouble: self.trouble.clone(),
            second: self.second && of_this.is_some(),
            open: self.open.clone(),
            mended: Some(self.mended).filter(|mended| *mended > 0),
        }
    }
}
