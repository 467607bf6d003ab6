//! By which addresses a pod is known to its node: a closed one may know itself by another address than
//! it has on the wire, and its device has that one alone. Its rules say which it is.

use std::net::{IpAddr, Ipv4Addr};

use crate::error::{HostError, KernelError};
use crate::netlink::{Address, Conversation, read_addresses, read_frame_map};
use mercato_machine::{FrameTable, Table};

/// In each namespace the kernel makes the device of loopback first.
const LOOPBACK: u32 = 1;

/// All addresses in the namespace of this thread, as they are on the wire.
pub(crate) fn known_addresses() -> Result<Vec<Address>, HostError> {
    let reading = |source| HostError::Read { what: "addresses of a pod", source };
    let mut kernel = Conversation::about_routing().map_err(reading)?;
    let mut all = read_addresses(&mut kernel).map_err(reading)?;
    // Most pods have none that is whole, and need not be asked for rules.
    if !all.iter().any(is_whole) {
        return Ok(all);
    }
    let Some((called, here)) = own_addresses()? else { return Ok(all) };
    let has = |all: &[Address], address: Ipv4Addr| {
        all.iter().any(|one| one.device != LOOPBACK && one.net.addr() == IpAddr::V4(address))
    };
    // Where it has neither, the change from one to another has not come to its end.
    let is_any = !has(&all, called) && !has(&all, here);
    for one in &mut all {
        if is_whole(one) && (is_any || one.net.addr() == IpAddr::V4(called)) {
            one.net = IpAddr::V4(here).into();
        }
    }
    Ok(all)
}

/// The address that the pod of this thread's namespace knows itself by, and the one that it has on the
/// wire, as its rules say; none: they are one, or it has no rules.
pub(crate) fn own_addresses() -> Result<Option<(Ipv4Addr, Ipv4Addr)>, HostError> {
    let reading = |source: KernelError| HostError::Read { what: "nf_tables of a pod", source };
    let mut kernel = Conversation::about_packets().map_err(reading)?;
    let map = read_frame_map(&mut kernel, Table::NAME, FrameTable::OWN_HERE).map_err(reading)?;
    Ok(map.into_iter().next())
}

fn is_whole(one: &Address) -> bool {
    one.device != LOOPBACK && one.net.addr().is_ipv4() && one.net.prefix_len() == 32
}
