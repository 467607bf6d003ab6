//! What the gateway wants of its machine, and by which marks its own things are known.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use thiserror::Error;

use crate::limits;

/// Bytes that the kernel has for the name of a device, with a zero at the end (`IFNAMSIZ`).
pub(crate) const NAME_BYTES: usize = 16;

/// A guess: the largest range that is nobody's on the Internet is 10.0.0.0/8.
const WIDEST_POOL: u8 = 8;

/// By what things of the gateway are known, also after a crash. Whatever carries none of these is
/// never touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// What the TUN device is called. It is all the gateway's.
    pub device: String,
    /// The number of the routing table.
    pub table: u32,
    /// The preference of the routing rule: smaller ones come first.
    pub preference: u32,
    /// The protocol number of routes and rules (`rtm_protocol`). Each that has it is ours, in
    /// whichever table: so a changed setting leaves nothing behind.
    pub protocol: u8,
}

impl Default for Marks {
    /// The table is numbered as the tunnel's port; the preference is before Amazon's (512) and
    /// Tailscale's (5210) and after Cilium's (9 to 110); the protocol is nobody's in iproute2's
    /// list.
    fn default() -> Self {
        Self { device: "mercato0".to_owned(), table: 7475, preference: 500, protocol: 174 }
    }
}

/// What should be in force on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// By what it will be known.
    pub marks: Marks,
    /// The MTU of the device.
    pub mtu: u32,
    /// All addresses of all clusters: nothing to them leaves but by the device.
    pub pool: IpNet,
    /// The one address of the pool that is this node's.
    pub node: IpAddr,
    /// What is reached by the device, within the pool.
    pub ranges: BTreeSet<IpNet>,
    /// This node's own pods that are mapped: they keep their source, and are reached from the
    /// device.
    pub pods: BTreeSet<IpAddr>,
}

/// Why nothing can be set up as wanted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WantedError {
    /// IPv6 is not set up yet.
    #[error("{0} is not of IPv4, the one family that the gateway sets up so far; leave it out")]
    Family(IpNet),
    /// Such an address is looked up by no rule of ours.
    #[error("{address} is outside of the pool {pool}; choose it from there (gateway.pool)")]
    Outside {
        /// What lies outside of it.
        address: IpNet,
        /// The pool that it should be in.
        pool: IpNet,
    },
    /// More of the world would be led to the gateway than belongs to any pool.
    #[error("the pool {0} is wider than /8; set a range of your own (gateway.pool)")]
    Wide(IpNet),
    /// What such a pod sends would be taken for forged.
    #[error(
        "the pod {pod} has an address of the pool {pool}; set a pool that the pod network does \
         not use (gateway.pool)"
    )]
    PodInPool {
        /// The address of the pod.
        pod: IpAddr,
        /// The pool that it is in.
        pool: IpNet,
    },
    /// The kernel takes no such name.
    #[error("{0:?} is no name of a device: 1 to 15 bytes, without slash, zero or space")]
    Device(String),
    /// More than a node is known to have.
    #[error("{count} {what} are more than the {most} that a node may have here")]
    Many {
        /// Of which kind they are.
        what: &'static str,
        /// How many there would be.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// The kernel keeps these tables and numbers for itself.
    #[error("{what} {value} is the kernel's own; set another one (gateway)")]
    Reserved {
        /// Of which kind they are.
        what: &'static str,
        /// The number that was set.
        value: u32,
    },
}

impl Wanted {
    /// Says what cannot be, before anything is touched.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn check(&self) -> Result<(), WantedError> {
        self.marks.check()?;
        let bound = |what, count, most| {
            if count > most { Err(WantedError::Many { what, count, most }) } else { Ok(()) }
        };
        bound("pods", self.pods.len(), limits::PODS)?;
        bound("ranges", self.ranges.len(), limits::RANGES)?;
        let pooled = self.ranges.iter().copied().chain([self.pool, self.node.into()]);
        let pods = self.pods.iter().copied().map(IpNet::from);
        if let Some(other) = pooled.clone().chain(pods).find(|net| net.addr().is_ipv6()) {
            return Err(WantedError::Family(other));
        }
        if self.pool.prefix_len() < WIDEST_POOL {
            return Err(WantedError::Wide(self.pool));
        }
        if let Some(address) = pooled.clone().find(|net| !self.pool.contains(net)) {
            return Err(WantedError::Outside { address, pool: self.pool });
        }
        match self.pods.iter().copied().find(|pod| self.pool.contains(pod)) {
            Some(pod) => Err(WantedError::PodInPool { pod, pool: self.pool }),
            None => Ok(()),
        }
    }
}

impl Marks {
    fn check(&self) -> Result<(), WantedError> {
        let name = self.device.as_bytes();
        let is_bad = |byte: &u8| *byte == 0 || *byte == b'/' || byte.is_ascii_whitespace();
        if name.is_empty() || name.len() >= NAME_BYTES || name.iter().any(is_bad) {
            return Err(WantedError::Device(self.device.clone()));
        }
        // RT_TABLE_UNSPEC, and DEFAULT, MAIN and LOCAL.
        if matches!(self.table, 0 | 253..=255) {
            return Err(WantedError::Reserved { what: "table", value: self.table });
        }
        // Up to RTPROT_STATIC: the kernel's own, and what people type.
        if self.protocol <= 4 {
            let value = self.protocol.into();
            return Err(WantedError::Reserved { what: "protocol", value });
        }
        // The rules that every machine has: local, main, default.
        if matches!(self.preference, 0 | 32_766..=32_767) {
            return Err(WantedError::Reserved { what: "preference", value: self.preference });
        }
        Ok(())
    }
}
