//! What the gateway wants of its machine, and by which marks its own things are known.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::error::WantedError;
use crate::limits;
use crate::overlay::{Overlay, Way};

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
    /// What the device of the overlay is called. It is made and removed here, whoever made one of
    /// that name before.
    pub overlay: String,
    /// The number of the routing table.
    pub table: u32,
    /// The number of another one, for what comes by the gateway's device to pods of other nodes.
    pub elsewhere: u32,
    /// The preference of the routing rules: smaller ones come first.
    pub preference: u32,
    /// The protocol number of routes and rules (`rtm_protocol`). Each that has it is ours, in
    /// whichever table: so a changed setting leaves nothing behind.
    pub protocol: u8,
}

impl Default for Marks {
    /// Tables are numbered as the ports of the tunnel and of the overlay; the preference is before Amazon's (512) and
    /// Tailscale's (5210) and after Cilium's (9 to 110); the protocol is nobody's in iproute2's
    /// list.
    fn default() -> Self {
        Self {
            device: "mercato0".to_owned(),
            overlay: "mercato1".to_owned(),
            table: 7475,
            elsewhere: 7477,
            preference: 500,
            protocol: 174,
        }
    }
}

/// What should be in force on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// By what it will be known.
    pub marks: Marks,
    /// The MTU of the gateway's device.
    pub mtu: u32,
    /// All addresses of all clusters: nothing to them leaves but by our devices.
    pub pool: IpNet,
    /// The one address of the pool that is this node's.
    pub node: IpAddr,
    /// What of other clusters is reached, within the pool.
    pub ranges: BTreeSet<IpNet>,
    /// This node's own pods that are mapped: they keep their source, and are reached from other
    /// clusters.
    pub pods: BTreeSet<IpAddr>,
    /// By which of our devices, and so whether the gateway runs here.
    pub way: Way,
    /// The way to the other nodes; without, this machine is the only one that other clusters
    /// reach.
    pub overlay: Option<Overlay>,
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
        bound("pods of other nodes", self.elsewhere().len(), limits::ELSEWHERE)?;
        self.overlay.as_ref().map_or(Ok(()), |overlay| overlay.check(self.node))?;
        self.check_addresses()?;
        self.check_way()
    }

    fn check_addresses(&self) -> Result<(), WantedError> {
        let overlay = || self.overlay.iter().flat_map(|overlay| &overlay.nodes);
        let nodes = overlay().map(|(pool, _)| IpNet::from(*pool));
        let pooled = self.ranges.iter().copied().chain([self.pool, self.node.into()]).chain(nodes);
        let pods = || self.pods.iter().copied().chain(self.elsewhere().into_keys());
        let local = self.overlay.iter().map(|overlay| overlay.local);
        let machines = overlay().map(|(_, machine)| *machine).chain(local);
        let others = pods().chain(machines).map(IpNet::from);
        if let Some(other) = pooled.clone().chain(others).find(|net| net.addr().is_ipv6()) {
            return Err(WantedError::Family(other));
        }
        if self.pool.prefix_len() < WIDEST_POOL {
            return Err(WantedError::Wide(self.pool));
        }
        if let Some(address) = pooled.clone().find(|net| !self.pool.contains(net)) {
            return Err(WantedError::Outside { address, pool: self.pool });
        }
        match pods().find(|pod| self.pool.contains(pod)) {
            Some(pod) => Err(WantedError::PodInPool { pod, pool: self.pool }),
            None => Ok(()),
        }
    }

    /// Whoever is reached by the overlay is a node of it.
    fn check_way(&self) -> Result<(), WantedError> {
        let known = |node: &IpAddr| {
            self.overlay.as_ref().is_some_and(|overlay| overlay.nodes.contains_key(node))
        };
        let unknown = match &self.way {
            Way::Through(gateway) => Some(gateway).filter(|gateway| !known(gateway)),
            Way::Device { elsewhere } => elsewhere.values().find(|node| !known(node)),
        };
        if let Some(node) = unknown {
            return Err(WantedError::UnknownNode(*node));
        }
        match self.elsewhere().into_keys().find(|pod| self.pods.contains(pod)) {
            Some(pod) => Err(WantedError::Twice(pod)),
            None => Ok(()),
        }
    }

    /// The pods of other nodes that this machine brings packets to.
    fn elsewhere(&self) -> BTreeMap<IpAddr, IpAddr> {
        match &self.way {
            Way::Device { elsewhere } => elsewhere.clone(),
            Way::Through(_) => BTreeMap::new(),
        }
    }
}

impl Marks {
    fn check(&self) -> Result<(), WantedError> {
        let is_bad = |byte: &u8| *byte == 0 || *byte == b'/' || byte.is_ascii_whitespace();
        let is_name = |name: &str| {
            (1..NAME_BYTES).contains(&name.len()) && !name.as_bytes().iter().any(is_bad)
        };
        let mut names = [&self.device, &self.overlay].into_iter();
        if let Some(name) = names.find(|name| !is_name(name)) {
            return Err(WantedError::Device(name.clone()));
        }
        if self.device == self.overlay {
            return Err(WantedError::OneName(self.device.clone()));
        }
        // RT_TABLE_UNSPEC, and DEFAULT, MAIN and LOCAL.
        let mut tables = [self.table, self.elsewhere].into_iter();
        if let Some(value) = tables.find(|table| matches!(table, 0 | 253..=255)) {
            return Err(WantedError::Reserved { what: "table", value });
        }
        if self.table == self.elsewhere {
            return Err(WantedError::OneName(self.table.to_string()));
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
