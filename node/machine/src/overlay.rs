//! How the nodes of a cluster reach the gateway, which runs on one of them: VXLAN, with entries
//! that are told and none that are learned.
//!
//! It is in clear, and not authenticated: between nodes, on the network that is theirs.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use crate::error::WantedError;
use crate::family::{Family, Place};

/// The way between nodes of this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// The network identifier, of 24 bits: the same at all nodes.
    pub vni: u32,
    /// The UDP port that datagrams go to: the same at all nodes.
    pub port: u16,
    /// This node's own address on the network of the nodes, of either family: that of the network.
    pub local: IpAddr,
    /// The largest packet on it, in bytes: at most [`Overlay::headers`] less than the network of
    /// the nodes takes, and at least 1,280 where there is IPv6 (RFC 8200, section 5).
    pub mtu: u32,
    /// The other nodes: each address of a pool that is a node's own, one of each family that it
    /// has, and the node's address on the network of the nodes. Two with the same machine are one
    /// node's. A node that is not the gateway's needs the gateway's alone.
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
    /// The gateway runs on another node, of whose addresses of the pools this is one: by the
    /// overlay.
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

    /// What is put around a packet, in bytes: Ethernet, VXLAN, UDP, and IP of the network of the
    /// nodes.
    pub fn headers(network: Family) -> u32 {
        match network {
            Family::V4 => 14 + 8 + 8 + 20,
            Family::V6 => 14 + 8 + 8 + 40,
        }
    }

    /// That of the network of the nodes.
    pub fn family(&self) -> Family {
        Family::of(self.local)
    }

    /// The address of a family of each node that has one, by each of its addresses.
    pub(crate) fn of_family(&self, family: Family) -> BTreeMap<IpAddr, IpAddr> {
        let is_of_it = |(node, _): &(&IpAddr, &IpAddr)| Family::of(**node) == family;
        let of_it = self.nodes.iter().filter(is_of_it);
        let at: BTreeMap<IpAddr, IpAddr> = of_it.map(|(node, machine)| (*machine, *node)).collect();
        let same = |(node, machine): (&IpAddr, &IpAddr)| Some((*node, *at.get(machine)?));
        self.nodes.iter().filter_map(same).collect()
    }

    /// What the other nodes are called in frames, by their machines: as each calls itself.
    pub(crate) fn macs(&self) -> BTreeMap<IpAddr, Mac> {
        let mut macs = BTreeMap::new();
        for (node, machine) in &self.nodes {
            // IPv4 comes first.
            macs.entry(*machine).or_insert_with(|| Mac::of(*node));
        }
        macs
    }

    /// Says what cannot be at this node.
    pub(crate) fn check(&self, places: &[Place]) -> Result<(), WantedError> {
        if self.vni == 0 || self.vni > LARGEST_VNI {
            return Err(WantedError::Overlay { what: "network identifier", value: self.vni });
        }
        if self.port == 0 {
            return Err(WantedError::Overlay { what: "port", value: 0 });
        }
        for place in places {
            if self.nodes.contains_key(&place.node) {
                return Err(WantedError::Itself(place.node));
            }
        }
        for (node, machine) in &self.nodes {
            if *machine == self.local {
                return Err(WantedError::Itself(*node));
            }
            if Family::of(*machine) != self.family() {
                return Err(WantedError::OtherNetwork(*machine));
            }
        }
        self.check_names(places)
    }

    /// No two nodes have the same machine, and none is called as another one.
    fn check_names(&self, places: &[Place]) -> Result<(), WantedError> {
        let macs = self.macs();
        let mut machines: BTreeMap<(IpAddr, Family), IpAddr> = BTreeMap::new();
        let own = places.iter().map(|place| place.node).min();
        let own = own.map(|node| (Mac::of(node), (node, self.local)));
        let mut called: BTreeMap<Mac, (IpAddr, IpAddr)> = own.into_iter().collect();
        for (node, machine) in &self.nodes {
            let other = machines.insert((*machine, Family::of(*node)), *node);
            let mac = macs.get(machine).copied().unwrap_or_else(|| Mac::of(*node));
            let (namesake, its_machine) = *called.entry(mac).or_insert((*node, *machine));
            let namesake = Some(namesake).filter(|_| its_machine != *machine);
            if let Some(one) = other.or(namesake) {
                return Err(WantedError::Alike { one, other: *node });
            }
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
    /// That of a node, by its address of the pool, and of IPv4 if it has two: no two nodes have the
    /// same, and nobody has to be told. It is of no maker (the second bit), which leaves a byte for
    /// a letter of ours.
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
