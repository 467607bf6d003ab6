//! How the nodes of a cluster reach the gateway, which runs on one of them: VXLAN, with entries
//! that are told and none that are learned.
//!
//! It is in clear, and not authenticated: between nodes, on the network that is theirs.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use crate::error::WantedError;
use crate::limits;

/// The way between nodes of this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// The network identifier, of 24 bits: the same at all nodes.
    pub vni: u32,
    /// The UDP port that datagrams go to: the same at all nodes.
    pub port: u16,
    /// This node's own address on the network of the nodes.
    pub local: IpAddr,
    /// The largest packet on it, in bytes: at most [`Overlay::HEADERS`] less than the network of
    /// the nodes takes.
    pub mtu: u32,
    /// The other nodes: of each the one address of the pool that is its own, and its address on
    /// the network of the nodes. A node that is not the gateway's needs the gateway's alone.
    pub nodes: BTreeMap<IpAddr, IpAddr>,
}

/// How this machine reaches other clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// The gateway runs here: by its device.
    Device {
        /// The mapped pods of other nodes, each with its node's address of the pool: they are
        /// reached by the overlay, since a pod network drops or masquerades foreign sources.
        elsewhere: BTreeMap<IpAddr, IpAddr>,
    },
    /// The gateway runs on another node, whose address of the pool this is: by the overlay.
    Through(IpAddr),
}

/// The address of a device on the overlay, of the six bytes that Ethernet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

/// 24 bits (RFC 7348, section 5).
const LARGEST_VNI: u32 = (1 << 24) - 1;

impl Overlay {
    /// Beside the tunnel's own port. 4789 is Calico's and the standard's, 4800 Submariner's, 8472
    /// that of flannel, k3s and Cilium, and the kernel's own default: two of one port see each
    /// other's datagrams.
    pub const PORT: u16 = 7_477;
    /// Numbered as the tunnel's port.
    pub const VNI: u32 = 7_475;
    /// What is put around a packet, in bytes: Ethernet, VXLAN, UDP and IPv4.
    pub const HEADERS: u32 = 50;

    /// Says what cannot be at this node.
    pub(crate) fn check(&self, node: IpAddr) -> Result<(), WantedError> {
        if self.nodes.len() > limits::NODES {
            let (count, most) = (self.nodes.len(), limits::NODES);
            return Err(WantedError::Many { what: "nodes", count, most });
        }
        if self.vni == 0 || self.vni > LARGEST_VNI {
            return Err(WantedError::Overlay { what: "network identifier", value: self.vni });
        }
        if self.port == 0 {
            return Err(WantedError::Overlay { what: "port", value: 0 });
        }
        let is_this = |(pool, machine): (&IpAddr, &IpAddr)| *pool == node || *machine == self.local;
        if self.nodes.iter().any(is_this) {
            return Err(WantedError::Itself(node));
        }
        Ok(())
    }
}

impl Default for Way {
    /// The gateway's machine, which no other node sends anything to.
    fn default() -> Self {
        Self::Device { elsewhere: BTreeMap::new() }
    }
}

impl Mac {
    /// That of a node, by its address of the pool: no two nodes have the same, and nobody has to
    /// be told. It is of no maker (the second bit), which leaves a byte for a letter of ours.
    pub fn of(node: IpAddr) -> Self {
        let [a, b, c, d] = match node {
            IpAddr::V4(node) => node.octets(),
            // A node's address ends in what is its own.
            IpAddr::V6(node) => (node.to_bits() as u32).to_be_bytes(),
        };
        Self([0x02, b'm', a, b, c, d])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
