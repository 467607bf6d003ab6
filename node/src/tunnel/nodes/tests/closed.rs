//! Guests that are closed on their nodes.

use mercato_protocol::node::{NodeGuest, ServiceAddress};

use super::*;

#[test]
fn a_closed_guest_is_told_to_its_node_alone() {
    let mut nodes = three();
    let two = join(&mut nodes, "n2", 1, None);
    let three = join(&mut nodes, "n3", 2, None);
    let guest = |uid: &str| NodeGuest { uid: uid.parse().unwrap(), pod: None, called: None };
    let closed = [guest("a"), guest("b")].into();
    let services = Arc::new([ServiceAddress { here: address("10.96.0.7"), home: None }].into());
    let lease = WishLease { guests: true, closed, services, ..lease(&[]) };
    let at = [("a", "n2"), ("b", "n1")].map(|(uid, node)| (uid.parse().unwrap(), node.to_owned()));
    let others = [("n2", "10.42.2.9"), ("n1", "10.42.1.9")];
    let others = others.map(|(node, at)| (node.to_owned(), [address(at)].into()));
    let mut dwellers = Dwellers { guests: at.into(), others: others.into() };
    let mut tell = |dwellers: &Dwellers| {
        let leases = std::slice::from_ref(&lease);
        nodes.tell(&COMMON, Some(address(GATEWAY)), leases, &PodNodes::new(), dwellers, &none());
        (wish(&two).others.clone(), wish(&three).others.clone())
    };
    let there = BTreeSet::from([address("10.42.2.9")]);
    assert_eq!(tell(&dwellers), (there, BTreeSet::new()), "who is there besides");
    dwellers.others.get_mut("n2").unwrap().insert(address("10.42.2.10"));
    assert_eq!(tell(&dwellers).0.len(), 2, "one more is something new");
    assert_eq!(wish(&two).leases[0].closed, [guest("a")].into());
    assert!(wish(&three).leases[0].closed.is_empty());
    let services = |order| wish(order).leases[0].services.len();
    assert_eq!((services(&two), services(&three)), (1, 0), "what the guest reaches");
    assert!(nodes.is_own("n1") && !nodes.is_own("n2") && nodes.is_known());
}

#[test]
fn a_node_that_closes_nobody_is_named() {
    let mut nodes = three();
    let two = join(&mut nodes, "n2", 1, None);
    let three = join(&mut nodes, "n3", 2, None);
    assert_eq!(nodes.open().len(), 2, "neither has said anything");
    let mut says = |node: &str, connection, open: Option<&str>| {
        let open = open.map(str::to_owned);
        let state = NodeState { mtu: 1_500, open, ..NodeState::default() };
        nodes.on_event(NodeEvent::State { node: node.to_owned(), connection, state });
        nodes.open()
    };
    says("n2", 1, None);
    assert!(says("n3", 2, None).is_empty());
    says("n2", 1, Some("no hooks"));
    assert_eq!(nodes.open()["n2"], "no hooks");
    drop((two, three));
    nodes.settle(range());
    assert_eq!(nodes.open().len(), 2, "nobody is there");
}

#[test]
fn why_no_node_finds_the_daemon_is_said_of_each_that_is_not_there() {
    let mut nodes = three();
    let _two = join(&mut nodes, "n2", 1, None);
    let state = NodeState { trouble: Some("no VXLAN".to_owned()), ..NodeState::default() };
    nodes.on_event(NodeEvent::State { node: "n2".to_owned(), connection: 1, state });
    let why = "nodes cannot reach the daemon: the port is another's".to_owned();
    nodes.know_door(Some(&why));
    let three_alone = [("n3".to_owned(), why.clone())].into();
    assert_eq!(nodes.open(), three_alone, "guests of the other one are closed");
    assert_eq!(nodes.cut_off()["n3"], why);
    assert_eq!(nodes.cut_off()["n2"], "no VXLAN", "who is there says it himself");
    nodes.know_door(None);
    assert!(nodes.open()["n3"].contains("nothing of Mercato answers there"));
}

#[test]
fn a_node_that_tells_no_names_is_named() {
    let mut nodes = three();
    let _there = [join(&mut nodes, "n2", 1, None), join(&mut nodes, "n3", 2, None)];
    assert_eq!(nodes.tell_names(), Some(true));
    let mut says = |unnamed: Option<&str>| {
        let state = NodeState { unnamed: unnamed.map(str::to_owned), ..NodeState::default() };
        nodes.on_event(NodeEvent::State { node: "n3".to_owned(), connection: 2, state });
        (nodes.tell_names(), nodes.unnamed().into_iter().next())
    };
    let why = ("n3".to_owned(), "port 53 is another's".to_owned());
    assert_eq!(says(Some(&why.1)), (Some(false), Some(why.clone())));
    assert_eq!(says(None), (Some(true), None));
}

#[test]
fn a_node_that_keeps_no_egress_is_named_and_told_of_none() {
    let mut nodes = three();
    let [two, three] = [join(&mut nodes, "n2", 1, None), join(&mut nodes, "n3", 2, None)];
    assert!(unkept(&nodes).is_empty(), "neither has said anything");
    let mut says = |node: &str, connection, egress, unkept: Option<&str>| {
        let unkept = unkept.map(str::to_owned);
        let said =
            NodeState { mtu: 1_500, mended: Some(0), egress, unkept, ..NodeState::default() };
        nodes.on_event(NodeEvent::State { node: node.to_owned(), connection, state: said });
        super::unkept(&nodes)
    };
    let of_before = says("n2", 1, false, None);
    assert!(of_before["n2"].contains("a release that knows nothing of egress"), "{of_before:?}");
    assert_eq!(says("n3", 2, true, Some("300 networks"))["n3"], "300 networks");
    assert_eq!(says("n3", 2, true, None).keys().collect::<Vec<_>>(), ["n2"]);
    let guest = |uid: &str| NodeGuest { uid: uid.parse().unwrap(), pod: None, called: None };
    let lease = WishLease {
        guests: true,
        closed: [guest("a"), guest("b")].into(),
        egress: Egress::Internet,
        ..lease(&[])
    };
    let guests =
        [("a", "n2"), ("b", "n3")].map(|(uid, node)| (uid.parse().unwrap(), node.to_owned()));
    let dwellers = Dwellers { guests: guests.into(), ..Dwellers::default() };
    let never = Some(["9.9.9.0/24".parse().unwrap()].into());
    let common = Common { never, ..COMMON };
    let gateway = Some(address(GATEWAY));
    nodes.tell(
        &common,
        gateway,
        std::slice::from_ref(&lease),
        &PodNodes::new(),
        &dwellers,
        &none(),
    );
    let told = |order| {
        let wish = wish(order);
        let said = wish.at(0);
        let lease = said.leases.values().next().unwrap().clone();
        (lease.closed.len(), lease.egress, said.never.len())
    };
    assert_eq!(told(&two), (1, Egress::None, 0), "its guests stay closed");
    assert_eq!(told(&three), (1, Egress::Internet, 1));
    let too_much = Common { never: None, ..COMMON };
    nodes.tell(&too_much, gateway, &[lease], &PodNodes::new(), &dwellers, &none());
    assert_eq!(told(&three), (1, Egress::None, 0), "nobody goes out who may reach what is near");
}

#[test]
fn a_lease_that_no_message_may_have_is_named_and_the_others_are_told() {
    let mut nodes = three();
    let two = join(&mut nodes, "n2", 1, None);
    let guest = NodeGuest { uid: "a".parse().unwrap(), pod: None, called: None };
    let [good, bad, pool] = ["10.96.0.7", "127.0.0.1", "10.201.9.0/25"];
    let service = |home: &str| {
        let service = ServiceAddress { here: address(good), home: home.parse().ok() };
        Arc::new([service].into())
    };
    let closing = |id, pod: &str, home: &str| WishLease {
        id: ContractId([id; 16]),
        guests: true,
        closed: [guest.clone()].into(),
        services: service(home),
        ..lease(&[pod])
    };
    let wrong =
        WishLease { ranges: Arc::new(vec![pool.parse().unwrap()]), ..closing(1, "10.42.2.5", bad) };
    let leases = [wrong, closing(2, "10.42.2.6", good)];
    let at = pods(&[("10.42.2.5", "n2"), ("10.42.2.6", "n2")]);
    let guests = [(guest.uid.clone(), "n2".to_owned())].into();
    let dwellers = Dwellers { guests, others: BTreeMap::new() };
    nodes.tell(&COMMON, Some(address(GATEWAY)), &leases, &at, &dwellers, &none());
    let said = wish(&two).at(0);
    assert_eq!(said.leases.keys().copied().collect::<Vec<_>>(), [ContractId([2; 16])]);
    let untold = nodes.untold();
    assert_eq!(untold["n2"], "contract 01010101: an address that no Service has");
    state(&mut nodes, "n2", 1, wish(&two).version, None);
    let places = ["10.42.2.5", "10.42.2.6"].map(|pod| nodes.place(address(pod), &at));
    assert_eq!(places, [Place::Nowhere, Place::There], "nobody waits for what is not told");
    let all = machines(&[("n1", "192.0.2.1"), ("n2", "192.0.2.2")]);
    nodes.learn(&all, &[address("192.0.2.1")].into());
    let reached = [pool, "10.201.3.0/25"].map(|range| nodes.reach(&range.parse().unwrap()));
    assert_eq!(reached, [Some(false), Some(true)]);
    nodes.tell(&COMMON, Some(address(GATEWAY)), &leases[1..], &at, &dwellers, &none());
    assert!(nodes.untold().is_empty());
}
