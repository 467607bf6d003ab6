//! Three nodes, of which the daemon is on the first.

mod closed;
mod newcomers;
mod sizes;

use std::sync::Arc;

use mercato_protocol::egress::Egress;
use mercato_protocol::id::ContractId;
use mercato_protocol::tunnel::SECOND_POOL;

use super::*;
use crate::nodes::control::{SaidNames, Wish, WishLease};

const COMMON: Common = Common {
    pool: IpNet::new_assert(POOL, 13),
    second: None,
    vni: 7_475,
    port: 7_477,
    gate: 7_479,
    mtu: 1_500,
    names: None,
    never: Some(BTreeSet::new()),
};
const POOL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 200, 0, 0));
const GATEWAY: &str = "10.203.7.0";

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn range() -> Option<IpNet> {
    "10.203.7.0/24".parse().ok()
}

fn machines(names: &[(&str, &str)]) -> Vec<NodeMachine> {
    let machine = |(name, at): &(&str, &str)| NodeMachine {
        name: (*name).to_owned(),
        addresses: vec![address(at), address("2001:db8::1")],
        public: vec![],
        ready: true,
        left_out: false,
    };
    names.iter().map(machine).collect()
}

fn three() -> Nodes {
    let mut nodes = Nodes::default();
    let all = machines(&[("n1", "192.0.2.1"), ("n2", "192.0.2.2"), ("n3", "192.0.2.3")]);
    nodes.learn(&all, &[address("192.0.2.1"), address("127.0.0.1")].into());
    nodes
}

fn join(
    nodes: &mut Nodes,
    node: &str,
    connection: u64,
    held: Option<&str>,
) -> watch::Receiver<Order> {
    let (orders, order) = watch::channel(Order::Wait);
    let held = held.map(address);
    nodes.on_event(NodeEvent::Joined { node: node.to_owned(), connection, held, orders });
    nodes.settle(range());
    order
}

/// Where nodes have these addresses alone.
fn join_of(nodes: &mut Nodes, node: &str, connection: u64, of: &str) -> watch::Receiver<Order> {
    let (orders, order) = watch::channel(Order::Wait);
    let node = node.to_owned();
    nodes.on_event(NodeEvent::Joined { node, connection, held: None, orders });
    nodes.settle(of.parse().ok());
    order
}

fn state(nodes: &mut Nodes, node: &str, connection: u64, version: u64, trouble: Option<&str>) {
    let state = NodeState {
        version,
        mtu: 1_500,
        trouble: trouble.map(str::to_owned),
        ..NodeState::default()
    };
    nodes.on_event(NodeEvent::State { node: node.to_owned(), connection, state });
    nodes.settle(range());
}

fn lease(pods: &[&str]) -> WishLease {
    WishLease {
        id: ContractId([1; 16]),
        until_ms: 60_000,
        ranges: Arc::new(vec!["10.201.3.0/25".parse().unwrap()]),
        pods: pods.iter().map(|pod| address(pod)).collect(),
        guests: false,
        closed: BTreeSet::new(),
        services: Arc::default(),
        askers: BTreeSet::new(),
        egress: Egress::None,
    }
}

fn tell(nodes: &mut Nodes, leases: &[WishLease], pods: &PodNodes) {
    nodes.tell(&COMMON, Some(address(GATEWAY)), leases, pods, &Dwellers::default(), &none());
}

fn pods(all: &[(&str, &str)]) -> PodNodes {
    all.iter().map(|(pod, node)| (address(pod), (*node).to_owned())).collect()
}

fn none() -> BTreeMap<ContractId, Arc<SaidNames>> {
    BTreeMap::new()
}

fn wish(order: &watch::Receiver<Order>) -> Arc<Wish> {
    let order = order.borrow();
    let Order::Have(wish, _) = &*order else { panic!("{order:?}") };
    wish.clone()
}

#[test]
fn each_node_is_told_of_its_own_pods_alone() {
    let mut nodes = three();
    assert_eq!(nodes.local(), Some(address("192.0.2.1")));
    assert!(nodes.overlay(&COMMON).is_none(), "nobody is there");
    let two = join(&mut nodes, "n2", 1, None);
    let three = join(&mut nodes, "n3", 2, None);
    let at = pods(&[("10.42.1.5", "n1"), ("10.42.2.5", "n2"), ("10.42.3.5", "n3")]);
    let leases = [lease(&["10.42.1.5", "10.42.2.5", "10.42.3.5"])];
    tell(&mut nodes, &leases, &at);
    assert_eq!(wish(&two).leases, [lease(&["10.42.2.5"])]);
    assert_eq!(wish(&three).leases, [lease(&["10.42.3.5"])]);
    let way = wish(&two).way.clone().unwrap();
    assert_eq!((way.gateway_machine, way.machine), (address("192.0.2.1"), address("192.0.2.2")));
    let overlay = nodes.overlay(&COMMON).unwrap();
    assert_eq!(overlay.nodes.len(), 2);
    assert_eq!(overlay.nodes[&way.address], address("192.0.2.2"));
    let locals = at.keys().copied().collect();
    assert_eq!(nodes.here(&locals, &at), [address("10.42.1.5")].into());
    assert_eq!(nodes.elsewhere(&locals, &at)[&address("10.42.2.5")], way.address);
    // Without a lease nothing is needed.
    tell(&mut nodes, &[], &at);
    assert_eq!((&wish(&two).way, wish(&two).leases.len()), (&None, 0));
}

#[test]
fn a_pod_is_reached_once_its_node_says_so() {
    let mut nodes = three();
    let at = pods(&[("10.42.2.5", "n2"), ("10.42.2.6", "n2"), ("10.42.3.5", "n3")]);
    let (pod, range) = (address("10.42.2.5"), lease(&[]).ranges[0]);
    let order = join(&mut nodes, "n2", 1, None);
    tell(&mut nodes, &[lease(&["10.42.2.5"])], &at);
    assert_eq!(nodes.place(pod, &at), Place::Unknown);
    assert_eq!(nodes.reach(&range), Some(false), "nobody is on n3");
    nodes.gather(true);
    assert_eq!((nodes.reach(&range), nodes.cut_off().len()), (None, 0), "it may come yet");
    nodes.gather(false);
    let mut all = machines(&[("n1", "192.0.2.1"), ("n2", "192.0.2.2"), ("n3", "192.0.2.3")]);
    all[2].ready = false;
    nodes.learn(&all, &[address("192.0.2.1")].into());
    assert_eq!(nodes.reach(&range), None, "n3 runs nothing, and n2 has not answered");
    let version = wish(&order).version;
    state(&mut nodes, "n2", 1, version, None);
    assert_eq!(nodes.place(pod, &at), Place::There);
    assert_eq!(nodes.reach(&range), Some(true));
    // Another one that comes later takes nothing from the first.
    tell(&mut nodes, &[lease(&["10.42.2.5", "10.42.2.6"])], &at);
    assert_eq!(nodes.place(pod, &at), Place::There);
    assert_eq!(nodes.place(address("10.42.2.6"), &at), Place::Unknown);
    state(&mut nodes, "n2", 1, version, Some("no room"));
    assert_eq!(nodes.place(address("10.42.2.6"), &at), Place::Nowhere);
    assert_eq!(nodes.place(address("10.42.3.5"), &at), Place::Nowhere, "nobody is there");
    assert_eq!(nodes.place(address("10.42.9.9"), &at), Place::Unknown);
    let cut = nodes.cut_off();
    assert_eq!(cut["n2"], "no room");
    assert!(cut["n3"].contains("kubectl"), "{cut:?}");
    assert_eq!(cut.len(), 2);
}

#[test]
fn a_node_that_has_no_ipv6_has_the_rest() {
    let mut nodes = three();
    let both = Common { second: Some(SECOND_POOL), ..COMMON };
    let at = pods(&[("10.42.2.5", "n2"), ("fd42::5", "n2")]);
    let leases = [lease(&["10.42.2.5", "fd42::5"])];
    let [first, second] =
        [leases[0].ranges[0], "fd4d:6572:6361:746f::10.201.3.0/121".parse().unwrap()];
    let mut all = machines(&[("n1", "192.0.2.1"), ("n2", "192.0.2.2"), ("n3", "192.0.2.3")]);
    all[2].ready = false;
    nodes.learn(&all, &[address("192.0.2.1")].into());
    let order = join(&mut nodes, "n2", 1, None);
    tell(&mut nodes, &leases, &at);
    let say = |nodes: &mut Nodes, version, second| {
        let state = NodeState { version, mtu: 1_500, second, ..NodeState::default() };
        nodes.on_event(NodeEvent::State { node: "n2".to_owned(), connection: 1, state });
        nodes.settle(range());
    };
    say(&mut nodes, wish(&order).version, false);
    assert_eq!((nodes.reach(&first), nodes.reach(&second)), (Some(true), None));
    let before = wish(&order).version;
    nodes.tell(&both, Some(address(GATEWAY)), &leases, &at, &Dwellers::default(), &none());
    assert_eq!(wish(&order).way.as_ref().unwrap().pool_v6, Some(SECOND_POOL.into()));
    // What is in force is of the wish before.
    say(&mut nodes, before, true);
    assert_eq!((nodes.reach(&first), nodes.reach(&second)), (Some(true), None));
    say(&mut nodes, wish(&order).version, false);
    let places = ["10.42.2.5", "fd42::5"].map(|pod| nodes.place(address(pod), &at));
    assert_eq!((places, nodes.reach(&second)), ([Place::There, Place::Unknown], None));
    assert!(nodes.cut_off().is_empty() || !nodes.cut_off().contains_key("n2"));
    say(&mut nodes, wish(&order).version, true);
    assert_eq!(nodes.place(address("fd42::5"), &at), Place::There);
    assert_eq!(nodes.reach(&second), Some(true));
    let overlay = nodes.overlay(&both).unwrap();
    let [one, other] = [wish(&order).way.as_ref().unwrap().address, address("192.0.2.2")];
    let known = mercato_protocol::tunnel::second(SECOND_POOL, one).unwrap();
    assert_eq!(overlay.nodes, [(one, other), (known, other)].into());
}

#[test]
fn what_a_node_has_stays_while_it_is_away() {
    let mut nodes = three();
    let at = pods(&[("10.42.2.5", "n2")]);
    let pod = address("10.42.2.5");
    let order = join(&mut nodes, "n2", 1, None);
    let leases = [lease(&["10.42.2.5"])];
    tell(&mut nodes, &leases, &at);
    let first = wish(&order);
    state(&mut nodes, "n2", 1, first.version, None);
    let own = first.way.as_ref().unwrap().address;
    nodes.on_event(NodeEvent::Left { node: "n2".to_owned(), connection: 1 });
    nodes.settle(range());
    assert_eq!(nodes.place(pod, &at), Place::There);
    assert_eq!(nodes.addresses().collect::<Vec<_>>(), [own]);
    // It comes back with what it has; an old connection's end is no news.
    let again = join(&mut nodes, "n2", 2, Some(&own.to_string()));
    nodes.on_event(NodeEvent::Left { node: "n2".to_owned(), connection: 1 });
    tell(&mut nodes, &leases, &at);
    assert_eq!(wish(&again), first);
    assert_eq!(nodes.place(pod, &at), Place::There);
    // Or with nothing, as after a boot.
    let anew = join(&mut nodes, "n2", 3, None);
    tell(&mut nodes, &leases, &at);
    assert_eq!(nodes.place(pod, &at), Place::Unknown);
    state(&mut nodes, "n2", 3, wish(&anew).version, None);
    assert_eq!(nodes.place(pod, &at), Place::There);
    nodes.learn(
        &machines(&[("n1", "192.0.2.1"), ("n3", "192.0.2.3")]),
        &[address("192.0.2.1")].into(),
    );
    nodes.settle(range());
    assert_eq!(nodes.addresses().count(), 0, "the cluster has it no more");
    assert!(matches!(&*anew.borrow(), Order::Refuse(why) if why.contains("no node n2")));
}

#[test]
fn the_daemons_own_node_is_left_alone_and_a_stranger_goes() {
    let mut nodes = three();
    assert_eq!(*join(&mut nodes, "n1", 1, None).borrow(), Order::Own);
    assert!(matches!(&*join(&mut nodes, "n9", 2, None).borrow(), Order::Refuse(_)));
    let mut alone = Nodes::default();
    alone.learn(&machines(&[("n1", "192.0.2.1")]), &[address("192.0.2.1")].into());
    assert_eq!(alone.local(), None);
    let locals = [address("10.42.1.5")].into();
    assert_eq!(alone.here(&locals, &PodNodes::new()), locals, "all pods are here");
    assert_eq!(alone.place(address("10.42.1.5"), &PodNodes::new()), Place::Here);
}

#[test]
fn a_daemon_on_no_node_serves_no_pod() {
    let (mut nodes, range) = (Nodes::default(), lease(&[]).ranges[0]);
    let pod = address("10.42.1.5");
    assert_eq!((nodes.place(pod, &PodNodes::new()), nodes.reach(&range)), (Place::Unknown, None));
    nodes.learn(&machines(&[("n1", "192.0.2.1")]), &[address("192.0.2.9")].into());
    assert_eq!(nodes.place(pod, &PodNodes::new()), Place::Nowhere);
    assert_eq!(nodes.reach(&range), Some(false));
    assert!(nodes.apart().unwrap().contains("run the daemon on a node"));
    assert!(nodes.cut_off().is_empty(), "it is said once, of all nodes");
    // A model of a cluster has none.
    nodes.learn(&[], &[address("192.0.2.9")].into());
    assert_eq!((nodes.reach(&range), nodes.apart()), (Some(true), None));
    nodes.learn(&machines(&[("n1", "192.0.2.1")]), &[address("192.0.2.1")].into());
    assert_eq!(nodes.apart(), None);
}

#[test]
fn a_daemon_that_starts_again_keeps_the_way_to_its_nodes() {
    let mut nodes = Nodes::default();
    let before = [("192.0.2.2", "10.203.7.77"), ("192.0.2.9", "10.203.7.78")];
    nodes.remember(before.map(|(machine, of)| (address(machine), address(of))).into());
    nodes.settle(range());
    assert!(nodes.waits() && nodes.overlay(&COMMON).is_none());
    let all = machines(&[("n1", "192.0.2.1"), ("n2", "192.0.2.2"), ("n3", "192.0.2.3")]);
    nodes.learn(&all, &[address("192.0.2.1")].into());
    nodes.settle(None);
    nodes.settle(range());
    assert!(!nodes.waits());
    let overlay = nodes.overlay(&COMMON).unwrap();
    assert_eq!(overlay.nodes, [(address("10.203.7.77"), address("192.0.2.2"))].into());
    // It comes, and has what it had.
    let order = join(&mut nodes, "n2", 1, Some("10.203.7.77"));
    tell(&mut nodes, &[lease(&[])], &PodNodes::new());
    assert_eq!(wish(&order).way.as_ref().unwrap().address, address("10.203.7.77"));
}

#[test]
fn a_daemon_that_has_moved_here_takes_its_former_machine_as_a_node() {
    let mut nodes = Nodes::default();
    // This node was led by the one that is n2, whose address was the gateway's.
    nodes.remember([(address("192.0.2.2"), address(GATEWAY))].into());
    nodes.learn(
        &machines(&[("n1", "192.0.2.1"), ("n2", "192.0.2.2")]),
        &[address("192.0.2.1")].into(),
    );
    nodes.settle(range());
    assert!(nodes.overlay(&COMMON).is_none());
    join(&mut nodes, "n2", 1, Some(GATEWAY));
    let overlay = nodes.overlay(&COMMON).unwrap();
    assert!(!overlay.nodes.contains_key(&address(GATEWAY)), "{overlay:?}");
}

#[test]
fn a_node_without_ipv4_is_waited_for_and_named() {
    let mut nodes = Nodes::default();
    let mut all = machines(&[("n1", "192.0.2.1"), ("n2", "192.0.2.2")]);
    all[1].addresses = vec![address("2001:db8::2")];
    nodes.learn(&all, &[address("192.0.2.1")].into());
    let order = join(&mut nodes, "n2", 1, None);
    assert!(matches!(&*order.borrow(), Order::Refuse(why) if why.contains("IPv4")));
    assert_eq!(nodes.reach(&lease(&[]).ranges[0]), Some(false));
    assert!(nodes.cut_off()["n2"].contains("InternalIP of IPv4"));
}

#[test]
fn what_is_said_again_is_nothing_new() {
    let mut nodes = three();
    let order = join(&mut nodes, "n2", 1, None);
    let said = |connection| NodeEvent::State {
        node: "n2".to_owned(),
        connection,
        state: NodeState { version: 0, mtu: 1_500, ..NodeState::default() },
    };
    assert!(nodes.on_event(said(1)));
    assert!(!nodes.on_event(said(1)) && !nodes.on_event(said(9)));
    assert!(!nodes.cut_off().contains_key("n2"));
    drop(order);
    nodes.settle(range());
    assert!(nodes.cut_off().contains_key("n2"), "its connection has ended");
}

#[test]
fn who_is_dismissed_says_that_nothing_is_left() {
    let mut nodes = three();
    let order = join(&mut nodes, "n2", 1, None);
    tell(&mut nodes, &[lease(&[])], &PodNodes::new());
    state(&mut nodes, "n2", 1, wish(&order).version, None);
    assert!(!nodes.dismiss(), "it has not answered");
    let last = wish(&order);
    assert_eq!((&last.way, last.leases.len()), (&None, 0));
    let done = NodeState { version: last.version, mtu: 1_500, ..NodeState::default() };
    nodes.on_event(NodeEvent::State { node: "n2".to_owned(), connection: 1, state: done });
    assert!(nodes.dismiss());
    assert_eq!(wish(&order), last);
    // One that is away learns it from nobody, and is not waited for.
    drop(order);
    assert!(three().dismiss());
}

#[test]
fn a_node_without_an_address_is_named_with_the_reason() {
    let mut nodes = three();
    let _two = join(&mut nodes, "n2", 1, None);
    nodes.settle("10.203.7.0/31".parse().ok());
    let order = join_of(&mut nodes, "n3", 2, "10.203.7.0/31");
    assert!(matches!(&*order.borrow(), Order::Refuse(why) if why.contains("other nodes'")));
    nodes.on_event(NodeEvent::Left { node: "n3".to_owned(), connection: 2 });
    drop(order);
    assert!(nodes.cut_off()["n3"].contains("other nodes'"), "{:?}", nodes.cut_off());
    let _joined = join(&mut nodes, "n3", 3, None);
    assert!(!nodes.cut_off().contains_key("n3"));
}
