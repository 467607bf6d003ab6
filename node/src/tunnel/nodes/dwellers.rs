//! Who is on which node, as far as guests are closed there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mercato_protocol::gate::GuestUid;
use mercato_protocol::limits;

/// The pods of the cluster, by their nodes.
#[derive(Debug, Default)]
pub(in crate::tunnel) struct Dwellers {
    /// On which node each guest is that is closed.
    pub(in crate::tunnel) guests: BTreeMap<GuestUid, String>,
    /// The addresses of all pods that are no such guests, by the names of their nodes.
    pub(in crate::tunnel) others: BTreeMap<String, BTreeSet<IpAddr>>,
}

impl Dwellers {
    /// Whether the guest is on this node.
    pub(super) fn has(&self, node: &str, guest: &GuestUid) -> bool {
        self.guests.get(guest).is_some_and(|of| of == node)
    }

    /// Whoever is on this node and no guest to be closed, as many as a message takes.
    pub(super) fn others(&self, node: &str) -> BTreeSet<IpAddr> {
        let others = self.others.get(node).into_iter().flatten();
        others.take(limits::NODE_OTHERS).copied().collect()
    }
}
