//! Nodes that are added while the daemon runs, and those that are left out.

use super::*;

#[test]
fn a_node_that_is_added_or_left_out_takes_nothing_from_others() {
    let mut nodes = Nodes::default();
    let own = [address("192.0.2.1")].into();
    let mut all = machines(&[("n1", "192.0.2.1"), ("n2", "192.0.2.2")]);
    nodes.learn(&all, &own);
    let (at, range) = (pods(&[]), lease(&[]).ranges[0]);
    let order = join(&mut nodes, "n2", 1, None);
    tell(&mut nodes, &[lease(&[])], &at);
    state(&mut nodes, "n2", 1, wish(&order).version, None);
    let whole = |nodes: &Nodes| {
        let lacks = [nodes.open(), nodes.unnamed()];
        (nodes.reach(&range), nodes.tell_names(), lacks.iter().all(BTreeMap::is_empty))
    };
    assert_eq!(whole(&nodes), (Some(true), Some(true), true));
    all.extend(machines(&[("n3", "192.0.2.3")]));
    nodes.learn(&all, &own);
    assert_eq!(
        (whole(&nodes), nodes.ready()),
        ((Some(true), Some(true), true), 2),
        "it is awaited"
    );
    assert!(nodes.cut_off().contains_key("n3"), "which is said");
    let third = join(&mut nodes, "n3", 2, None);
    assert!(nodes.seats.contains_key("n3") && whole(&nodes).2);
    all[2].left_out = true;
    nodes.learn(&all, &own);
    nodes.settle(super::range());
    assert!(matches!(&*third.borrow(), Order::Refuse(why) if why.contains("gateway=off")));
    assert!(!nodes.seats.contains_key("n3"));
    assert_eq!(
        (whole(&nodes), nodes.left_out()),
        ((Some(true), Some(true), true), vec!["n3".into()])
    );
    // Nobody but it is left: its pods are elsewhere all the same.
    all.remove(1);
    nodes.learn(&all, &own);
    let at = pods(&[("10.42.3.5", "n3"), ("10.42.1.5", "n1")]);
    assert_eq!(nodes.place(address("10.42.3.5"), &at), Place::Nowhere);
    assert_eq!(nodes.place(address("10.42.1.5"), &at), Place::Here);
}
