//! What conntrack knows of connections (linux/netfilter/nfnetlink_conntrack.h), as far as we have it
//! forget some.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::conversation::{Change, Conversation, list_flags};
use super::message::{Attributes, Message, REQUEST, address, family_number};
use crate::error::KernelError;
use mercato_machine::Family;

// Messages (`IPCTNL_MSG_CT_...`), and a family, a version and a number (`struct nfgenmsg`).
const GET: u16 = 1;
const DELETE: u16 = 2;
const HEADER_BYTES: usize = 4;
// Of a connection (`CTA_...`).
const FIRST: u16 = 1;
const REPLY: u16 = 2;
const ID: u16 = 12;
const ZONE: u16 = 18;
/// Of one of its ways.
const ADDRESSES: u16 = 1;
/// Of addresses: the source and the destination, of IPv4 and of IPv6.
const EACH: [u16; 4] = [1, 2, 3, 4];

/// Has conntrack forget the connections of these pods with whoever is in these networks, whoever has begun
/// them. Those of Services count by who is behind one, too. Of each family all that it knows is looked
/// at once.
pub(crate) fn forget_connections(
    kernel: &mut Conversation,
    pods: &BTreeSet<IpAddr>,
    nets: &BTreeSet<IpNet>,
) -> Result<(), KernelError> {
    let families: BTreeSet<Family> = pods.iter().map(|pod| Family::of(*pod)).collect();
    for family in families {
        let request = || message(GET, list_flags(), family);
        let listed = kernel.list_of(request, |bytes| is_between(bytes, pods, nets))?;
        for bytes in listed {
            kernel.perform(forget(&Attributes::after(HEADER_BYTES, &bytes)?, family))?;
        }
    }
    Ok(())
}

/// Whether one of the pods is in it, and somebody of a network. What cannot be read is none of theirs.
fn is_between(bytes: &[u8], pods: &BTreeSet<IpAddr>, nets: &BTreeSet<IpNet>) -> bool {
    let addresses = || -> Result<Vec<IpAddr>, KernelError> {
        let connection = Attributes::after(HEADER_BYTES, bytes)?;
        let mut all = Vec::new();
        for way in [FIRST, REPLY] {
            let addresses = connection.within(way)?.within(ADDRESSES)?;
            let both = EACH.into_iter().filter_map(|kind| addresses.of(kind));
            all.extend(both.filter_map(address));
        }
        Ok(all)
    };
    let all = addresses().unwrap_or_default();
    let is_of_net = |one: &IpAddr| nets.iter().any(|net| net.contains(one));
    all.iter().any(|one| pods.contains(one)) && all.iter().any(is_of_net)
}

/// By what it was listed with. One that has ended meanwhile is forgotten as well.
fn forget(connection: &Attributes<'_>, family: Family) -> Change {
    let mut message = message(DELETE, REQUEST, family);
    message.put_nested(FIRST, connection.of(FIRST).unwrap_or_default());
    for kind in [ID, ZONE] {
        if let Some(value) = connection.of(kind) {
            message.put(kind, value);
        }
    }
    Change { message, done: Some(libc::ENOENT) }
}

fn message(kind: u16, flags: u16, family: Family) -> Message {
    let subsystem = (libc::NFNL_SUBSYS_CTNETLINK as u16) << 8;
    Message::new(subsystem | kind, flags, &[family_number(family), 0, 0, 0])
}
