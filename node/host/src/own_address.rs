//! The one IPv4 address of a closed pod's device: that by which everybody knows the pod, in the place of the
//! one that its pod network gave it. Rules that write both for each other have to be in force before,
//! so that nothing leaves with a source that is none here.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::error::{HostError, KernelError};
use crate::known::own_addresses;
use crate::netlink::{
    Address, Conversation, DeviceRoute, add_address, append_route, masquerade_as, read_addresses,
    remove_address, remove_exact_route, routes_of_device,
};
use crate::sandbox::Sandbox;

/// Gives this address to a pod's device, and takes all others of IPv4 from it; the routes by the device
/// stay, with this address as their source. What is so already is not touched.
///
/// As the pod ends, plugins of pod networks look for the rule that masquerades it by the address of its
/// device, and fail if there is none: so this node's rule for it goes along.
///
/// # Errors
/// When the sandbox is gone, the kernel refuses, or somebody else changes the same: then a part of it may
/// be done, and a second try does the rest.
pub fn put_address(sandbox: &Sandbox, address: Ipv4Addr) -> Result<(), HostError> {
    let before = sandbox.inside(|| {
        let mut kernel = Conversation::about_routing().map_err(reading)?;
        of_device(&mut kernel, sandbox)
    })?;
    if !has_alone(&before, address) {
        masquerade(&before, address);
    }
    sandbox.inside(|| put(sandbox, address))
}

/// Whether the pod's device has this address, and no other one of IPv4.
///
/// # Errors
/// When the sandbox is gone, or the kernel does not say.
pub fn has_address(sandbox: &Sandbox, address: Ipv4Addr) -> Result<bool, HostError> {
    sandbox.inside(|| {
        let mut kernel = Conversation::about_routing().map_err(reading)?;
        Ok(has_alone(&of_device(&mut kernel, sandbox)?, address))
    })
}

/// Gives a pod's device the address that its pod network gave it, where the rules there say that it knows
/// itself by another one.
pub(crate) fn give_back(sandbox: &Sandbox) -> Result<(), HostError> {
    let Some((called, here)) = sandbox.inside(own_addresses)? else { return Ok(()) };
    masquerade(&[whole(called)].into(), here);
    sandbox.inside(|| {
        let mut kernel = Conversation::about_routing().map_err(reading)?;
        let has_called = of_device(&mut kernel, sandbox)?.contains(&whole(called));
        if has_called { put(sandbox, here) } else { Ok(()) }
    })
}

/// Has this node's rules masquerade that address in the place of these. Where that fails, nobody misses
/// anything: then a plugin leaves a rule behind, as it would without us for any pod whose address
/// has changed.
fn masquerade(of: &BTreeSet<IpNet>, is: Ipv4Addr) {
    let of = of.iter().filter_map(|net| match net.addr() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    let of = of.collect();
    let _ =
        Conversation::about_packets().and_then(|mut kernel| masquerade_as(&mut kernel, &of, is));
}

/// In the namespace of this thread.
fn put(sandbox: &Sandbox, address: Ipv4Addr) -> Result<(), HostError> {
    let doing = |what: String| {
        let namespace = sandbox.path.display();
        move |source| HostError::Apply {
            doing: format!("{what} in the network namespace {namespace}"),
            source,
        }
    };
    let device = sandbox.device;
    let mut kernel = Conversation::about_routing().map_err(reading)?;
    let addresses = of_device(&mut kernel, sandbox)?;
    let before = routes(&mut kernel, device)?;
    let wanted: Vec<_> = before.iter().map(|route| route.with_source(address)).collect();
    if has_alone(&addresses, address) && before == wanted {
        return Ok(());
    }
    // A route needs its source, and goes with it.
    if !addresses.contains(&whole(address)) {
        let added = kernel.perform(add_address(device, whole(address)));
        added.map_err(doing(format!("give the address {address} to the pod's device")))?;
    }
    let route = || doing(format!("give the source {address} to a route of the pod's device"));
    for (old, new) in before.iter().zip(&wanted).filter(|(old, new)| old != new) {
        kernel.perform(append_route(new)).map_err(route())?;
        kernel.perform(remove_exact_route(old)).map_err(route())?;
    }
    for other in addresses.iter().filter(|other| **other != whole(address)) {
        let removed = kernel.perform(remove_address(device, *other));
        removed.map_err(doing(format!("take the address {other} from the pod's device")))?;
    }
    let left = routes(&mut kernel, device)?;
    for lost in wanted.iter().filter(|wanted| !left.contains(wanted)) {
        kernel.perform(append_route(lost)).map_err(route())?;
    }
    let is_done = has_alone(&of_device(&mut kernel, sandbox)?, address)
        && routes(&mut kernel, device)?.iter().collect::<BTreeSet<_>>() == wanted.iter().collect();
    let what = || format!("have the address {address} and its routes alone at the pod's device");
    if is_done { Ok(()) } else { Err(doing(what())(KernelError::Changing)) }
}

fn of_device(kernel: &mut Conversation, sandbox: &Sandbox) -> Result<BTreeSet<IpNet>, HostError> {
    let all = read_addresses(kernel).map_err(reading)?;
    let is_of_it = |one: &&Address| one.device == sandbox.device && one.net.addr().is_ipv4();
    Ok(all.iter().filter(is_of_it).map(|one| one.net).collect())
}

fn routes(kernel: &mut Conversation, device: u32) -> Result<Vec<DeviceRoute>, HostError> {
    let reading = |source| HostError::Read { what: "routes of a pod", source };
    routes_of_device(kernel, device).map_err(reading)
}

fn has_alone(addresses: &BTreeSet<IpNet>, address: Ipv4Addr) -> bool {
    addresses.iter().eq([&whole(address)])
}

fn whole(address: Ipv4Addr) -> IpNet {
    IpAddr::from(address).into()
}

fn reading(source: KernelError) -> HostError {
    HostError::Read { what: "addresses of a pod", source }
}
