//! All that a node should have: how it reaches the gateway, and what each lease needs of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, at_most, ensure, wire_map};
use crate::egress::Egress;
use crate::gate::GuestUid;
use crate::id::ContractId;
use crate::limits;
use crate::names::is_domain;
use crate::tunnel::SECOND_PREFIX;

/// All that a node should have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// From 1 on each connection; the next one has a larger one.
    pub version: u64,
    /// What there is to be set up; none: nothing, and what there was goes.
    pub way: Option<NodeWay>,
    /// What is reached by it, and who, lease by lease.
    pub leases: BTreeMap<ContractId, NodeLease>,
    /// The ranges of all leases, each once: many leases with one cluster have the same.
    pub ranges: Vec<IpNet>,
    /// The addresses of the pods on this node that are no guests to be closed: nobody who asks from
    /// there is closed, whatever is asked, and who was is released. Said while there are guests
    /// that are closed anywhere.
    pub others: BTreeSet<IpAddr>,
    /// What of this cluster's own no guest reaches, whatever egress its contract has, besides what is nobody's
    /// on the Internet ([`NEVER`](crate::outside::NEVER)). Said where a lease here has egress alone.
    pub never: BTreeSet<IpNet>,
}

/// How a node reaches the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeWay {
    /// All addresses by which pods are known across clusters.
    pub pool: IpNet,
    /// The node's own address of the pool.
    pub address: IpAddr,
    /// The node's own address on the network of the nodes.
    pub machine: IpAddr,
    /// The gateway's address of the pool.
    pub gateway: IpAddr,
    /// The address of the gateway's machine on the network of the nodes.
    pub gateway_machine: IpAddr,
    /// The network identifier of the overlay, of 24 bits.
    pub vni: u32,
    /// The UDP port of the overlay.
    pub port: u32,
    /// The largest packet on the overlay, in bytes.
    pub mtu: u32,
    /// Behind this range pods, nodes and ranges are known by IPv6, each by what it is known by here
    /// ([`second`](crate::tunnel::second)); none: by IPv4 alone.
    pub pool_v6: Option<IpNet>,
    /// The TCP port at which the node answers the gates of its guests.
    pub gate: u32,
    /// Where guests are told names; none: they are told none there.
    pub names: Option<NodeNames>,
}

/// What a node needs to tell guests names, besides those of each lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeNames {
    /// Where it is asked, at port 53: the same address of the pool on every node.
    pub address: IpAddr,
    /// What this cluster calls itself: of its own names it tells guests none.
    pub domain: String,
    /// Whom it asks what it does not know.
    pub servers: Vec<IpAddr>,
}

/// What a lease needs of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeLease {
    /// How long it is in force from now on, in milliseconds: the node ends it by itself.
    pub left_ms: u64,
    /// What of the other cluster is reached, within the pool: places among the ranges of the
    /// snapshot, from 0 on.
    pub ranges: BTreeSet<u32>,
    /// The node's own pods that the other cluster knows: by their own addresses.
    pub pods: BTreeSet<IpAddr>,
    /// Whether these pods are guests of the other cluster: then they alone call its ranges.
    pub guests: bool,
    /// The guests on this node that are closed: they reach these ranges and these Services, and
    /// nobody else.
    pub closed: BTreeSet<NodeGuest>,
    /// The addresses of the lease's own Services: for those guests alone, and by no way of ours.
    pub services: BTreeSet<ServiceAddress>,
    /// The guests on this node that are told the names of the lease, by their own addresses.
    pub askers: BTreeSet<IpAddr>,
    /// Whom those that are closed reach on the Internet.
    pub egress: Egress,
}

/// What a Service of a lease is reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAddress {
    /// The address that this cluster has given to it.
    pub here: IpAddr,
    /// The one that it has at home, by which guests that are closed call it; none: by the other.
    pub home: Option<IpAddr>,
}

/// A guest that is closed on its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGuest {
    /// Which pod of the cluster it is.
    pub uid: GuestUid,
    /// Its own address, once its gate is known to be open: then it is closed without being asked.
    pub pod: Option<IpAddr>,
    /// The address by which everybody knows it, of a range of its lease: the one that its device is to have
    /// in the place of that of the pod network; none: it keeps that.
    pub called: Option<IpAddr>,
}

/// The smallest overlay, in bytes: what each IPv4 host takes (RFC 791).
pub const LEAST_MTU: u32 = 576;
/// The smallest that carries IPv6, in bytes (RFC 8200, section 5).
pub const LEAST_MTU_V6: u32 = 1_280;
/// 24 bits (RFC 7348, section 5).
const LARGEST_VNI: u32 = (1 << 24) - 1;

impl Snapshot {
    pub(super) fn validate(&self) -> Result<(), CodecError> {
        ensure(self.version != 0, "a snapshot without a version")?;
        at_most("leases", self.leases.len(), limits::NODE_LEASES)?;
        at_most("ranges", self.ranges.len(), limits::NODE_RANGES)?;
        self.leases.values().fold(Amount::default(), Amount::with).check()?;
        let ranges: BTreeSet<_> = self.ranges.iter().collect();
        ensure(ranges.len() == self.ranges.len(), "a range comes twice")?;
        at_most("other pods", self.others.len(), limits::NODE_OTHERS)?;
        at_most("networks that nobody reaches", self.never.len(), limits::NODE_NEVER)?;
        ensure(self.has_egress() || self.never.is_empty(), "what nobody reaches who goes nowhere")?;
        let is_there = |place: &u32| usize::try_from(*place).is_ok_and(|it| it < ranges.len());
        self.leases.values().try_for_each(|lease| {
            ensure(lease.ranges.iter().all(is_there), "a range that is not there")?;
            lease.validate()
        })?;
        match &self.way {
            Some(way) => way.validate(),
            None => {
                ensure(self.leases.is_empty(), "a lease without a way")?;
                ensure(self.others.is_empty(), "other pods without a way")
            }
        }
    }
}

impl Snapshot {
    /// Whether a guest of any of its leases reaches anybody on the Internet.
    fn has_egress(&self) -> bool {
        self.leases.values().any(|lease| lease.egress != Egress::None)
    }
}

impl NodeWay {
    fn validate(&self) -> Result<(), CodecError> {
        let of_pool = [self.address, self.gateway];
        ensure(of_pool.iter().all(|it| self.pool.contains(it)), "an address not of the pool")?;
        ensure(self.address != self.gateway, "a node that is its own gateway")?;
        ensure(self.machine != self.gateway_machine, "a machine that is its own gateway")?;
        ensure((1..=LARGEST_VNI).contains(&self.vni), "no such network")?;
        let is_port = |port| (1..=u32::from(u16::MAX)).contains(&port);
        ensure(is_port(self.port) && is_port(self.gate), "no such port")?;
        ensure(self.mtu >= LEAST_MTU, "a network that carries nothing")?;
        self.names.as_ref().map_or(Ok(()), |names| names.validate(self))?;
        let Some(pool) = self.pool_v6 else { return Ok(()) };
        let is_behind = pool.addr().is_ipv6() && pool.prefix_len() == SECOND_PREFIX;
        ensure(is_behind && self.pool.addr().is_ipv4(), "a second pool that is none")?;
        ensure(self.mtu >= LEAST_MTU_V6, "a network that carries no IPv6")
    }
}

impl NodeNames {
    fn validate(&self, way: &NodeWay) -> Result<(), CodecError> {
        ensure(way.pool.contains(&self.address), "a name server not of the pool")?;
        let nodes = [way.address, way.gateway];
        ensure(!nodes.contains(&self.address), "a name server with the address of a node")?;
        ensure(is_domain(&self.domain), "no domain")?;
        at_most("name servers", self.servers.len(), limits::NODE_SERVERS)
    }
}

impl NodeLease {
    /// But for the places of its ranges, of which the snapshot knows.
    fn validate(&self) -> Result<(), CodecError> {
        ensure(self.left_ms > 0, "a lease that has ended")?;
        ensure(self.guests || self.closed.is_empty(), "a guest of nobody")?;
        at_most("Services of a lease", self.services.len(), limits::LEASE_SERVICES)?;
        ensure(!self.closed.is_empty() || self.services.is_empty(), "a Service for nobody")?;
        ensure(!self.closed.is_empty() || self.egress == Egress::None, "egress for nobody")?;
        let mut homes = self.services.iter().filter_map(|service| service.home);
        ensure(homes.all(is_callable), "an address that no Service has")?;
        ensure(self.guests || self.askers.is_empty(), "an asker for names of nobody")
    }
}

/// How much there is in leases, all together.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    ranges: usize,
    pods: usize,
    guests: usize,
    services: usize,
    askers: usize,
    outside: usize,
}

impl Amount {
    fn with(self, lease: &NodeLease) -> Self {
        Self {
            ranges: self.ranges + lease.ranges.len(),
            pods: self.pods + lease.pods.len(),
            guests: self.guests + lease.closed.len(),
            services: self.services + lease.services.len(),
            askers: self.askers + lease.askers.len(),
            outside: self.outside + lease.egress.ranges().len(),
        }
    }

    fn check(self) -> Result<(), CodecError> {
        at_most("ranges of leases", self.ranges, limits::NODE_LEASE_RANGES)?;
        at_most("pods", self.pods, limits::NODE_PODS)?;
        at_most("guests", self.guests, limits::NODE_GUESTS)?;
        at_most("Services", self.services, limits::NODE_SERVICES)?;
        at_most("askers", self.askers, limits::NODE_ASKERS)?;
        at_most("ranges of egress", self.outside, limits::NODE_OUTSIDE)
    }
}

/// A snapshot that is put together lease by lease. A lease that no message may have is left out, and
/// keeps no other one out.
#[derive(Debug)]
pub struct Draft {
    snapshot: Snapshot,
    /// Where each range stands in it.
    places: BTreeMap<IpNet, u32>,
    amount: Amount,
}

impl Draft {
    /// One that has no lease yet.
    pub fn new(version: u64, way: Option<NodeWay>, others: BTreeSet<IpAddr>) -> Self {
        let (leases, ranges, never) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        let snapshot = Snapshot { version, way, leases, ranges, others, never };
        Self { snapshot, places: BTreeMap::new(), amount: Amount::default() }
    }

    /// Adds what a lease needs, which reaches these ranges, whichever it names itself.
    ///
    /// # Errors
    /// Why no message may have it, or that there is no room for it: all is as before then.
    pub fn put(
        &mut self,
        id: ContractId,
        lease: NodeLease,
        ranges: &[IpNet],
    ) -> Result<(), CodecError> {
        let Self { snapshot, places, amount } = self;
        ensure(snapshot.way.is_some(), "a lease without a way")?;
        ensure(!snapshot.leases.contains_key(&id), "a lease comes twice")?;
        at_most("leases", snapshot.leases.len() + 1, limits::NODE_LEASES)?;
        let reached: BTreeSet<&IpNet> = ranges.iter().collect();
        let new: Vec<_> = reached.iter().filter(|range| !places.contains_key(**range)).collect();
        at_most("ranges", places.len() + new.len(), limits::NODE_RANGES)?;
        // Their places are known once there is room for all.
        let lease = NodeLease { ranges: (0..).take(reached.len()).collect(), ..lease };
        let with = amount.with(&lease);
        with.check()?;
        lease.validate()?;
        for (place, range) in (0..).skip(places.len()).zip(new) {
            places.insert(**range, place);
            snapshot.ranges.push(**range);
        }
        let ranges = reached.iter().filter_map(|range| places.get(*range).copied()).collect();
        snapshot.leases.insert(id, NodeLease { ranges, ..lease });
        *amount = with;
        Ok(())
    }

    /// The snapshot with all leases that were added, and with these networks that no guest reaches if any of
    /// them has egress.
    pub fn finish(self, never: &BTreeSet<IpNet>) -> Snapshot {
        let never = if self.snapshot.has_egress() { never.clone() } else { BTreeSet::new() };
        Snapshot { never, ..self.snapshot }
    }
}

/// Whether a Service may have this address at home: pods call it, by IPv4, and nobody else is meant.
pub fn is_callable(address: IpAddr) -> bool {
    let IpAddr::V4(address) = address else { return false };
    // 0.0.0.0/8 and 224.0.0.0/3 are nobody's.
    (1..224).contains(&address.octets()[0]) && !address.is_loopback() && !address.is_link_local()
}

wire_map!(Snapshot { 1 => version, 2 => way, 3 => leases, 4 => ranges, 5 => others, 6 => never });
wire_map!(NodeWay {
    1 => pool,
    2 => address,
    3 => machine,
    4 => gateway,
    5 => gateway_machine,
    6 => vni,
    7 => port,
    8 => mtu,
    9 => pool_v6,
    10 => gate,
    11 => names,
});
wire_map!(NodeNames { 1 => address, 2 => domain, 3 => servers });
wire_map!(NodeLease {
    1 => left_ms,
    2 => ranges,
    3 => pods,
    4 => guests,
    5 => closed,
    6 => services,
    7 => askers,
    8 => egress,
});
wire_map!(ServiceAddress { 1 => here, 2 => home });
wire_map!(NodeGuest { 1 => uid, 2 => pod, 3 => called });
