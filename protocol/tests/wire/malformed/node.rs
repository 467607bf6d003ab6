//! What the daemon of a cluster and a node of it must not say to each other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use mercato_protocol::egress::Egress;
use mercato_protocol::id::ContractId;
use mercato_protocol::limits;
use mercato_protocol::names::{LeaseNames, NamesChange, ServiceNames};
use mercato_protocol::node::{
    FromNode, NodeLease, NodeNames, NodeState, NodeWay, ServiceAddress, Snapshot, ToNode,
    UnopenedName,
};

use super::{Case, unchecked};
use crate::samples;

pub(super) fn cases() -> Vec<Case> {
    let mut all = of_each();
    let own = [
        ("a hostname of capitals", names(|it| it.own[0].hostname = "DB".into()), "Invalid"),
        ("no subdomain", names(|it| it.own[0].subdomain.clear()), "Invalid"),
        ("a namespace of two labels", names(|it| it.own[0].home = "a.b".into()), "Invalid"),
        ("a range of another length", names(|it| it.ranges[0].here = pool()), "Invalid"),
        ("too many ranges", names(|it| it.ranges = vec![it.ranges[0]; 129]), "TooLong"),
        ("too many own names", names(|it| it.own = vec![it.own[0].clone(); 513]), "TooLong"),
    ];
    let egress = [
        ("egress of nobody", with(goes_out), "Invalid"),
        ("nowhere to go, and what nobody reaches", never(Egress::None, 1), "Invalid"),
        (
            "too much that nobody reaches",
            never(Egress::Internet, limits::NODE_NEVER + 1),
            "TooLong",
        ),
    ];
    let both = own.into_iter().chain(egress);
    all.extend(both.map(|(name, bytes, error)| ("to-node", name, bytes, error)));
    all
}

fn of_each() -> Vec<Case> {
    let (way, ranges) = (Some(samples::node_way()), vec![range(); 2]);
    let (leases, others, services) = (BTreeMap::new(), BTreeSet::new(), limits::LEASE_SERVICES);
    let twice = ToNode::Snapshot(Snapshot {
        version: 1,
        way,
        leases,
        ranges,
        others,
        never: BTreeSet::new(),
    });
    let refused = ToNode::Refused { text: "x".repeat(limits::LINE_BYTES + 1) };
    let node = samples::node_way();
    let to = [
        ("too long a reason", unchecked(&refused), "TooLong"),
        ("no version", unchecked(&snapshot(0, Some(samples::node_way()), vec![])), "Invalid"),
        ("a lease without a way", unchecked(&snapshot(1, None, vec![lease()])), "Invalid"),
        ("a lease that has ended", with(|lease| lease.left_ms = 0), "Invalid"),
        ("a pod twice", pods(7), "Invalid"),
        ("pods out of order", pods(6), "Invalid"),
        ("a range that is not there", with(|lease| lease.ranges = [1].into()), "Invalid"),
        ("a guest of nobody", with(|lease| lease.closed = [samples::guest()].into()), "Invalid"),
        ("too many Services", with(|lease| serving(lease, services + 1)), "TooLong"),
        ("a Service for nobody", with(unserved), "Invalid"),
        ("a Service at home", with(|lease| called(lease, "127.0.0.1")), "Invalid"),
        ("a range twice", unchecked(&twice), "Invalid"),
        ("other pods without a way", besides(None), "Invalid"),
        ("an address not of the pool", by(|way| way.address = way.machine), "Invalid"),
        ("a gateway not of the pool", by(|way| way.gateway = way.machine), "Invalid"),
        ("a node that is its own gateway", by(|way| way.gateway = way.address), "Invalid"),
        ("a machine by itself", by(|way| way.gateway_machine = way.machine), "Invalid"),
        ("no network identifier", by(|way| way.vni = 0), "Invalid"),
        ("a network identifier of 25 bits", by(|way| way.vni = 1 << 24), "Invalid"),
        ("no port", by(|way| way.port = 0), "Invalid"),
        ("a port of 17 bits", by(|way| way.port = 1 << 16), "Invalid"),
        ("no port of gates", by(|way| way.gate = 0), "Invalid"),
        ("a network that carries nothing", by(|way| way.mtu = 575), "Invalid"),
        (
            "a name server not of the pool",
            named(|it| it.address = [192, 0, 2, 1].into()),
            "Invalid",
        ),
        ("a name server that is the node", named(|it| it.address = node.address), "Invalid"),
        ("no domain of the cluster", named(|it| it.domain.clear()), "Invalid"),
        ("too many name servers", named(|it| it.servers = vec![node.machine; 4]), "TooLong"),
        ("an asker that is no guest", with(unasked), "Invalid"),
        ("a domain of capitals", names(|it| it.domains = vec!["Cluster.local".into()]), "Invalid"),
        ("too many domains", names(|it| it.domains = vec!["a".into(); 5]), "TooLong"),
        ("a namespace with a dot", names(|it| it.namespaces[0].home = "a.b".into()), "Invalid"),
        ("a Service without a name", names(|it| service(it, 0).name.clear()), "Invalid"),
        ("no port of a Service", names(|it| service(it, 0).ports[0].port = 0), "Invalid"),
        ("too many ports", names(|it| many(service(it, 0))), "TooLong"),
        (
            "two things at once",
            names(|it| service(it, 2).addresses = vec![node.address]),
            "Invalid",
        ),
        ("a hostname with a star", names(|it| starred(service(it, 1))), "Invalid"),
        ("a change of later names", changed(|it| it.after = it.number), "Invalid"),
        ("too many changes", changed(|it| it.parts = vec![it.parts[0].clone(); 1_025]), "TooLong"),
        ("a second pool of the first family", second("10.200.0.0/13", 1_420), "Invalid"),
        ("a second pool of another length", second("fd4d:6572:6361:746f::/64", 1_420), "Invalid"),
        ("a network that carries no IPv6", second("fd4d:6572:6361:746f::/96", 1_279), "Invalid"),
    ];
    from_node().chain(to.map(|(name, bytes, error)| ("to-node", name, bytes, error))).collect()
}

fn from_node() -> impl Iterator<Item = Case> {
    let token = "x".repeat(limits::NODE_TOKEN_BYTES + 1);
    let hello = unchecked(&FromNode::Hello { token, address: None });
    let long = || Some("x".repeat(limits::LINE_BYTES + 1));
    let says = |state| unchecked(&FromNode::State(state));
    let because = |of: fn(&mut NodeState) -> &mut Option<String>| {
        let mut state = NodeState::default();
        *of(&mut state) = long();
        says(state)
    };
    let asked = |unopened| says(NodeState { unopened, ..NodeState::default() });
    let many = (0..=limits::NODE_UNOPENED).map(|n| {
        let guest = [10, 42, 1, u8::try_from(n).unwrap()].into();
        UnopenedName { guest, ..samples::unopened_name() }
    });
    let no_label = UnopenedName { service: "Db".into(), ..samples::unopened_name() };
    let no_namespace = UnopenedName { namespace: "da.ta".into(), ..samples::unopened_name() };
    let all = [
        ("too long a token", hello, "TooLong"),
        ("too long a reason", because(|it| &mut it.trouble), "TooLong"),
        ("too long a reason why guests are open", because(|it| &mut it.open), "TooLong"),
        ("too long a reason why none are told names", because(|it| &mut it.unnamed), "TooLong"),
        ("too long a reason why egress is not kept", because(|it| &mut it.unkept), "TooLong"),
        ("too many names that are not open", asked(many.collect()), "TooLong"),
        ("a name that no Service has", asked([no_label].into()), "Invalid"),
        ("a name in no namespace", asked([no_namespace].into()), "Invalid"),
        ("a kind of a later release", hex::decode("8202a0").unwrap(), "UnknownVariant"),
    ];
    all.into_iter().map(|(name, bytes, error)| ("from-node", name, bytes, error))
}

fn snapshot(version: u64, way: Option<NodeWay>, leases: Vec<NodeLease>) -> ToNode {
    let (ranges, others) = (vec![range()], BTreeSet::new());
    let leases = leases.into_iter().map(|lease| (ContractId([5; 16]), lease)).collect();
    ToNode::Snapshot(Snapshot { version, way, leases, ranges, others, never: BTreeSet::new() })
}

/// With a pod that is no guest.
fn besides(way: Option<NodeWay>) -> Vec<u8> {
    let others = ["10.42.1.8".parse().unwrap()].into();
    let (version, leases, ranges) = (1, BTreeMap::new(), vec![]);
    let never = BTreeSet::new();
    unchecked(&ToNode::Snapshot(Snapshot { version, way, leases, ranges, others, never }))
}

/// With a lease of two pods, of which the second one has this number.
fn pods(second: u8) -> Vec<u8> {
    let pod = |last: u8| [10, 42, 1, last].into();
    let mut bytes = with(|lease| lease.pods = [pod(7), pod(8)].into());
    let at = bytes.windows(4).position(|four| four == [10, 42, 1, 8]).unwrap();
    bytes[at + 3] = second;
    bytes
}

fn range() -> IpNet {
    "10.201.3.0/25".parse().unwrap()
}

fn lease() -> NodeLease {
    NodeLease {
        left_ms: 1_000,
        ranges: [0].into(),
        pods: ["10.42.1.7".parse().unwrap()].into(),
        guests: false,
        closed: BTreeSet::new(),
        services: BTreeSet::new(),
        askers: BTreeSet::new(),
        egress: Egress::None,
    }
}

/// That none of whose guests is closed, with egress.
fn goes_out(lease: &mut NodeLease) {
    lease.egress = Egress::Internet;
}

/// With so many networks that nobody reaches, and a guest of this egress.
fn never(egress: Egress, count: usize) -> Vec<u8> {
    let (version, ranges, others) = (1, vec![range()], BTreeSet::new());
    let closed = [samples::guest()].into();
    let lease = NodeLease { guests: true, closed, egress, ..lease() };
    let leases = [(ContractId([5; 16]), lease)].into();
    let net = |n: usize| IpNet::from(IpAddr::from([198, 18, (n >> 8) as u8, n as u8]));
    let (way, never) = (Some(samples::node_way()), (0..count).map(net).collect());
    unchecked(&ToNode::Snapshot(Snapshot { version, way, leases, ranges, others, never }))
}

fn unserved(lease: &mut NodeLease) {
    serving(lease, 1);
    lease.closed.clear();
}

/// With a guest that reaches so many Services.
fn serving(lease: &mut NodeLease, count: usize) {
    (lease.guests, lease.closed) = (true, [samples::guest()].into());
    let here = |n: usize| [10, 96, (n >> 8) as u8, n as u8].into();
    let service = |n| ServiceAddress { here: here(n), home: None };
    lease.services = (0..count).map(service).collect();
}

/// With a Service that has this address at home.
fn called(lease: &mut NodeLease, home: &str) {
    serving(lease, 1);
    let service = ServiceAddress { here: [10, 96, 0, 1].into(), home: home.parse().ok() };
    lease.services = [service].into();
}

/// With a lease of which something is changed.
fn with(change: impl FnOnce(&mut NodeLease)) -> Vec<u8> {
    let mut lease = lease();
    change(&mut lease);
    unchecked(&snapshot(1, Some(samples::node_way()), vec![lease]))
}

fn second(pool: &str, mtu: u32) -> Vec<u8> {
    by(|way| (way.pool_v6, way.mtu) = (pool.parse().ok(), mtu))
}

/// With a way of which something is changed.
fn by(change: impl FnOnce(&mut NodeWay)) -> Vec<u8> {
    let mut way = samples::node_way();
    change(&mut way);
    unchecked(&snapshot(1, Some(way), vec![]))
}

/// With a name server of which something is changed.
fn named(change: impl FnOnce(&mut NodeNames)) -> Vec<u8> {
    let mut names = samples::node_names();
    change(&mut names);
    by(|way| way.names = Some(names))
}

/// With names of which something is changed.
fn names(change: impl FnOnce(&mut LeaseNames)) -> Vec<u8> {
    let mut names = samples::lease_names();
    change(&mut names);
    unchecked(&ToNode::Names { number: 7, names })
}

/// With a change of names of which something is changed.
fn changed(change: impl FnOnce(&mut NamesChange)) -> Vec<u8> {
    let mut names = samples::names_change();
    change(&mut names);
    unchecked(&ToNode::NamesChange(names))
}

fn pool() -> IpNet {
    "10.201.0.0/16".parse().unwrap()
}

fn service(names: &mut LeaseNames, nth: usize) -> &mut ServiceNames {
    &mut names.namespaces[0].services[nth]
}

fn many(service: &mut ServiceNames) {
    service.ports = vec![service.ports[0].clone(); limits::NAMES_PORTS];
}

fn starred(service: &mut ServiceNames) {
    let mut slice = service.slices.pop_first().unwrap();
    slice.endpoints[0].hostname = "*".into();
    service.slices.insert(slice);
}

/// With one that is told names, though it is no guest.
fn unasked(lease: &mut NodeLease) {
    lease.askers = lease.pods.clone();
}
