//! What is planned where there is IPv6, alone or beside IPv4.

use std::collections::BTreeSet;

use mercato_machine::{
    DeviceSetting, Endpoint, Expression, Family, Found, Mac, Marks, Neighbour, Place, RouteKind,
    Step, Table, Verdict, Wanted, WantedError, Way, clean_plan, plan,
};

use crate::model::{after, nets, new_machine, wanted, with_both};
use crate::overlay::{
    address, addresses, brought_to, gateway, machine, other, other_machine, overlay,
};

const POOL: &str = "fd00:c8::/32";

fn place(node: &str) -> Place {
    Place { pool: POOL.parse().unwrap(), node: address(node) }
}

/// The same of both families, with what the other nodes and pods of each are.
fn both(mut wanted: Wanted, node: &str) -> Wanted {
    wanted.second = Some(place(node));
    wanted.ranges.extend(nets(&["fd00:c8:4::/64"]));
    wanted.pods.insert(address("fd42::5"));
    wanted
}

fn both_at_gateway() -> Wanted {
    let mut wanted = both(gateway(), "fd00:c8::1");
    let overlay = wanted.overlay.as_mut().unwrap();
    overlay.nodes.extend(addresses(&[["fd00:c8::2", "192.0.2.11"], ["fd00:c8::3", "192.0.2.12"]]));
    let Way::Device { elsewhere } = &mut wanted.way else { panic!("it is the gateway") };
    // By whichever of its node's addresses.
    elsewhere.extend(addresses(&[["fd42:1::5", "10.201.0.2"], ["fd42:2::5", "fd00:c8::3"]]));
    wanted
}

fn both_at_other() -> Wanted {
    let mut wanted = both(other(), "fd00:c8::2");
    let overlay = wanted.overlay.as_mut().unwrap();
    overlay.nodes.insert(address("fd00:c8::1"), address("192.0.2.10"));
    wanted
}

/// A gateway of a cluster that has no IPv4.
fn six_alone() -> Wanted {
    Wanted {
        pool: POOL.parse().unwrap(),
        node: address("fd00:c8::1"),
        ranges: nets(&["fd00:c8:4::/64"]),
        homes: [].into(),
        pods: [address("fd42::5")].into(),
        ..wanted()
    }
}

/// Machines of each kind, and what is wanted of them.
pub(crate) fn all() -> [(Found, Wanted); 4] {
    [
        (with_both(new_machine()), both(wanted(), "fd00:c8::1")),
        (with_both(new_machine()), six_alone()),
        (with_both(machine()), both_at_gateway()),
        (with_both(other_machine()), both_at_other()),
    ]
}

#[test]
fn the_first_family_goes_on_alone() {
    for (_, both) in all().into_iter().filter(|(_, wanted)| wanted.second.is_some()) {
        let first = both.first_alone();
        first.check().unwrap();
        let lost = (both.pods.len() - first.pods.len(), both.ranges.len() - first.ranges.len());
        assert_eq!((first.second, lost), (None, (1, 1)));
        assert_eq!(first.first_alone(), first);
    }
    assert_eq!(both_at_other().first_alone(), other());
    // A node that has a way by its address of the other family has none without it.
    let mut by_first = both_at_gateway();
    let Way::Device { elsewhere } = &mut by_first.way else { panic!("it is the gateway") };
    elsewhere.retain(|_, node| node.is_ipv4());
    assert_eq!(by_first.first_alone(), gateway());
}

/// What becomes of packets by the route that it is about.
fn kind(step: &Step) -> Option<RouteKind> {
    if let Step::AddRoute(route) | Step::RemoveRoute(route) = step {
        return Some(route.kind);
    }
    None
}

fn drops_of(table: &Table, chain: &str) -> usize {
    let drop = Expression::Verdict(Verdict::Drop);
    let rules = &table.chains[chain].rules;
    rules.iter().filter(|rule| rule.expressions.last() == Some(&drop)).count()
}

#[test]
fn whoever_is_stopped_goes_on() {
    for (found, wanted) in all() {
        let steps = plan(&found, &wanted).unwrap();
        for done in 0..steps.len() {
            let stopped = after(found.clone(), &steps[..done]);
            assert_eq!(plan(&stopped, &wanted).unwrap(), steps[done..]);
        }
        assert_eq!(plan(&after(found, &steps), &wanted), Ok(vec![]));
    }
}

#[test]
fn what_protects_comes_first_in_both_and_goes_last() {
    let is_packets = |step: &Step| matches!(step, Step::ReplacePackets(_) | Step::RemovePackets(_));
    let is_leading = |step: &Step| kind(step) == Some(RouteKind::Unicast);
    let places = |steps: &[Step], is: &dyn Fn(&Step) -> bool| -> Vec<usize> {
        (0..steps.len()).filter(|at| is(&steps[*at])).collect()
    };
    for (found, wanted) in all() {
        let steps = plan(&found, &wanted).unwrap();
        let (packets, leading) = (places(&steps, &is_packets), places(&steps, &is_leading));
        assert_eq!(packets, [0, 1]);
        let rest = leading[0];
        let is_refusing = |step: &&Step| kind(step) == Some(RouteKind::Unreachable);
        let refused = steps[2..rest].iter().filter(is_refusing);
        assert_eq!(refused.count(), 1 + usize::from(wanted.second.is_some()), "{steps:#?}");
        let steps = clean_plan(&after(found, &steps), &Marks::default());
        let (packets, leading) = (places(&steps, &is_packets), places(&steps, &is_leading));
        assert_eq!(packets, [steps.len() - 2, steps.len() - 1]);
        assert!(leading.iter().all(|at| *at < leading.len()), "{steps:#?}");
    }
}

#[test]
fn nothing_is_left() {
    for (found, wanted) in all() {
        let found = brought_to(found, &wanted);
        let found = after(found.clone(), &clean_plan(&found, &Marks::default()));
        assert_eq!((found.routes.len(), found.rules.len(), found.packets.len()), (0, 0, 0));
        assert_eq!(found.overlay, None);
        assert!(found.device.is_none_or(|device| device.addresses.is_empty()));
    }
}

#[test]
fn a_second_family_comes_and_goes_beside_the_first() {
    for (found, four, with_six) in
        [(machine(), gateway(), both_at_gateway()), (other_machine(), other(), both_at_other())]
    {
        let before = brought_to(with_both(found), &four);
        let steps = plan(&before, &with_six).unwrap();
        let is_of_six = |step: &Step| {
            matches!(step, Step::ReplacePackets(table) if table.family == Family::V6)
                || matches!(step, Step::AddRoute(route) if route.net.addr().is_ipv6())
                || matches!(step, Step::AddRule(rule) if rule.family == Family::V6)
                || matches!(step, Step::AddAddress { address, .. } if address.addr().is_ipv6())
                || matches!(step, Step::AddNeighbour { neighbour, .. } if neighbour.address.is_ipv6())
        };
        assert!(steps.iter().all(is_of_six), "{steps:#?}");
        let with = brought_to(before.clone(), &with_six);
        assert_eq!(brought_to(with, &four), before);
    }
}

#[test]
fn changed_pods_are_elements_of_their_own_family() {
    let (found, mut wanted) = (with_both(new_machine()), both(wanted(), "fd00:c8::1"));
    let found = brought_to(found, &wanted);
    wanted.pods.insert(address("fd42::6"));
    let (set, add) = (Table::PODS.to_owned(), BTreeSet::from([address("fd42::6")]));
    let change = Step::ChangeSet { family: Family::V6, set, add, remove: BTreeSet::new() };
    assert_eq!(plan(&found, &wanted), Ok(vec![change]));
}

#[test]
fn a_family_that_nobody_has_does_not_go_by_our_devices() {
    let four = brought_to(with_both(machine()), &gateway());
    let table = &four.packets[&Family::V6];
    assert_eq!((drops_of(table, "arriving"), drops_of(table, "leaving")), (2, 2));
    // Beside what is said of guests, who may have it all the same.
    assert_eq!(table.sets.keys().collect::<Vec<_>>(), [Table::GUESTS]);
    assert!(four.rules.iter().all(|rule| rule.family == Family::V4));
    let six = brought_to(with_both(new_machine()), &six_alone());
    let table = &six.packets[&Family::V4];
    assert_eq!((drops_of(table, "arriving"), table.sets.len()), (2, 1));
    assert!(six.routes.iter().all(|route| route.net.addr().is_ipv6()));
}

#[test]
fn a_node_is_called_the_same_in_both_families() {
    let there = brought_to(with_both(machine()), &both_at_gateway()).overlay.unwrap();
    let mac = Mac::of(address("10.201.0.2"));
    for node in ["10.201.0.2", "fd00:c8::2"] {
        let neighbour = Neighbour { address: address(node), mac };
        assert!(there.neighbours.contains(&neighbour), "{there:#?}");
    }
    assert_eq!((there.neighbours.len(), there.endpoints.len()), (4, 2));
    let there = brought_to(with_both(other_machine()), &both_at_other()).overlay.unwrap();
    assert_eq!(there.vxlan.unwrap().mac, mac);
    // Who has no IPv4 is called by the end of what he has.
    let nodes = [["fd00:c8::2", "192.0.2.11"]];
    let overlay = Some(overlay("192.0.2.1", &nodes));
    let there = brought_to(with_both(machine()), &Wanted { overlay, ..six_alone() });
    let there = there.overlay.unwrap();
    assert_eq!(there.vxlan.unwrap().mac, Mac([2, b'm', 0, 0, 0, 1]));
    let mac = Mac([2, b'm', 0, 0, 0, 2]);
    let machine = Some(address("192.0.2.11"));
    assert_eq!(there.endpoints, [Endpoint { mac, machine }].into());
}

#[test]
fn each_family_goes_by_addresses_of_its_own() {
    let gateways = brought_to(with_both(machine()), &both_at_gateway());
    let others = brought_to(with_both(other_machine()), &both_at_other());
    for (found, to, by) in [
        (&gateways, "fd42:1::5/128", "fd00:c8::2"),
        (&gateways, "fd42:2::5/128", "fd00:c8::3"),
        (&gateways, "10.42.1.5/32", "10.201.0.2"),
        (&others, "fd00:c8:4::/64", "fd00:c8::1"),
        (&others, "10.203.0.0/26", "10.201.0.1"),
    ] {
        let net = to.parse().unwrap();
        let route = found.routes.iter().find(|route| route.net == net).unwrap();
        assert_eq!(route.gateway, Some(address(by)), "{route}");
        assert!(route.onlink && route.device == Some(Step::OVERLAY), "{route}");
    }
    let rules: Vec<_> = gateways.rules.iter().map(ToString::to_string).collect();
    let expected = [
        "500: iif mercato0 lookup 7477 (IPv4)",
        "500: to 10.200.0.0/13 lookup 7475",
        "500: iif mercato0 lookup 7477 (IPv6)",
        "500: from fd00:c8::1/128 lookup 7477",
        "500: to fd00:c8::/32 lookup 7475",
    ];
    assert_eq!(rules, expected);
}

#[test]
fn the_network_of_the_nodes_may_be_of_ipv6() {
    let nodes = [["10.201.0.2", "2001:db8::11"], ["fd00:c8::2", "2001:db8::11"]];
    let elsewhere = addresses(&[["10.42.1.5", "10.201.0.2"], ["fd42:1::5", "10.201.0.2"]]);
    let overlay = Some(overlay("2001:db8::1", &nodes));
    let way = Way::Device { elsewhere };
    let wanted = Wanted { overlay, way, ..both(wanted(), "fd00:c8::1") };
    let own = [(address("2001:db8::1"), Some("eth0".to_owned()))].into();
    let found = brought_to(Found { own, ..with_both(new_machine()) }, &wanted);
    let machines = |family: Family| found.packets[&family].sets.get(Table::MACHINES);
    assert_eq!(machines(Family::V4), None);
    assert_eq!(machines(Family::V6), Some(&[address("2001:db8::11")].into()));
    // Datagrams of it are looked at where they come, whatever is in them.
    let four = Wanted { second: None, ..wanted };
    let four = Wanted {
        ranges: nets(&["10.201.4.0/24"]),
        pods: BTreeSet::new(),
        way: Way::default(),
        overlay: four.overlay.map(|mut overlay| {
            overlay.nodes.remove(&address("fd00:c8::2"));
            overlay
        }),
        ..four
    };
    let found = brought_to(found, &four);
    let table = &found.packets[&Family::V6];
    assert_eq!((drops_of(table, "input"), drops_of(table, "forward")), (3, 3));
    assert_eq!(drops_of(table, "arriving"), 2);
}

#[test]
fn a_device_has_ipv6_by_its_size() {
    let mut small = with_both(new_machine());
    let device = small.device.as_mut().unwrap();
    device.mtu = 1_000;
    device.settings.remove(&DeviceSetting::AddressGeneration);
    brought_to(small, &both(wanted(), "fd00:c8::1"));
    brought_to(with_both(new_machine()), &Wanted { mtu: 1_000, ..wanted() });
}

#[test]
fn addresses_of_the_link_go() {
    let wanted = both(wanted(), "fd00:c8::1");
    let whole = brought_to(with_both(new_machine()), &wanted);
    let mut found = whole.clone();
    let link = "fe80::ff:fe00:1/64".parse().unwrap();
    found.device.as_mut().unwrap().addresses.insert(link);
    assert_eq!(brought_to(found, &wanted), whole);
}

#[test]
fn what_cannot_be_is_said() {
    let refused = |change: fn(&mut Wanted)| {
        let mut wanted = both_at_gateway();
        change(&mut wanted);
        plan(&with_both(machine()), &wanted).unwrap_err()
    };
    let none = plan(&machine(), &both_at_gateway()).unwrap_err();
    assert_eq!(none, WantedError::Kernel(Family::V6));
    let same = refused(|wanted| {
        wanted.second.as_mut().unwrap().pool = nets(&["10.0.0.0/9"]).pop_first().unwrap();
    });
    assert!(matches!(same, WantedError::SameFamily { .. }), "{same}");
    let family = refused(|wanted| wanted.second = None);
    assert!(matches!(family, WantedError::Family(_)), "{family}");
    let outside = refused(|wanted| wanted.second = Some(place("fd42::1")));
    assert!(matches!(outside, WantedError::Outside { .. }), "{outside}");
    let small = refused(|wanted| wanted.overlay.as_mut().unwrap().mtu = 1_279);
    assert_eq!(small, WantedError::Small { mtu: 1_279, least: 1_280 });
    let pod = refused(|wanted| {
        wanted.pods.insert(address("fd00:c8::77"));
    });
    assert!(matches!(pod, WantedError::PodInPool { .. }), "{pod}");
    let itself = refused(|wanted| {
        let nodes = &mut wanted.overlay.as_mut().unwrap().nodes;
        nodes.insert(address("fd00:c8::1"), address("192.0.2.13"));
    });
    assert_eq!(itself, WantedError::Itself(address("fd00:c8::1")));
    let network = refused(|wanted| {
        let nodes = &mut wanted.overlay.as_mut().unwrap().nodes;
        nodes.insert(address("fd00:c8::4"), address("2001:db8::4"));
    });
    assert_eq!(network, WantedError::OtherNetwork(address("2001:db8::4")));
    // Two at one machine, and two that end alike.
    for (node, machine) in [
        ("fd00:c8::22", "192.0.2.11"),
        ("10.201.0.22", "192.0.2.11"),
        ("fd00:c8::1:ac9:2", "192.0.2.14"),
        ("fd00:c8::1:ac9:1", "192.0.2.14"),
    ] {
        let mut wanted = both_at_gateway();
        let nodes = &mut wanted.overlay.as_mut().unwrap().nodes;
        nodes.insert(address(node), address(machine));
        let alike = plan(&with_both(self::machine()), &wanted).unwrap_err();
        assert!(matches!(alike, WantedError::Alike { .. }), "{alike}");
    }
    let to = nets(&["fd42:1::5/128"]).pop_first().unwrap();
    let one = refused(|wanted| {
        wanted.overlay.as_mut().unwrap().nodes.remove(&address("fd00:c8::2"));
    });
    assert_eq!(one, WantedError::OneFamily { node: address("10.201.0.2"), to });
    let mut without = both_at_other();
    without.overlay.as_mut().unwrap().nodes.remove(&address("fd00:c8::1"));
    let one = plan(&with_both(other_machine()), &without).unwrap_err();
    assert!(matches!(one, WantedError::OneFamily { .. }), "{one}");
}
