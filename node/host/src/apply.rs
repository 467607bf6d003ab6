//! Reads the machine and changes it: the one part of this crate that touches anything.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::at_node::forget_at_node;
use crate::error::{HostError, KernelError};
use crate::limits;
use crate::netlink::{
    Change, Conversation, Device, add_address, add_endpoint, add_neighbour, add_route, add_rule,
    add_vxlan, all_routes, change_nets, change_set, forget_connections, own_routes, read_addresses,
    read_devices, read_dropping, read_endpoints, read_forwarding, read_neighbours, read_packets,
    read_rules, remove_address, remove_device, remove_endpoint, remove_neighbour, remove_packets,
    remove_route, remove_rule, replace_packets, set_device, set_mtu, set_up,
};
use mercato_machine::Dropping;
use mercato_machine::Marks;
use mercato_machine::Step;
use mercato_machine::Table;
use mercato_machine::clean_plan;
use mercato_machine::{Found, Link, OverlayLink};
use mercato_machine::{Network, NetworkKind};

/// What is there, in the network namespace of this thread.
///
/// # Errors
/// When the kernel does not say.
pub fn read(marks: &Marks) -> Result<Found, HostError> {
    let mut kernel = about_routing()?;
    let forwarding = read_forwarding(&mut kernel).map_err(reading("forwarding"))?;
    let devices = read_devices(&mut kernel).map_err(reading("devices"))?;
    let addresses = read_addresses(&mut kernel).map_err(reading("addresses"))?;
    let (mut routes, mut rules, mut packets) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
    let mut about_packets = Conversation::about_packets().map_err(reading("nf_tables"))?;
    for family in forwarding.keys().copied() {
        let own = own_routes(&mut kernel, marks.protocol, family).map_err(reading("routes"))?;
        routes.extend(own);
        let all = read_rules(&mut kernel, family).map_err(reading("routing rules"))?;
        rules.extend(all.into_iter().filter(|rule| rule.protocol == marks.protocol));
        let table = read_packets(&mut about_packets, family).map_err(reading("nf_tables"))?;
        packets.extend(table.map(|table| (family, table)));
    }
    let link = |device: &Device| Link {
        index: device.index,
        up: device.up,
        mtu: device.mtu,
        addresses: addresses
            .iter()
            .filter(|address| address.device == device.index)
            .map(|address| address.net)
            .collect(),
        settings: device.settings.clone(),
    };
    let named = |name: &str| devices.iter().find(|device| device.name == name);
    let overlay = match named(&marks.overlay) {
        Some(device) => {
            let mut neighbours = BTreeSet::new();
            for family in forwarding.keys().copied() {
                let of_family = read_neighbours(&mut kernel, device.index, family);
                neighbours.extend(of_family.map_err(reading("neighbours"))?);
            }
            let endpoints = read_endpoints(&mut kernel, device.index)
                .map_err(reading("entries of the overlay"))?
                .into_iter()
                .collect();
            let vxlan = device.vxlan.clone();
            Some(OverlayLink { link: link(device), vxlan, neighbours, endpoints })
        }
        None => None,
    };
    let by = |index: u32| {
        let device = devices.iter().find(|device| device.index == index && device.has_others);
        device.map(|device| device.name.clone())
    };
    let mut own = BTreeMap::new();
    for address in &addresses {
        let device = by(address.device);
        let known = own.entry(address.net.addr()).or_insert_with(|| device.clone());
        if *known != device {
            *known = None;
        }
    }
    Ok(Found {
        forwarding,
        device: named(&marks.device).map(link),
        overlay,
        own,
        routes,
        rules,
        packets,
    })
}

/// Does the steps, one after the other. Each is done whole or not at all, and may be done again:
/// whoever was stopped in between reads, plans and goes on.
///
/// # Errors
/// At the first that the kernel refuses.
pub fn apply(steps: &[Step]) -> Result<(), HostError> {
    if steps.is_empty() {
        return Ok(());
    }
    let open = |source| HostError::Apply { doing: "speak to the kernel".to_owned(), source };
    let mut routing = Conversation::about_routing().map_err(open)?;
    let mut packets = Conversation::about_packets().map_err(open)?;
    for step in steps {
        perform(&mut routing, &mut packets, step)
            .map_err(|source| HostError::Apply { doing: step.to_string(), source })?;
    }
    Ok(())
}

fn perform(
    routing: &mut Conversation,
    packets: &mut Conversation,
    step: &Step,
) -> Result<(), KernelError> {
    let change: Change = match step {
        Step::ReplacePackets(table) => return replace_packets(packets, table),
        Step::ChangeSet { family, set, add, remove } => {
            return change_set(packets, *family, set, add, remove);
        }
        Step::ChangeNets { family, set, add, remove } => {
            return change_nets(packets, *family, set, add, remove);
        }
        Step::RemovePackets(family) => return remove_packets(packets, *family),
        Step::ForgetConnections { pods, pool } => {
            return forget_connections(packets, pods, &[*pool].into());
        }
        Step::AddRoute(route) => add_route(route),
        Step::RemoveRoute(route) => remove_route(route),
        Step::AddRule(rule) => add_rule(rule),
        Step::RemoveRule(rule) => remove_rule(rule),
        Step::AddOverlay { name, mtu, vxlan } => add_vxlan(Step::OVERLAY, name, *mtu, vxlan),
        Step::RemoveDevice { device } => remove_device(*device),
        Step::AddNeighbour { device, neighbour } => add_neighbour(*device, neighbour),
        Step::RemoveNeighbour { device, neighbour } => remove_neighbour(*device, neighbour),
        Step::AddEndpoint { device, mac, machine } => add_endpoint(*device, *mac, *machine),
        Step::RemoveEndpoint { device, mac } => remove_endpoint(*device, *mac),
        Step::SetMtu { device, mtu } => set_mtu(*device, *mtu),
        Step::SetDevice { device, setting, value } => set_device(*device, *setting, *value),
        Step::SetUp { device } => set_up(*device),
        Step::AddAddress { device, address } => add_address(*device, *address),
        Step::RemoveAddress { device, address } => remove_address(*device, *address),
    };
    routing.perform(change)
}

/// Has conntrack forget the connections of pods that are gone with whoever is in these networks: such a
/// pod has not said that they are over, and it would know them for days.
///
/// # Errors
/// When the kernel does not say what it knows, or refuses.
pub fn forget(pods: &BTreeSet<IpAddr>, nets: &BTreeSet<IpNet>) -> Result<(), HostError> {
    let kernel = Conversation::about_packets();
    let done = kernel.and_then(|mut kernel| forget_connections(&mut kernel, pods, nets));
    let doing = "forget the connections of pods that are gone".to_owned();
    done.map_err(|source| HostError::Apply { doing, source })
}

/// Removes all that is ours, but for the gateway's device, which goes with the gateway, and what keeps
/// guests closed that are there yet.
///
/// # Errors
/// When the kernel does not say what is there, or refuses.
pub fn clean(marks: &Marks) -> Result<(), HostError> {
    apply(&clean_plan(&read(marks)?, marks))?;
    forget_at_node()
}

/// The chains of others, seen by nf_tables, that drop what is forwarded and spoken of by none of their
/// rules, and that do not accept whatever comes and goes by our device. Whatever has its rules
/// elsewhere (iptables' legacy tables) is not seen.
///
/// # Errors
/// When the kernel does not say.
pub fn dropping(marks: &Marks) -> Result<Vec<Dropping>, HostError> {
    let kernel = Conversation::about_packets();
    let all = kernel.and_then(|mut kernel| read_dropping(&mut kernel, &marks.device));
    let mut all = all.map_err(reading("nf_tables"))?;
    all.retain(|one| one.table != Table::NAME);
    Ok(all)
}

/// Each network that this machine has an address of or a route to, in all its tables, but for
/// ours.
///
/// # Errors
/// When the kernel does not say, or there are more than are looked at.
pub fn networks(marks: &Marks) -> Result<Vec<Network>, HostError> {
    let mut kernel = about_routing()?;
    let devices = read_devices(&mut kernel).map_err(reading("devices"))?;
    let addresses = read_addresses(&mut kernel).map_err(reading("addresses"))?;
    let routes = all_routes(&mut kernel).map_err(reading("routes"))?;
    let names: BTreeMap<u32, String> =
        devices.into_iter().map(|device| (device.index, device.name)).collect();
    let name = |index: Option<u32>| index.and_then(|index| names.get(&index).cloned());
    let of_addresses = addresses.into_iter().map(|address| Network {
        net: address.net,
        kind: NetworkKind::Address,
        device: name(Some(address.device)),
    });
    let others = routes.into_iter().filter(|route| route.protocol != marks.protocol);
    let of_routes = others.map(|route| Network {
        net: route.net,
        kind: NetworkKind::Route { table: route.table },
        device: name(route.device),
    });
    let ours = [&marks.device, &marks.overlay];
    let is_other =
        |network: &Network| !network.device.as_ref().is_some_and(|device| ours.contains(&device));
    let networks: BTreeSet<Network> =
        of_addresses.chain(of_routes).filter(is_other).take(limits::NETWORKS + 1).collect();
    if networks.len() > limits::NETWORKS {
        return Err(HostError::Networks { most: limits::NETWORKS });
    }
    Ok(networks.into_iter().collect())
}

/// The largest packet of the device that has this address, in bytes; of several the least. None:
/// no device has it.
///
/// # Errors
/// When the kernel does not say.
pub fn mtu_of(address: IpAddr) -> Result<Option<u32>, HostError> {
    let mut kernel = about_routing()?;
    let addresses = read_addresses(&mut kernel).map_err(reading("addresses"))?;
    let devices = read_devices(&mut kernel).map_err(reading("devices"))?;
    let having = addresses.iter().filter(|one| one.net.addr() == address);
    let having: BTreeSet<u32> = having.map(|one| one.device).collect();
    Ok(devices.iter().filter(|one| having.contains(&one.index)).map(|one| one.mtu).min())
}

fn about_routing() -> Result<Conversation, HostError> {
    Conversation::about_routing().map_err(reading("network"))
}

fn reading(what: &'static str) -> impl Fn(KernelError) -> HostError {
    move |source| HostError::Read { what, source }
}
