//! How large packets between nodes may be.

use super::*;

#[test]
fn the_smallest_network_decides_for_all() {
    let mut nodes = three();
    let order = join(&mut nodes, "n2", 1, None);
    // Nobody has said anything yet.
    assert_eq!(nodes.overlay(&COMMON).unwrap().mtu, 1_450);
    nodes.measure(1_460);
    assert_eq!(nodes.overlay(&COMMON).unwrap().mtu, 1_410);
    let nonsense = NodeState { version: 0, mtu: 7, ..NodeState::default() };
    nodes.on_event(NodeEvent::State { node: "n2".to_owned(), connection: 1, state: nonsense });
    nodes.settle(range());
    assert_eq!(nodes.overlay(&COMMON).unwrap().mtu, 1_410);
    let small = NodeState { version: 0, mtu: 1_400, ..NodeState::default() };
    nodes.on_event(NodeEvent::State { node: "n2".to_owned(), connection: 1, state: small });
    nodes.settle(range());
    assert_eq!(nodes.overlay(&COMMON).unwrap().mtu, 1_350);
    tell(&mut nodes, &[lease(&[])], &PodNodes::new());
    assert_eq!(wish(&order).way.as_ref().unwrap().mtu, 1_350);
}

#[test]
fn a_network_of_larger_packets_carries_whatever_pods_send() {
    let mut nodes = three();
    let of_all = [("n2", 1), ("n3", 2)];
    let _orders = of_all.map(|(node, connection)| join(&mut nodes, node, connection, None));
    nodes.measure(9_000);
    for (node, connection) in of_all {
        assert_eq!(nodes.overlay(&COMMON).unwrap().mtu, 1_450, "{node} has said nothing yet");
        let state = NodeState { version: 0, mtu: 9_000, ..NodeState::default() };
        nodes.on_event(NodeEvent::State { node: node.to_owned(), connection, state });
        nodes.settle(range());
    }
    assert_eq!(nodes.overlay(&COMMON).unwrap().mtu, 1_500);
}
