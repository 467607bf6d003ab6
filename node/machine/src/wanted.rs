//! What the gateway wants of its machine, and by which marks its own things are known.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::egress::Outward;
use crate::error::WantedError;
use crate::family::{Family, Place};
use crate::limits;
use crate::overlay::{Mac, Overlay, Way};

/// Bytes that the kernel has for the name of a device, with a zero at the end (`IFNAMSIZ`).
pub(crate) const NAME_BYTES: usize = 16;

/// A guess: the largest ranges that are nobody's on the Internet are 10.0.0.0/8 and fd00::/8.
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

impl Marks {
    /// What the two devices are called by which it is tried for a moment what is forwarded.
    pub const OF_TRIALS: [&'static str; 2] = ["mercato-in", "mercato-out"];
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
    /// The same of the other family, in a cluster that has both.
    pub second: Option<Place>,
    /// Where guests ask for names, on this node as on each other; none: nowhere.
    pub names: Option<NamesWay>,
    /// At the gateway: where guests that run elsewhere reach this cluster's API server; none: nowhere.
    pub api: Option<ApiWay>,
    /// What of other clusters is reached, within the pools.
    pub ranges: BTreeSet<IpNet>,
    /// Those of them that are reached by mapped pods alone: the homes of guests that run here.
    /// Whoever else calls there is not answered.
    pub homes: BTreeSet<IpNet>,
    /// This node's own pods that are mapped: they keep their source, and are reached from other
    /// clusters.
    pub pods: BTreeSet<IpAddr>,
    /// This node's guests, by their own addresses of the pod network, of whichever family they have:
    /// they call other clusters alone, and only if they are among the pods.
    pub guests: BTreeSet<IpAddr>,
    /// Which guests reach whom beyond clusters: also those that are about to begin, and are not among them yet.
    pub outward: Outward,
    /// By which of our devices, and so whether the gateway runs here.
    pub way: Way,
    /// The way to the other nodes; without, this machine is the only one that other clusters
    /// reach.
    pub overlay: Option<Overlay>,
}

/// Where guests of this node ask for names, by UDP and TCP at the port of name servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamesWay {
    /// An address of the pool, which is this machine's.
    pub address: IpAddr,
    /// Whether the name server of this program listens there. No guest reaches the address before:
    /// another program may have that port at all addresses.
    pub listens: bool,
}

/// Where guests that run elsewhere reach this cluster's API server, by TCP at the port of HTTPS: who
/// listens there passes bytes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiWay {
    /// An address of the pool, which is this machine's.
    pub address: IpAddr,
    /// The guests that may, as they are known in the pool. Nobody else reaches it, from wherever.
    pub callers: BTreeSet<IpAddr>,
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
        for family in Family::ALL {
            let is_here = |address: &IpAddr| Family::of(*address) == family;
            let pods = self.pods.iter().filter(|pod| is_here(pod)).count();
            let ranges = self.ranges.iter().filter(|range| is_here(&range.addr())).count();
            let elsewhere = self.elsewhere().into_keys().filter(is_here).count();
            let nodes = self.overlay.iter().flat_map(|overlay| overlay.nodes.keys());
            let nodes = nodes.copied().filter(is_here).count();
            let guests = self.guests.iter().filter(|guest| is_here(guest)).count();
            bound("pods", pods, limits::PODS)?;
            bound("guests", guests, limits::GUESTS)?;
            bound("ranges", ranges, limits::RANGES)?;
            bound("pods of other nodes", elsewhere, limits::ELSEWHERE)?;
            bound("nodes", nodes, limits::NODES)?;
        }
        bound("networks that no guest reaches", self.outward.never.len(), limits::NEVER)?;
        bound("networks of contracts with egress", self.outward.to.len(), limits::ALL_NAMED)?;
        let callers = self.api.as_ref().map_or(0, |api| api.callers.len());
        bound("guests that call an API server", callers, limits::CALLERS)?;
        self.check_addresses()?;
        let overlay = self.overlay.as_ref().map(|overlay| overlay.mtu);
        let smallest = overlay.map_or(self.mtu, |mtu| mtu.min(self.mtu));
        if self.place(Family::V6).is_some() && smallest < Family::LEAST_MTU {
            return Err(WantedError::Small { mtu: smallest, least: Family::LEAST_MTU });
        }
        self.overlay
            .as_ref()
            .map_or(Ok(()), |overlay| overlay.check(&self.places().collect::<Vec<_>>()))?;
        self.check_way()
    }

    /// The same without the second family, and all that is of it.
    pub fn first_alone(&self) -> Self {
        let family = Family::of_net(self.pool);
        let is_first = |address: &IpAddr| Family::of(*address) == family;
        let mut first = Self { second: None, ..self.clone() };
        first.names = first.names.filter(|names| is_first(&names.address));
        first.ranges.retain(|range| Family::of_net(*range) == family);
        first.homes.retain(|home| Family::of_net(*home) == family);
        first.pods.retain(is_first);
        if let Way::Device { elsewhere } = &mut first.way {
            elsewhere.retain(|pod, _| is_first(pod));
        }
        if let Some(overlay) = &mut first.overlay {
            overlay.nodes.retain(|node, _| is_first(node));
        }
        first
    }

    /// What this node has of each family that it has.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + use<> {
        [Place { pool: self.pool, node: self.node }].into_iter().chain(self.second)
    }

    /// The addresses that its device of the way has.
    pub(crate) fn own(&self) -> impl Iterator<Item = IpNet> + use<> {
        let api = self.api.as_ref().map(|api| api.address);
        let names = self.names.map(|names| names.address);
        self.places().map(|place| place.node).chain(names).chain(api).map(IpNet::from)
    }

    /// What this node has of a family.
    pub(crate) fn place(&self, family: Family) -> Option<Place> {
        self.places().find(|place| Family::of_net(place.pool) == family)
    }

    /// What this node is called in frames: by its address of IPv4, if it has one.
    pub(crate) fn mac(&self) -> Mac {
        let second = self.second.map_or(self.node, |second| second.node);
        Mac::of(self.node.min(second))
    }

    /// Each address is of a family that this node has, and in or out of its pool.
    fn check_addresses(&self) -> Result<(), WantedError> {
        if let Some(second) = self.second
            && Family::of_net(second.pool) == Family::of_net(self.pool)
        {
            return Err(WantedError::SameFamily { first: self.pool, second: second.pool });
        }
        if let Some(wide) = self.places().find(|place| place.pool.prefix_len() < WIDEST_POOL) {
            return Err(WantedError::Wide(wide.pool));
        }
        for Place { pool, node } in self.places() {
            if !pool.contains(&node) {
                return Err(WantedError::Outside { address: node.into(), pool });
            }
        }
        let api = self.api.iter().flat_map(|api| api.callers.iter().chain([&api.address]));
        let mut of_pool = self.names.iter().map(|names| &names.address).chain(api);
        if let Some(outside) = of_pool.find(|address| !self.pool.contains(*address)) {
            return Err(WantedError::Outside { address: (*outside).into(), pool: self.pool });
        }
        let pool = |net: IpNet| {
            let place = self.place(Family::of_net(net)).ok_or(WantedError::Family(net))?;
            Ok(place.pool)
        };
        let nodes = self.overlay.iter().flat_map(|overlay| overlay.nodes.keys());
        let nodes = nodes.map(|node| IpNet::from(*node));
        if let Some(home) = self.homes.iter().find(|home| !self.ranges.contains(home)) {
            return Err(WantedError::NoRange(*home));
        }
        for address in self.ranges.iter().copied().chain(nodes) {
            let pool = pool(address)?;
            if !pool.contains(&address) {
                return Err(WantedError::Outside { address, pool });
            }
        }
        for pod in self.pods.iter().copied().chain(self.elsewhere().into_keys()) {
            let pool = pool(pod.into())?;
            if pool.contains(&pod) {
                return Err(WantedError::PodInPool { pod, pool });
            }
        }
        // They may have a family that this node has no pool of: it is closed to them as well.
        for pod in self.guests.iter().copied() {
            if let Some(place) = self.place(Family::of(pod)).filter(|it| it.pool.contains(&pod)) {
                return Err(WantedError::PodInPool { pod, pool: place.pool });
            }
        }
        Ok(())
    }

    /// Whoever is reached by the overlay is a node of it, with an address of the family of what is
    /// sent there.
    fn check_way(&self) -> Result<(), WantedError> {
        let overlay = self.overlay.as_ref();
        let by_family = overlay.map(|overlay| Family::ALL.map(|family| overlay.of_family(family)));
        let by_family = by_family.unwrap_or_default();
        let known = |node: IpAddr, to: IpNet| {
            if !overlay.is_some_and(|overlay| overlay.nodes.contains_key(&node)) {
                return Err(WantedError::UnknownNode(node));
            }
            let [four, six] = &by_family;
            let of_family = if to.addr().is_ipv4() { four } else { six };
            let is_known = of_family.contains_key(&node);
            if is_known { Ok(()) } else { Err(WantedError::OneFamily { node, to }) }
        };
        match &self.way {
            Way::Through(gateway) => {
                known(*gateway, (*gateway).into())?;
                self.ranges.iter().try_for_each(|range| known(*gateway, *range))?;
            }
            Way::Device { elsewhere } => {
                elsewhere.iter().try_for_each(|(pod, node)| known(*node, (*pod).into()))?;
            }
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
