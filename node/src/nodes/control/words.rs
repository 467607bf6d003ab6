//! What is said between the task that keeps the tunnel and the connections of nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use mercato_protocol::id::ContractId;
use mercato_protocol::names::LeaseNames;
use mercato_protocol::node::{NodeGuest, NodeLease, NodeWay, ServiceAddress, Snapshot, ToNode};
use tokio::sync::watch;

/// What a node's connection tells.
#[derive(Debug)]
pub(crate) enum NodeEvent {
    /// The node is there. Of several connections of one node the latest counts.
    Joined {
        node: String,
        connection: u64,
        /// The address of the pool that is in force there.
        held: Option<IpAddr>,
        /// Takes what the node is to have; dropped, it ends the connection.
        orders: watch::Sender<Order>,
    },
    /// How it is with what it was told.
    State { node: String, connection: u64, state: NodeState },
    /// The connection of the node has ended.
    Left { node: String, connection: u64 },
}

/// How it is at a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeState {
    /// Of the wish that is in force there.
    pub(crate) version: u64,
    /// The largest packet of the network of the nodes there, in bytes; zero: not known.
    pub(crate) mtu: u32,
    /// Why the latest wish is not in force.
    pub(crate) trouble: Option<String>,
    /// Why guests cannot be closed there.
    pub(crate) open: Option<String>,
    /// Whether what is in force is so for IPv6 too.
    pub(crate) second: bool,
    /// How often packet rules were put back there that somebody else had changed; none: not said yet.
    pub(crate) mended: Option<u64>,
    /// Why guests there are told no names, though they should be.
    pub(crate) unnamed: Option<String>,
}

/// What a node is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Nothing is said to it yet.
    Wait,
    /// To have all of this, and nothing else; with these names of leases.
    Have(Arc<Wish>, WishNames),
    /// To leave its machine alone.
    Own,
    /// To go, and why it has to.
    Refuse(String),
}

/// The names of the leases whose guests ask a node.
pub(crate) type WishNames = Arc<BTreeMap<ContractId, Arc<LeaseNames>>>;

/// All that a node should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Larger than those of all before.
    pub(crate) version: u64,
    pub(crate) way: Option<NodeWay>,
    pub(crate) leases: Vec<WishLease>,
    /// Addresses of pods there that are no guests to be closed.
    pub(crate) others: Vec<IpAddr>,
}

/// What a lease needs of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WishLease {
    /// When it ends, by the wall clock.
    pub(crate) until_ms: u64,
    pub(crate) ranges: Arc<Vec<IpNet>>,
    pub(crate) pods: Vec<IpAddr>,
    /// Whether these pods are guests: then they alone call the ranges.
    pub(crate) guests: bool,
    /// The guests that are closed.
    pub(crate) closed: Vec<NodeGuest>,
    /// The addresses of the lease's Services, which they reach.
    pub(crate) services: Arc<Vec<ServiceAddress>>,
    /// Which lease it is, where its guests are told names,
    pub(crate) lease: Option<ContractId>,
    /// and those on the node that are.
    pub(crate) askers: Vec<IpAddr>,
}

/// What was said last on a connection, so that nothing is said twice.
#[derive(Default)]
pub(super) struct Told {
    version: Option<u64>,
    names: BTreeMap<ContractId, Arc<LeaseNames>>,
}

impl Told {
    /// What is to be said of an order, at this time, in this order.
    pub(super) fn words(&mut self, order: &Order, wall_ms: u64) -> Vec<ToNode> {
        let (wish, names) = match order {
            Order::Wait => return Vec::new(),
            Order::Own => return vec![ToNode::Own],
            Order::Refuse(text) => return vec![refused(text)],
            Order::Have(wish, names) => (wish, names),
        };
        let is_new = self.version.replace(wish.version) != Some(wish.version);
        let mut words = Vec::new();
        if is_new {
            words.push(ToNode::Snapshot(wish.at(wall_ms)));
        }
        // The node forgets the names of a lease that a snapshot does not have.
        let has = |id: &ContractId| wish.leases.iter().any(|it| it.lease.as_ref() == Some(id));
        self.names.retain(|id, _| has(id));
        for (id, said) in names.iter().filter(|(id, _)| has(id)) {
            if self.names.get(id) != Some(said) {
                self.names.insert(*id, said.clone());
                words.push(ToNode::Names((**said).clone()));
            }
        }
        words
    }
}

impl Wish {
    fn at(&self, wall_ms: u64) -> Snapshot {
        let (version, way) = (self.version, self.way.clone());
        let left = self.leases.iter().filter(|lease| way.is_some() && lease.until_ms > wall_ms);
        let (mut ranges, mut places) = (Vec::new(), BTreeMap::new());
        let mut place = |range: &IpNet| {
            *places.entry(*range).or_insert_with(|| {
                ranges.push(*range);
                // There are fewer than a message takes.
                u32::try_from(ranges.len() - 1).unwrap_or(u32::MAX)
            })
        };
        let lease = |lease: &WishLease| NodeLease {
            left_ms: lease.until_ms - wall_ms,
            ranges: lease.ranges.iter().map(&mut place).collect(),
            pods: lease.pods.clone(),
            guests: lease.guests,
            closed: lease.closed.clone(),
            services: lease.services.to_vec(),
            lease: lease.lease,
            askers: lease.askers.clone(),
        };
        let leases = left.map(lease).collect();
        let others = if way.is_some() { self.others.clone() } else { Vec::new() };
        Snapshot { version, way, leases, ranges, others }
    }
}

/// A refusal, as much of it as may be said.
pub(super) fn refused(text: &str) -> ToNode {
    let end = text.floor_char_boundary(mercato_protocol::limits::LINE_BYTES);
    ToNode::Refused { text: text[..end].to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_has_ended_is_not_said() {
        let address = |text: &str| text.parse().unwrap();
        let way = NodeWay {
            pool: "10.200.0.0/13".parse().unwrap(),
            address: address("10.203.7.9"),
            machine: address("192.0.2.9"),
            gateway: address("10.203.7.0"),
            gateway_machine: address("192.0.2.8"),
            vni: 7_475,
            port: 7_477,
            mtu: 1_420,
            pool_v6: None,
            gate: 7_479,
            names: None,
        };
        let range = |text: &str| -> IpNet { text.parse().unwrap() };
        let [first, second] = ["10.201.3.0/25", "10.201.4.0/25"].map(range);
        let lease = |until_ms, ranges: &[IpNet]| WishLease {
            until_ms,
            ranges: Arc::new(ranges.to_vec()),
            pods: vec![],
            guests: false,
            closed: vec![],
            services: Arc::default(),
            lease: None,
            askers: vec![],
        };
        let leases =
            vec![lease(1_000, &[first]), lease(5_000, &[second]), lease(6_000, &[first, second])];
        let wish = Wish { version: 3, way: Some(way), leases, others: vec![] };
        let said = wish.at(2_000);
        let left: Vec<_> =
            said.leases.iter().map(|lease| (lease.left_ms, &lease.ranges[..])).collect();
        assert_eq!(left, [(3_000, &[0][..]), (4_000, &[1, 0])]);
        assert_eq!(said.ranges, [second, first], "each is said once");
        assert_eq!(Told::default().words(&Order::Wait, 0), []);
    }

    #[test]
    fn names_are_said_after_their_snapshot_and_once() {
        let id = ContractId([5; 16]);
        let names = |domain: &str| {
            let (domains, namespaces) = (vec![domain.to_owned()], vec![]);
            let (is_part, forwards, api) = (false, true, None);
            let own = vec![];
            let said = LeaseNames { lease: id, domains, is_part, forwards, namespaces, api, own };
            WishNames::new([(id, Arc::new(said))].into())
        };
        let lease = |of| WishLease {
            until_ms: 9_000,
            ranges: Arc::default(),
            pods: vec![],
            guests: true,
            closed: vec![],
            services: Arc::default(),
            lease: of,
            askers: vec![],
        };
        let wish = |version, of| {
            let leases = vec![lease(of)];
            Arc::new(Wish { version, way: None, leases, others: vec![] })
        };
        let mut told = Told::default();
        let mut said = |version, of, domain: &str| {
            let words = told.words(&Order::Have(wish(version, of), names(domain)), 1_000);
            let kind = |word: &ToNode| match word {
                ToNode::Snapshot(_) => "snapshot",
                ToNode::Names(_) => "names",
                ToNode::Heard | ToNode::Own | ToNode::Refused { .. } => "another",
            };
            words.iter().map(kind).collect::<Vec<_>>()
        };
        assert_eq!(said(1, Some(id), "a.example"), ["snapshot", "names"]);
        assert_eq!(said(1, Some(id), "a.example"), [""; 0], "nothing has changed");
        assert_eq!(said(1, Some(id), "b.example"), ["names"]);
        assert_eq!(said(2, Some(id), "b.example"), ["snapshot"]);
        assert_eq!(said(3, None, "b.example"), ["snapshot"], "the node forgets them");
        assert_eq!(said(4, Some(id), "b.example"), ["snapshot", "names"]);
    }
}
