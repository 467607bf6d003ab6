//! The two families of addresses, of which a cluster has one or both, and what a node has of one.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// A family of addresses, and of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Addresses of four bytes (RFC 791).
    V4,
    /// Addresses of sixteen bytes (RFC 8200).
    V6,
}

/// What this node has of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// All addresses of all clusters: nothing to them leaves but by our devices.
    pub pool: IpNet,
    /// The one address of the pool that is this node's.
    pub node: IpAddr,
}

impl Family {
    /// Both, in the order in which things are done.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// As large packets of IPv6 may be anywhere, in bytes (RFC 8200, section 5): by a device that
    /// takes less there is none.
    pub(crate) const LEAST_MTU: u32 = 1_280;

    /// The one that an address is of.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The one that a network is of.
    pub fn of_net(net: IpNet) -> Self {
        Self::of(net.addr())
    }

    /// What nf_tables calls its packets.
    pub(crate) fn of_packets(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}
