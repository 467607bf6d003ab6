//! What all nodes of the cluster have in common.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv6Net};
use mercato_protocol::node::NodeNames;

/// What all nodes have in common.
pub(in crate::tunnel) struct Common {
    pub(in crate::tunnel) pool: IpNet,
    /// Behind which range all of them are known by IPv6 too, if they are.
    pub(in crate::tunnel) second: Option<Ipv6Net>,
    /// The network identifier of the overlay, and its port.
    pub(in crate::tunnel) vni: u32,
    pub(in crate::tunnel) port: u16,
    /// The TCP port at which gates of guests are answered on each node.
    pub(in crate::tunnel) gate: u16,
    /// The largest packet on the way of all of them, in bytes, without the overlay's headers.
    pub(in crate::tunnel) mtu: u32,
    /// Where guests are told names, if anywhere.
    pub(in crate::tunnel) names: Option<NodeNames>,
    /// What of this cluster's own no guest reaches by its egress; none: that is more than a node can be told, and
    /// no guest goes out.
    pub(in crate::tunnel) never: Option<BTreeSet<IpNet>>,
}

impl Common {
    /// By such an address things are known in tunnels, and no pod has it itself.
    pub(in crate::tunnel) fn has(&self, address: &IpAddr) -> bool {
        let second = self.second.map(IpNet::V6);
        self.pool.contains(address) || second.is_some_and(|pool| pool.contains(address))
    }
}
