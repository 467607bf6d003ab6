//! What devices should be: settings, size and address of each, and the entries of the overlay.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::found::{DeviceSetting, Endpoint, Found, Link, Neighbour, OverlayLink, Vxlan};
use crate::overlay::{Mac, Overlay};
use crate::step::Step;
use crate::wanted::Wanted;

/// Settings, size and address of a device, which is up before routes lead to it.
pub(crate) fn link(device: &Link, mtu: u32, node: IpAddr) -> Vec<Step> {
    let index = device.index;
    let is_wrong =
        |setting: &DeviceSetting| device.settings.get(setting) != Some(&setting.wanted());
    let set = |setting: DeviceSetting| {
        let value = setting.wanted();
        Step::SetDevice { device: index, setting, value }
    };
    let mut steps: Vec<Step> = DeviceSetting::ALL.into_iter().filter(is_wrong).map(set).collect();
    steps.extend((device.mtu != mtu).then_some(Step::SetMtu { device: index, mtu }));
    steps.extend((!device.up).then_some(Step::SetUp { device: index }));
    let address = IpNet::from(node);
    let is_there = device.addresses.contains(&address);
    steps.extend((!is_there).then_some(Step::AddAddress { device: index, address }));
    steps
}

/// What is there once the device of the overlay is made, and what makes it. With one that is
/// another than is wanted go its routes and entries.
pub(crate) fn with_overlay(found: &Found, wanted: &Wanted) -> (Found, Vec<Step>) {
    let mut found = found.clone();
    let Some(overlay) = &wanted.overlay else { return (found, Vec::new()) };
    let vxlan = Vxlan {
        vni: overlay.vni,
        port: overlay.port,
        local: overlay.local,
        mac: Mac::of(wanted.node),
        is_plain: true,
    };
    let mut steps = Vec::new();
    if let Some(there) = &found.overlay {
        if there.link.index == Step::OVERLAY && there.vxlan.as_ref() == Some(&vxlan) {
            return (found, steps);
        }
        let device = there.link.index;
        steps.push(Step::RemoveDevice { device });
        found.routes.retain(|route| route.device != Some(device));
    }
    found.overlay = Some(OverlayLink {
        link: Link {
            index: Step::OVERLAY,
            up: false,
            mtu: overlay.mtu,
            addresses: BTreeSet::new(),
            settings: BTreeMap::new(),
        },
        vxlan: Some(vxlan.clone()),
        neighbours: BTreeSet::new(),
        endpoints: BTreeSet::new(),
    });
    let name = wanted.marks.overlay.clone();
    steps.push(Step::AddOverlay { name, mtu: overlay.mtu, vxlan });
    (found, steps)
}

/// The entries that other nodes lack. One that has come to another address is forgotten first: the
/// kernel adds machines to an address, and sends to all.
pub(crate) fn missing_entries(there: &OverlayLink, overlay: &Overlay) -> Vec<Step> {
    let device = there.link.index;
    let mut steps = Vec::new();
    for (node, machine) in &overlay.nodes {
        let neighbour = Neighbour { address: *node, mac: Mac::of(*node) };
        let mac = neighbour.mac;
        let endpoint = Endpoint { mac, machine: Some(*machine) };
        let from = there.endpoints.range(Endpoint { mac, machine: None }..);
        let mut at = from.take_while(|endpoint| endpoint.mac == mac);
        let first = at.next();
        if first != Some(&endpoint) || at.next().is_some() {
            steps.extend(first.map(|_| Step::RemoveEndpoint { device, mac }));
            steps.push(Step::AddEndpoint { device, mac, machine: *machine });
        }
        if !there.neighbours.contains(&neighbour) {
            steps.push(Step::AddNeighbour { device, neighbour });
        }
    }
    steps
}

/// The entries of whoever is no node any more.
pub(crate) fn stale_entries(there: &OverlayLink, overlay: &Overlay) -> Vec<Step> {
    let device = there.link.index;
    let is_gone = |neighbour: &&Neighbour| !overlay.nodes.contains_key(&neighbour.address);
    let neighbours = there.neighbours.iter().filter(is_gone).cloned();
    let known: BTreeSet<Mac> = overlay.nodes.keys().map(|node| Mac::of(*node)).collect();
    let macs: BTreeSet<Mac> = there.endpoints.iter().map(|endpoint| endpoint.mac).collect();
    let forgotten = macs.difference(&known);
    neighbours
        .map(|neighbour| Step::RemoveNeighbour { device, neighbour })
        .chain(forgotten.map(|mac| Step::RemoveEndpoint { device, mac: *mac }))
        .collect()
}

/// Addresses that a device of ours should not have, or no more.
pub(crate) fn stale_addresses(device: &Link, kept: Option<IpAddr>) -> Vec<Step> {
    let kept = kept.map(IpNet::from);
    let stale = own_addresses(device).filter(|address| Some(*address) != kept);
    stale.map(|address| Step::RemoveAddress { device: device.index, address }).collect()
}

/// Whatever is whole and of IPv4 on our device: nobody else has a reason to put it there.
pub(crate) fn own_addresses(device: &Link) -> impl Iterator<Item = IpNet> + '_ {
    let whole = |address: &IpNet| address.addr().is_ipv4() && address.prefix_len() == 32;
    device.addresses.iter().copied().filter(whole)
}
