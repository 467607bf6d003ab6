//! Guests that are closed on their nodes.

use mercato_protocol::node::{NodeGuest, ServiceAddress};

use super::*;

#[test]
fn a_closed_guest_is_told_to_its_node_alone() {
    let mut nodes = three();
    let two = join(&mut nodes, "n2", 1, None);
    let three = join(&mut nodes, "n3", 2, None);
    let guest = |uid: &str| NodeGuest { uid: uid.parse().unwrap(), pod: None };
    let closed = vec![guest("a"), guest("b")];
    let services = Arc::new(vec![ServiceAddress { here: address("10.96.0.7"), home: None }]);
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
    assert_eq!(tell(&dwellers), (vec![address("10.42.2.9")], vec![]), "who is there besides");
    dwellers.others.get_mut("n2").unwrap().insert(address("10.42.2.10"));
    assert_eq!(tell(&dwellers).0.len(), 2, "one more is something new");
    assert_eq!(wish(&two).leases[0].closed, [guest("a")]);
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
