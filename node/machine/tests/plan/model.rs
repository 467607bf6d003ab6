//! A machine whose kernel is this code.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use mercato_machine::{
    DeviceSetting, Endpoint, Family, Found, Link, Marks, Outward, OverlayLink, Route, Step, Vxlan,
    Wanted, Way,
};

pub(crate) fn nets(nets: &[&str]) -> BTreeSet<IpNet> {
    nets.iter().map(|net| net.parse().unwrap()).collect()
}

pub(crate) fn wanted() -> Wanted {
    Wanted {
        marks: Marks::default(),
        mtu: 1_380,
        pool: "10.200.0.0/13".parse().unwrap(),
        node: "10.201.0.1".parse().unwrap(),
        second: None,
        names: None,
        api: None,
        ranges: nets(&["10.201.4.0/24", "10.203.0.0/26"]),
        homes: nets(&[]),
        pods: ["10.42.0.5", "10.42.0.6"].map(|pod| pod.parse().unwrap()).into(),
        outward: Outward::default(),
        guests: BTreeSet::new(),
        way: Way::default(),
        overlay: None,
    }
}

/// A machine with a device as the gateway makes it.
pub(crate) fn new_machine() -> Found {
    let settings = DeviceSetting::ALL.map(|setting| (setting, 1)).into();
    let device = Link { index: 7, up: false, mtu: 1_500, addresses: BTreeSet::new(), settings };
    Found { forwarding: [(Family::V4, true)].into(), device: Some(device), ..Found::default() }
}

/// One whose kernel has both families.
pub(crate) fn with_both(found: Found) -> Found {
    Found { forwarding: Family::ALL.map(|family| (family, true)).into(), ..found }
}

/// What a machine is after steps, as its kernel would have it.
pub(crate) fn after(mut found: Found, steps: &[Step]) -> Found {
    for step in steps {
        perform(&mut found, step);
    }
    found
}

/// Ours, whichever it is.
fn device(found: &mut Found, index: u32) -> &mut Link {
    let overlay = found.overlay.iter_mut().map(|there| &mut there.link);
    found.device.iter_mut().chain(overlay).find(|link| link.index == index).expect("that device")
}

fn perform(found: &mut Found, step: &Step) {
    match step {
        Step::ReplacePackets(table) => {
            found.packets.insert(table.family, table.clone());
        }
        Step::ChangeSet { family, set, add, remove } => {
            let set = found.packets.get_mut(family).unwrap().sets.get_mut(set).unwrap();
            assert!(remove.is_subset(set) && add.is_disjoint(set), "the kernel refuses that");
            set.retain(|member| !remove.contains(member));
            set.extend(add);
        }
        Step::ChangeNets { family, set, add, remove } => {
            let set = found.packets.get_mut(family).unwrap().nets.get_mut(set).unwrap();
            assert!(remove.is_subset(set) && add.is_disjoint(set), "the kernel refuses that");
            set.retain(|member| !remove.contains(member));
            set.extend(add);
            let is_within = |one: &IpNet, other: &IpNet| one != other && other.contains(one);
            let overlaps = |one| set.iter().any(|other| is_within(one, other));
            assert!(!set.iter().any(overlaps), "the kernel refuses that");
        }
        Step::RemovePackets(family) => drop(found.packets.remove(family).unwrap()),
        // Of packets, the model knows nothing.
        Step::ForgetConnections { pods, .. } => assert!(!pods.is_empty()),
        Step::AddRoute(route) => add_route(found, route),
        Step::RemoveRoute(route) => assert!(found.routes.remove(route)),
        Step::AddRule(rule) => {
            assert!(found.forwarding.contains_key(&rule.family), "the kernel has none");
            assert!(found.rules.insert(rule.clone()));
        }
        Step::RemoveRule(rule) => assert!(found.rules.remove(rule)),
        Step::SetMtu { device: index, mtu } => set_mtu(found, *index, *mtu),
        Step::SetDevice { device: index, setting, value } => {
            let link = device(found, *index);
            assert!(setting.family() == Family::V4 || link.mtu >= 1_280, "it has no IPv6");
            link.settings.insert(*setting, *value);
        }
        Step::SetUp { device: index } => device(found, *index).up = true,
        Step::AddAddress { device: index, address } => {
            assert!(device(found, *index).addresses.insert(*address));
        }
        Step::RemoveAddress { device: index, address } => {
            assert!(device(found, *index).addresses.remove(address));
            let (source, by) = (Some(address.addr()), Some(*index));
            let is_free = |route: &Route| route.source != source || route.device != by;
            assert!(found.routes.iter().all(is_free), "it is in use");
        }
        Step::AddOverlay { mtu, vxlan, .. } => add_overlay(found, *mtu, vxlan),
        Step::RemoveDevice { device } => {
            assert_eq!(*device, overlay(found).link.index);
            found.routes.retain(|route| route.device != Some(*device));
            found.overlay = None;
        }
        Step::AddNeighbour { neighbour, .. } => {
            let neighbours = &mut overlay(found).neighbours;
            neighbours.retain(|other| other.address != neighbour.address);
            neighbours.insert(neighbour.clone());
        }
        Step::RemoveNeighbour { neighbour, .. } => {
            assert!(overlay(found).neighbours.remove(neighbour));
        }
        Step::AddEndpoint { mac, machine, .. } => {
            let there = overlay(found);
            let endpoints = &mut there.endpoints;
            assert!(endpoints.iter().all(|other| other.mac != *mac), "there would be two");
            let local = there.vxlan.as_ref().unwrap().local;
            assert_eq!(local.is_ipv4(), machine.is_ipv4(), "the kernel refuses that");
            endpoints.insert(Endpoint { mac: *mac, machine: Some(*machine) });
        }
        Step::RemoveEndpoint { mac, .. } => {
            overlay(found).endpoints.retain(|endpoint| endpoint.mac != *mac);
        }
    }
}

fn add_route(found: &mut Found, route: &Route) {
    let has_metric = route.net.addr().is_ipv4() || route.metric != 0;
    assert!(has_metric, "the kernel gives it another one");
    let key = |route: &Route| (route.table, route.net, route.metric);
    let source = route.source;
    if let Some(index) = route.device {
        let link = device(found, index);
        let has_source = |source: IpAddr| link.addresses.contains(&source.into());
        assert!(link.up && source.is_none_or(has_source), "the kernel refuses that");
    }
    found.routes.retain(|other| key(other) != key(route));
    found.routes.insert(route.clone());
}

/// With its size a device gets IPv6, or loses it.
fn set_mtu(found: &mut Found, index: u32, mtu: u32) {
    let has_six = found.forwarding.contains_key(&Family::V6) && mtu >= 1_280;
    let link = device(found, index);
    link.mtu = mtu;
    if has_six {
        link.settings.entry(DeviceSetting::AddressGeneration).or_insert(0);
    } else {
        link.settings.remove(&DeviceSetting::AddressGeneration);
    }
}

fn overlay(found: &mut Found) -> &mut OverlayLink {
    found.overlay.as_mut().expect("the overlay")
}

fn add_overlay(found: &mut Found, mtu: u32, vxlan: &Vxlan) {
    assert!(found.overlay.is_none(), "the kernel refuses that");
    let has_six = found.forwarding.contains_key(&Family::V6) && mtu >= 1_280;
    let settings = has_six.then_some((DeviceSetting::AddressGeneration, 0)).into_iter().collect();
    found.overlay = Some(OverlayLink {
        link: Link { index: Step::OVERLAY, mtu, settings, ..new_device() },
        vxlan: Some(vxlan.clone()),
        neighbours: BTreeSet::new(),
        endpoints: BTreeSet::new(),
    });
}

/// One that nothing is set at.
fn new_device() -> Link {
    Link { index: 0, up: false, mtu: 0, addresses: BTreeSet::new(), settings: BTreeMap::new() }
}
