//! One other node: what it was told, and since when each part of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv6Net};
use mercato_protocol::codec::CodecError;
use mercato_protocol::egress::Egress;
use mercato_protocol::id::ContractId;
use mercato_protocol::node::{NodeState, NodeWay};
use mercato_protocol::tunnel::{second, second_range};

use crate::nodes::control::{Order, Wish, WishLease, WishNames};

/// One other node of this cluster.
pub(super) struct Seat {
    /// Its one address of the pool.
    pub(super) address: IpAddr,
    /// Its address on the network of the nodes.
    pub(super) machine: IpAddr,
    /// What it is to have; none: it was never told anything.
    wish: Option<Arc<Wish>>,
    /// The names of its leases.
    pub(super) names: WishNames,
    /// By which wish it was first told of a pod or a range that is in the latest.
    since: BTreeMap<Part, u64>,
    /// The version that is in force there, of those that it has heard from this daemon.
    in_force: u64,
    /// The connection that was heard last.
    connection: Option<u64>,
    /// The largest packet of its network; zero: not known.
    mtu: u32,
    /// Whether that is in force for IPv6 too.
    second: bool,
}

/// What of a wish is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Pod(IpAddr),
    Range(IpNet),
}

impl Seat {
    pub(super) fn new(address: IpAddr, machine: IpAddr) -> Self {
        Self {
            address,
            machine,
            wish: None,
            names: WishNames::default(),
            since: BTreeMap::new(),
            in_force: 0,
            connection: None,
            mtu: 0,
            second: false,
        }
    }

    /// Each address that it is known by, with that of its machine.
    pub(super) fn places(&self, pool: Option<Ipv6Net>) -> impl Iterator<Item = (IpAddr, IpAddr)> {
        let second = pool.and_then(|pool| second(pool, self.address));
        [self.address].into_iter().chain(second).map(|address| (address, self.machine))
    }

    /// What its connection has said last. What was in force stays so while the node is not there,
    /// unless it says that it has lost everything.
    pub(super) fn hear(&mut self, connection: u64, held: Option<IpAddr>, state: &NodeState) {
        if self.connection.replace(connection) != Some(connection) && held != Some(self.address) {
            self.in_force = 0;
        }
        self.in_force = self.in_force.max(state.version);
        self.second = state.second;
        if state.mtu > 0 {
            self.mtu = state.mtu;
        }
    }

    pub(super) fn mtu(&self) -> u32 {
        self.mtu
    }

    /// It is to have this; the wish, if it is another than before.
    pub(super) fn wish(
        &mut self,
        version: u64,
        way: Option<NodeWay>,
        leases: Vec<WishLease>,
        others: BTreeSet<IpAddr>,
        never: &Arc<BTreeSet<IpNet>>,
    ) -> Option<Arc<Wish>> {
        // Where nobody goes out it says nothing.
        let goes_out = leases.iter().any(|lease| lease.egress != Egress::None);
        let never = if goes_out { never.clone() } else { Arc::default() };
        let same = |wish: &Arc<Wish>| {
            (&wish.way, &wish.leases, &wish.others, &wish.never) == (&way, &leases, &others, &never)
        };
        if self.wish.as_ref().is_some_and(same) {
            return None;
        }
        let wish = Arc::new(Wish::new(version, way, leases, others, never));
        // Nobody waits for what it is not told.
        let pods = wish.told().flat_map(|lease| lease.pods.iter().copied().map(Part::Pod));
        let ranges = || wish.told().flat_map(|lease| lease.ranges.iter().copied());
        let mut parts: BTreeSet<Part> = pods.chain(ranges().map(Part::Range)).collect();
        if let Some(IpNet::V6(pool)) = wish.way.as_ref().and_then(|way| way.pool_v6) {
            parts.extend(ranges().filter_map(|range| second_range(pool, range)).map(Part::Range));
        }
        self.since.retain(|part, _| parts.contains(part));
        for part in parts {
            self.since.entry(part).or_insert(version);
        }
        self.wish = Some(wish.clone());
        Some(wish)
    }

    /// The leases of which it is not told, and why.
    pub(super) fn untold(&self) -> impl Iterator<Item = (&ContractId, &CodecError)> {
        self.wish.iter().flat_map(|wish| wish.untold())
    }

    /// Whether it is not told of a lease with this pod.
    pub(super) fn lacks_pod(&self, pod: IpAddr) -> bool {
        self.lacks(|lease| lease.pods.contains(&pod))
    }

    /// Whether it is told of no lease with this range, though there is one.
    pub(super) fn lacks_range(&self, range: &IpNet) -> bool {
        !self.since.contains_key(&Part::Range(*range))
            && self.lacks(|lease| lease.ranges.contains(range))
    }

    fn lacks(&self, has: impl Fn(&WishLease) -> bool) -> bool {
        let Some(wish) = &self.wish else { return false };
        let untold = |lease: &&WishLease| wish.untold().contains_key(&lease.id);
        wish.leases.iter().filter(untold).any(has)
    }

    /// Whether the node has what it is to have.
    pub(super) fn is_in_force(&self) -> bool {
        self.wish.as_ref().is_none_or(|wish| wish.version <= self.in_force)
    }

    pub(super) fn order(&self) -> Order {
        let names = || self.names.clone();
        self.wish.clone().map_or(Order::Wait, |wish| Order::Have(wish, names()))
    }

    pub(super) fn has_pod(&self, pod: IpAddr) -> bool {
        self.has(Part::Pod(pod))
    }

    pub(super) fn has_range(&self, range: &IpNet) -> bool {
        self.has(Part::Range(*range))
    }

    fn has(&self, part: Part) -> bool {
        let is_there = match part {
            Part::Pod(pod) => pod.is_ipv4() || self.second,
            Part::Range(range) => range.addr().is_ipv4() || self.second,
        };
        is_there && self.since.get(&part).is_some_and(|since| *since <= self.in_force)
    }
}
