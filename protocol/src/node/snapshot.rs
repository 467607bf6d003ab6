//! All that a node should have: how it reaches the gateway, and what each lease needs of it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, at_most, ensure, wire_map};
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
    pub leases: Vec<NodeLease>,
    /// The ranges of all leases, each once: many leases with one cluster have the same.
    pub ranges: Vec<IpNet>,
    /// The addresses of the pods on this node that are no guests to be closed: nobody who asks from
    /// there is closed, whatever is asked, and who was is released. Said while there are guests
    /// that are closed anywhere.
    pub others: Vec<IpAddr>,
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
    pub ranges: Vec<u32>,
    /// The node's own pods that the other cluster knows: by their own addresses.
    pub pods: Vec<IpAddr>,
    /// Whether these pods are guests of the other cluster: then they alone call its ranges.
    pub guests: bool,
    /// The guests on this node that are closed: they reach these ranges and these Services, and
    /// nobody else.
    pub closed: Vec<NodeGuest>,
    /// The addresses of the lease's own Services: for those guests alone, and by no way of ours.
    pub services: Vec<ServiceAddress>,
    /// Which lease it is, where guests on this node are told its names.
    pub lease: Option<ContractId>,
    /// The guests on this node that are, by their own addresses.
    pub askers: Vec<IpAddr>,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGuest {
    /// Which pod of the cluster it is.
    pub uid: GuestUid,
    /// Its own address, once its gate is known to be open: then it is closed without being asked.
    pub pod: Option<IpAddr>,
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
        let count = |of: fn(&NodeLease) -> usize| self.leases.iter().map(of).sum::<usize>();
        at_most("ranges", self.ranges.len(), limits::NODE_RANGES)?;
        let of_leases = count(|lease| lease.ranges.len());
        at_most("ranges of leases", of_leases, limits::NODE_LEASE_RANGES)?;
        at_most("pods", count(|lease| lease.pods.len()), limits::NODE_PODS)?;
        at_most("guests", count(|lease| lease.closed.len()), limits::NODE_GUESTS)?;
        at_most("Services", count(|lease| lease.services.len()), limits::NODE_SERVICES)?;
        at_most("askers", count(|lease| lease.askers.len()), limits::NODE_ASKERS)?;
        let ranges: BTreeSet<_> = self.ranges.iter().collect();
        ensure(ranges.len() == self.ranges.len(), "a range comes twice")?;
        at_most("other pods", self.others.len(), limits::NODE_OTHERS)?;
        let others: BTreeSet<_> = self.others.iter().collect();
        ensure(others.len() == self.others.len(), "another pod comes twice")?;
        self.leases.iter().try_for_each(|lease| lease.validate(self.ranges.len()))?;
        match &self.way {
            Some(way) => way.validate(),
            None => {
                ensure(self.leases.is_empty(), "a lease without a way")?;
                ensure(self.others.is_empty(), "other pods without a way")
            }
        }
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
    /// There are so many ranges in the snapshot.
    fn validate(&self, of: usize) -> Result<(), CodecError> {
        ensure(self.left_ms > 0, "a lease that has ended")?;
        let is_there = |range: &u32| usize::try_from(*range).is_ok_and(|place| place < of);
        ensure(self.ranges.iter().all(is_there), "a range that is not there")?;
        let (ranges, pods): (BTreeSet<_>, BTreeSet<_>) =
            (self.ranges.iter().collect(), self.pods.iter().collect());
        ensure(ranges.len() == self.ranges.len(), "a range comes twice")?;
        ensure(pods.len() == self.pods.len(), "a pod comes twice")?;
        let closed: BTreeSet<_> = self.closed.iter().map(|guest| &guest.uid).collect();
        ensure(closed.len() == self.closed.len(), "a guest comes twice")?;
        ensure(self.guests || self.closed.is_empty(), "a guest of nobody")?;
        at_most("Services of a lease", self.services.len(), limits::LEASE_SERVICES)?;
        let services: BTreeSet<_> = self.services.iter().map(|service| service.here).collect();
        ensure(services.len() == self.services.len(), "a Service comes twice")?;
        ensure(!self.closed.is_empty() || self.services.is_empty(), "a Service for nobody")?;
        let mut homes = self.services.iter().filter_map(|service| service.home);
        ensure(homes.all(is_callable), "an address that no Service has")?;
        let askers: BTreeSet<_> = self.askers.iter().collect();
        ensure(askers.len() == self.askers.len(), "an asker comes twice")?;
        let is_told = self.lease.is_some() && self.guests;
        ensure(is_told || self.askers.is_empty(), "an asker for names of nobody")
    }
}

/// Whether a Service may have this address at home: pods call it, by IPv4, and nobody else is meant.
pub fn is_callable(address: IpAddr) -> bool {
    let IpAddr::V4(address) = address else { return false };
    // 0.0.0.0/8 and 224.0.0.0/3 are nobody's.
    (1..224).contains(&address.octets()[0]) && !address.is_loopback() && !address.is_link_local()
}

wire_map!(Snapshot { 1 => version, 2 => way, 3 => leases, 4 => ranges, 5 => others });
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
    7 => lease,
    8 => askers,
});
wire_map!(ServiceAddress { 1 => here, 2 => home });
wire_map!(NodeGuest { 1 => uid, 2 => pod });
