//! What devices should be: settings, size and address of each, and the entries of the overlay.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::family::Family;
use crate::found::{DeviceSetting, Endpoint, Found, Link, Neighbour, OverlayLink, Vxlan};
use crate::overlay::{Mac, Overlay};
use crate::step::Step;
use crate::wanted::Wanted;

/// Settings, size and addresses of a device, which is up before routes lead to it.
pub(crate) fn link(device: &Link, mtu: u32, wanted: &Wanted) -> Vec<Step> {
    let index = device.index;
    let is_wrong = |setting: &DeviceSetting| {
        let is_other = device.settings.get(setting).map(|value| *value != setting.wanted());
        match setting.family() {
            Family::V4 => is_other.unwrap_or(true),
            // A device without IPv6 is left so, where this node has none.
            Family::V6 => {
                mtu >= Family::LEAST_MTU
                    && is_other.unwrap_or_else(|| wanted.place(Family::V6).is_some())
            }
        }
    };
    let set = |setting: DeviceSetting| {
        let value = setting.wanted();
        Step::SetDevice { device: index, setting, value }
    };
    // With its size a device gets IPv6, or loses it.
    let sized = (device.mtu != mtu).then_some(Step::SetMtu { device: index, mtu });
    let mut steps: Vec<Step> = sized.into_iter().collect();
    steps.extend(DeviceSetting::ALL.into_iter().filter(is_wrong).map(set));
    steps.extend((!device.up).then_some(Step::SetUp { device: index }));
    let missing = wanted.own().filter(|address| !device.addresses.contains(address));
    steps.extend(missing.map(|address| Step::AddAddress { device: index, address }));
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
        mac: wanted.mac(),
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
            settings: settings_of_new(&found, overlay.mtu),
        },
        vxlan: Some(vxlan.clone()),
        neighbours: BTreeSet::new(),
        endpoints: BTreeSet::new(),
    });
    let name = wanted.marks.overlay.clone();
    steps.push(Step::AddOverlay { name, mtu: overlay.mtu, vxlan });
    (found, steps)
}

/// What the kernel sets at a new device, as far as it takes part in what it does: one that is too
/// small has no IPv6.
fn settings_of_new(found: &Found, mtu: u32) -> BTreeMap<DeviceSetting, u32> {
    let has_six = found.forwarding.contains_key(&Family::V6) && mtu >= Family::LEAST_MTU;
    has_six.then_some((DeviceSetting::AddressGeneration, 0)).into_iter().collect()
}

/// The entries that other nodes lack. One that has come to another address is forgotten first: the
/// kernel adds machines to an address, and sends to all.
pub(crate) fn missing_entries(there: &OverlayLink, overlay: &Overlay) -> Vec<Step> {
    let device = there.link.index;
    let mut steps = Vec::new();
    let macs = overlay.macs();
    for (machine, mac) in &macs {
        let mac = *mac;
        let endpoint = Endpoint { mac, machine: Some(*machine) };
        let from = there.endpoints.range(Endpoint { mac, machine: None }..);
        let mut at = from.take_while(|endpoint| endpoint.mac == mac);
        let first = at.next();
        if first != Some(&endpoint) || at.next().is_some() {
            steps.extend(first.map(|_| Step::RemoveEndpoint { device, mac }));
            steps.push(Step::AddEndpoint { device, mac, machine: *machine });
        }
    }
    let neighbours = overlay.nodes.iter().filter_map(|(node, machine)| {
        let neighbour = Neighbour { address: *node, mac: *macs.get(machine)? };
        (!there.neighbours.contains(&neighbour)).then_some(neighbour)
    });
    steps.extend(neighbours.map(|neighbour| Step::AddNeighbour { device, neighbour }));
    steps
}

/// The entries of whoever is no node any more.
pub(crate) fn stale_entries(there: &OverlayLink, overlay: &Overlay) -> Vec<Step> {
    let device = there.link.index;
    let is_gone = |neighbour: &&Neighbour| !overlay.nodes.contains_key(&neighbour.address);
    let neighbours = there.neighbours.iter().filter(is_gone).cloned();
    let known: BTreeSet<Mac> = overlay.macs().into_values().collect();
    let macs: BTreeSet<Mac> = there.endpoints.iter().map(|endpoint| endpoint.mac).collect();
    let forgotten = macs.difference(&known);
    neighbours
        .map(|neighbour| Step::RemoveNeighbour { device, neighbour })
        .chain(forgotten.map(|mac| Step::RemoveEndpoint { device, mac: *mac }))
        .collect()
}

/// Addresses that a device of ours should not have, or no more.
pub(crate) fn stale_addresses(device: &Link, kept: &BTreeSet<IpNet>) -> Vec<Step> {
    let stale = own_addresses(device).filter(|address| !kept.contains(address));
    stale.map(|address| Step::RemoveAddress { device: device.index, address }).collect()
}

/// Whatever is whole on our device: nobody else has a reason to put it there. And what the kernel
/// gives to a device of IPv6 that is set up before it is told not to.
pub(crate) fn own_addresses(device: &Link) -> impl Iterator<Item = IpNet> + '_ {
    let is_ours = |net: &IpNet| {
        let is_of_link = match net.addr() {
            IpAddr::V4(_) => false,
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        net.prefix_len() == net.max_prefix_len() || is_of_link
    };
    device.addresses.iter().copied().filter(is_ours)
}
