//! Entries of the overlay's device (linux/neighbour.h): which MAC address an address has, and which
//! machine a MAC address is at. Both are of one kind of message.

use std::net::IpAddr;

use super::conversation::{Change, Conversation, list_flags};
use super::message::{
    Attributes, CREATE_OR_REPLACE, Message, REQUEST, address, family, family_number, number,
    octets, whole,
};
use crate::error::KernelError;
use mercato_machine::Family;
use mercato_machine::Mac;
use mercato_machine::{Endpoint, Neighbour};

const HEADER_BYTES: usize = 12;
/// Addresses of machines are in the table of bridges.
const BRIDGE: u8 = libc::AF_BRIDGE as u8;
// Attributes that say more of a machine than its address (`NDA_...`).
const VLAN: u16 = 5;
const PORT: u16 = 6;
const VNI: u16 = 7;
const BY_DEVICE: u16 = 8;
/// By which device a list is asked for.
const OF_DEVICE: u16 = 8;

/// Neighbours of a family that stay until they are removed, of one device. Those that the kernel
/// has found out by itself are none of them.
pub(crate) fn read_neighbours(
    kernel: &mut Conversation,
    device: u32,
    family: Family,
) -> Result<Vec<Neighbour>, KernelError> {
    let header = header(family_number(family), 0, 0, 0);
    let request = || {
        let mut request = Message::new(libc::RTM_GETNEIGH, list_flags(), &header);
        request.put_u32(OF_DEVICE, device);
        request
    };
    let mut neighbours = Vec::new();
    for bytes in kernel.list(request)? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        let state = number(&bytes[8..]).map_or(0, u16::from_ne_bytes);
        let own = attributes.of(libc::NDA_DST).and_then(|value| whole(bytes[0], value));
        let mac = attributes.of(libc::NDA_LLADDR).and_then(number).map(Mac);
        if let (Some(address), Some(mac)) = (own, mac)
            && is_of(device, &bytes)
            && state & libc::NUD_PERMANENT != 0
        {
            neighbours.push(Neighbour { address, mac });
        }
    }
    Ok(neighbours)
}

/// Which machines are behind a device, and by which MAC addresses.
pub(crate) fn read_endpoints(
    kernel: &mut Conversation,
    device: u32,
) -> Result<Vec<Endpoint>, KernelError> {
    let header = header(BRIDGE, device, 0, 0);
    let mut endpoints = Vec::new();
    for bytes in kernel.list(|| Message::new(libc::RTM_GETNEIGH, list_flags(), &header))? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        let Some(mac) = attributes.of(libc::NDA_LLADDR).and_then(number).map(Mac) else {
            continue;
        };
        if is_of(device, &bytes) {
            let is_more = |kind: &u16| attributes.of(*kind).is_some();
            let machine = attributes.of(libc::NDA_DST).and_then(address);
            let is_plain = ![VLAN, PORT, VNI, BY_DEVICE].iter().any(is_more);
            endpoints.push(Endpoint { mac, machine: machine.filter(|_| is_plain) });
        }
    }
    Ok(endpoints)
}

/// Says which MAC address an address has.
pub(crate) fn add_neighbour(device: u32, neighbour: &Neighbour) -> Change {
    let mut message = neighbour_message(libc::RTM_NEWNEIGH, CREATE_OR_REPLACE, device, neighbour);
    message.put(libc::NDA_LLADDR, &neighbour.mac.0);
    Change { message, done: None }
}

/// Removes what was said of an address.
pub(crate) fn remove_neighbour(device: u32, neighbour: &Neighbour) -> Change {
    let message = neighbour_message(libc::RTM_DELNEIGH, REQUEST, device, neighbour);
    Change { message, done: Some(libc::ENOENT) }
}

/// Says at which machine a MAC address is.
pub(crate) fn add_endpoint(device: u32, mac: Mac, machine: IpAddr) -> Change {
    let mut message = endpoint_message(libc::RTM_NEWNEIGH, CREATE_OR_REPLACE, device, mac);
    message.put(libc::NDA_DST, &octets(machine));
    Change { message, done: None }
}

/// Removes whatever was said of a MAC address.
pub(crate) fn remove_endpoint(device: u32, mac: Mac) -> Change {
    let message = endpoint_message(libc::RTM_DELNEIGH, REQUEST, device, mac);
    Change { message, done: Some(libc::ENOENT) }
}

fn neighbour_message(kind: u16, flags: u16, device: u32, neighbour: &Neighbour) -> Message {
    let header = header(family(neighbour.address), device, libc::NUD_PERMANENT, 0);
    let mut message = Message::new(kind, flags, &header);
    message.put(libc::NDA_DST, &octets(neighbour.address));
    message
}

fn endpoint_message(kind: u16, flags: u16, device: u32, mac: Mac) -> Message {
    let header = header(BRIDGE, device, libc::NUD_PERMANENT, libc::NTF_SELF);
    let mut message = Message::new(kind, flags, &header);
    message.put(libc::NDA_LLADDR, &mac.0);
    message
}

fn header(family: u8, device: u32, state: u16, flags: u8) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = family;
    header[4..8].copy_from_slice(&device.to_ne_bytes());
    header[8..10].copy_from_slice(&state.to_ne_bytes());
    header[10] = flags;
    header
}

/// Older kernels list those of other devices as well.
fn is_of(device: u32, message: &[u8]) -> bool {
    number(&message[4..]).map(u32::from_ne_bytes) == Some(device)
}
