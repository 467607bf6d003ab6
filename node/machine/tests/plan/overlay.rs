//! What is planned for the way between nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mercato_machine::{
    Endpoint, Family, Found, Mac, Marks, Neighbour, Overlay, RouteKind, Step, Wanted, WantedError,
    Way, clean_plan, plan,
};

use crate::model::{after, new_machine, wanted};

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn addresses(pairs: &[[&str; 2]]) -> BTreeMap<IpAddr, IpAddr> {
    pairs.iter().map(|[key, value]| (address(key), address(value))).collect()
}

pub(crate) fn overlay(local: &str, nodes: &[[&str; 2]]) -> Overlay {
    Overlay {
        vni: Overlay::VNI,
        port: Overlay::PORT,
        local: address(local),
        mtu: 1_330,
        nodes: addresses(nodes),
    }
}

/// The gateway's machine, of a cluster with two other nodes.
pub(crate) fn gateway() -> Wanted {
    let elsewhere = addresses(&[["10.42.1.5", "10.201.0.2"], ["10.42.2.5", "10.201.0.3"]]);
    let nodes = [["10.201.0.2", "192.0.2.11"], ["10.201.0.3", "192.0.2.12"]];
    Wanted {
        way: Way::Device { elsewhere },
        overlay: Some(overlay("192.0.2.1", &nodes)),
        ..wanted()
    }
}

/// One of the others.
pub(crate) fn other() -> Wanted {
    Wanted {
        node: address("10.201.0.2"),
        way: Way::Through(address("10.201.0.1")),
        overlay: Some(overlay("192.0.2.1", &[["10.201.0.1", "192.0.2.10"]])),
        ..wanted()
    }
}

pub(crate) fn machine() -> Found {
    let own = [(address("192.0.2.1"), Some("eth0".to_owned()))].into();
    Found { own, ..new_machine() }
}

pub(crate) fn other_machine() -> Found {
    Found { device: None, ..machine() }
}

pub(crate) fn brought_to(found: Found, wanted: &Wanted) -> Found {
    let steps = plan(&found, wanted).unwrap();
    let found = after(found, &steps);
    assert_eq!(plan(&found, wanted), Ok(vec![]));
    found
}

#[test]
fn whoever_is_stopped_goes_on() {
    for (found, wanted) in [(machine(), gateway()), (other_machine(), other())] {
        let steps = plan(&found, &wanted).unwrap();
        for done in 0..steps.len() {
            let stopped = after(found.clone(), &steps[..done]);
            assert_eq!(plan(&stopped, &wanted).unwrap(), steps[done..]);
        }
    }
}

#[test]
fn each_node_has_entries_of_the_others() {
    let there = brought_to(machine(), &gateway()).overlay.unwrap();
    let neighbours: Vec<String> = there
        .neighbours
        .iter()
        .map(|Neighbour { address, mac }| format!("{address} {mac}"))
        .collect();
    assert_eq!(neighbours, ["10.201.0.2 02:6d:0a:c9:00:02", "10.201.0.3 02:6d:0a:c9:00:03"]);
    let machines: Vec<_> = there.endpoints.iter().map(|endpoint| endpoint.machine).collect();
    assert_eq!(machines, [Some(address("192.0.2.11")), Some(address("192.0.2.12"))]);
    let there = brought_to(other_machine(), &other()).overlay.unwrap();
    assert_eq!(there.vxlan.unwrap().mac, Mac::of(address("10.201.0.2")));
    assert_eq!(there.neighbours.len(), 1);
}

#[test]
fn other_nodes_lead_to_the_gateway_and_the_gateway_to_their_pods() {
    let found = brought_to(other_machine(), &other());
    let ranges = found.routes.iter().filter(|route| route.gateway.is_some());
    for route in ranges.clone() {
        assert_eq!((route.table, route.device), (7475, Some(Step::OVERLAY)));
        assert_eq!(route.gateway, Some(address("10.201.0.1")));
        assert!(route.onlink && route.source == Some(address("10.201.0.2")), "{route:?}");
    }
    assert_eq!((ranges.count(), found.rules.len()), (2, 1));
    let found = brought_to(machine(), &gateway());
    let pods = found.routes.iter().filter(|route| route.table == 7477);
    let said: Vec<_> = pods.map(ToString::to_string).collect();
    let expected = ["10.42.1.5/32 via 10.201.0.2", "10.42.2.5/32 via 10.201.0.3"];
    assert_eq!(said, expected.map(|route| format!("{route} metric 0 table 7477")));
    let rules: Vec<_> = found.rules.iter().map(ToString::to_string).collect();
    assert_eq!(
        rules,
        ["500: iif mercato0 lookup 7477 (IPv4)", "500: to 10.200.0.0/13 lookup 7475"]
    );
}

#[test]
fn a_node_that_goes_leaves_no_entry() {
    let mut fewer = gateway();
    let left = address("10.201.0.3");
    fewer.overlay.as_mut().unwrap().nodes.remove(&left);
    fewer.way = Way::Device { elsewhere: addresses(&[["10.42.1.5", "10.201.0.2"]]) };
    let found = brought_to(brought_to(machine(), &gateway()), &fewer);
    let there = found.overlay.unwrap();
    assert_eq!((there.neighbours.len(), there.endpoints.len()), (1, 1));
    let is_left = |address| Some(address) == Some(left);
    assert!(!found.routes.iter().any(|route| is_left(route.net.addr())));
    assert!(!found.routes.iter().any(|route| route.gateway.is_some_and(is_left)));
    let sets = &found.packets[&Family::V4].sets;
    let sizes = ["elsewhere", "machines", "nodes"].map(|set| sets[set].len());
    assert_eq!(sizes, [1, 1, 1]);
}

#[test]
fn a_node_with_another_address_is_at_one_machine() {
    let mut moved = other();
    let nodes = &mut moved.overlay.as_mut().unwrap().nodes;
    *nodes = addresses(&[["10.201.0.1", "192.0.2.20"]]);
    let found = brought_to(brought_to(other_machine(), &other()), &moved);
    let mac = Mac::of(address("10.201.0.1"));
    let endpoint = Endpoint { mac, machine: Some(address("192.0.2.20")) };
    assert_eq!(found.overlay.unwrap().endpoints, [endpoint].into());
}

#[test]
fn entries_of_others_on_our_device_go() {
    let mut found = brought_to(other_machine(), &other());
    let whole = found.clone();
    let there = found.overlay.as_mut().unwrap();
    let mac = Mac([2, 0, 0, 0, 0, 9]);
    there.endpoints.insert(Endpoint { mac, machine: None });
    let mac = Mac::of(address("10.201.0.1"));
    there.endpoints.insert(Endpoint { mac, machine: Some(address("192.0.2.66")) });
    let mac = Mac([2, 0, 0, 0, 0, 7]);
    there.neighbours.insert(Neighbour { address: address("10.201.0.9"), mac });
    assert_eq!(brought_to(found, &other()), whole);
}

#[test]
fn a_device_with_other_parameters_is_made_anew() {
    let changes: [fn(&mut Found); 4] = [
        |found| found.overlay.as_mut().unwrap().vxlan.as_mut().unwrap().vni = 5,
        |found| found.overlay.as_mut().unwrap().vxlan.as_mut().unwrap().is_plain = false,
        |found| found.overlay.as_mut().unwrap().vxlan = None,
        |found| {
            found.overlay.as_mut().unwrap().link.index = 9;
            found.routes.retain(|route| route.device.is_none());
        },
    ];
    let whole = brought_to(other_machine(), &other());
    for change in changes {
        let mut found = whole.clone();
        change(&mut found);
        let steps = plan(&found, &other()).unwrap();
        assert!(matches!(steps[0], Step::RemoveDevice { .. }), "{steps:#?}");
        assert_eq!(brought_to(found, &other()), whole);
    }
}

#[test]
fn without_the_overlay_what_refuses_is_there() {
    let mut found = brought_to(other_machine(), &other());
    found.overlay = None;
    found.routes.retain(|route| route.device.is_none());
    assert_eq!(found.routes.first().unwrap().kind, RouteKind::Unreachable);
    brought_to(found, &other());
}

#[test]
fn the_gateway_may_come_to_another_node() {
    let found = brought_to(other_machine(), &other());
    let here = Wanted { node: address("10.201.0.2"), ..wanted() };
    let found = Found { device: new_machine().device, ..found };
    let found = brought_to(found, &here);
    assert_eq!(found.overlay, None);
    // And away again; its device has gone with it, or will.
    let found = brought_to(found, &other());
    assert!(found.device.unwrap().addresses.is_empty());
}

#[test]
fn nothing_is_left_but_the_gateways_device() {
    for (found, wanted) in [(machine(), gateway()), (other_machine(), other())] {
        let found = brought_to(found, &wanted);
        let steps = clean_plan(&found, &Marks::default());
        let found = after(found, &steps);
        assert_eq!((found.routes.len(), found.rules.len()), (0, 0));
        assert_eq!((found.packets.len(), found.overlay), (0, None));
    }
}

#[test]
fn what_cannot_be_is_said() {
    let refused = |change: fn(&mut Wanted)| {
        let mut wanted = gateway();
        change(&mut wanted);
        plan(&machine(), &wanted).unwrap_err()
    };
    let nowhere = refused(|wanted| wanted.overlay = None);
    assert_eq!(nowhere, WantedError::UnknownNode(address("10.201.0.2")));
    let nowhere = refused(|wanted| wanted.way = Way::Through(address("10.201.0.9")));
    assert_eq!(nowhere, WantedError::UnknownNode(address("10.201.0.9")));
    let twice = refused(|wanted| {
        wanted.pods.insert(address("10.42.1.5"));
    });
    assert_eq!(twice, WantedError::Twice(address("10.42.1.5")));
    let of_overlay = |change: fn(&mut Overlay)| {
        let mut wanted = gateway();
        change(wanted.overlay.as_mut().unwrap());
        plan(&machine(), &wanted).unwrap_err()
    };
    let itself = of_overlay(|overlay| {
        overlay.nodes.insert(address("10.201.0.1"), address("192.0.2.9"));
    });
    assert_eq!(itself, WantedError::Itself(address("10.201.0.1")));
    let not_here = of_overlay(|overlay| overlay.local = address("192.0.2.9"));
    assert_eq!(not_here, WantedError::NotHere(address("192.0.2.9")));
    for (change, said) in [
        ((|overlay| overlay.vni = 1 << 24) as fn(&mut Overlay), "network identifier 16777216"),
        (|overlay| overlay.port = 0, "port 0"),
    ] {
        assert!(of_overlay(change).to_string().contains(said));
    }
    let outside = of_overlay(|overlay| {
        overlay.nodes.insert(address("10.42.0.1"), address("192.0.2.9"));
    });
    assert!(matches!(outside, WantedError::Outside { .. }), "{outside}");
    let one = refused(|wanted| wanted.marks.overlay.clone_from(&wanted.marks.device));
    assert_eq!(one, WantedError::OneName("mercato0".to_owned()));
}
