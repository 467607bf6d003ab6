//! Sets of nf_tables, and who is in them (linux/netfilter/nf_tables.h).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::conversation::{Conversation, list_flags};
use super::message::{Attributes, CREATE, Message, address};
use super::nets::{self, OF_NETS};
use super::numbers::{
    DATA_VALUE, ELEMENT_KEY, ELEMENTS, GET_ELEMENTS, GET_SET, HEADER_BYTES, InKernel, LIST_ELEMENT,
    NEW_SET, OF_TABLE, SET_FLAGS, SET_ID, SET_KEY_BYTES, SET_KEY_TYPE, SET_NAME, TYPE_IPV4,
    TYPE_IPV6,
};
use super::{maps, tally};
use crate::error::KernelError;
use crate::limits;
use mercato_machine::Family;
use mercato_machine::{AddressMap, Tally};

/// With what the name of a set is marked that is of none of our kinds: no name of ours has a space.
const OF_ANOTHER_KIND: &str = " of another kind";

/// What is kept in a table besides chains, each by its name.
#[derive(Default)]
pub(super) struct Kept {
    /// Who is in each set.
    pub(super) sets: BTreeMap<String, BTreeSet<IpAddr>>,
    /// What is in each set of networks.
    pub(super) nets: BTreeMap<String, BTreeSet<IpNet>>,
    pub(super) maps: BTreeMap<String, AddressMap>,
    pub(super) tallies: BTreeMap<String, Tally>,
}

/// All sets of a table, whose members are of one of these families or networks of it, maps, and those that packets fill.
pub(super) fn read_sets(
    kernel: &mut Conversation,
    place: InKernel<'_>,
    families: &[Family],
) -> Result<Kept, KernelError> {
    let mut kept = Kept::default();
    for bytes in kernel.list(|| place.message(GET_SET, list_flags()))? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        let name = attributes.text(SET_NAME).unwrap_or_default();
        let bytes = attributes.be32(SET_KEY_BYTES);
        let flags = attributes.be32(SET_FLAGS).unwrap_or(0);
        if attributes.text(OF_TABLE).as_deref() != Some(place.table) {
            continue;
        }
        let is_of_them = families.iter().any(|family| bytes == Some(key(*family).bytes));
        let nets = match is_of_them && flags == OF_NETS {
            true => nets::read(kernel, place, &name)?,
            false => None,
        };
        if is_of_them && flags == 0 {
            let members = read_members(kernel, place, &name)?;
            kept.sets.insert(name, members);
        } else if let Some(nets) = nets {
            kept.nets.insert(name, nets);
        } else if maps::is_map(&attributes) {
            let map = maps::read_map(kernel, place, &name)?;
            kept.maps.insert(name, map);
        } else if let Some(tally) = tally::read_set(&attributes, flags)?.filter(|_| is_of_them) {
            kept.tallies.insert(name, tally);
        } else {
            // Not one of ours, whatever it is called.
            kept.sets.insert(format!("{name}{OF_ANOTHER_KIND}"), BTreeSet::new());
        }
    }
    Ok(kept)
}

/// What the kernel calls a set that was read by this name.
pub(super) fn without_mark(name: &str) -> &str {
    name.strip_suffix(OF_ANOTHER_KIND).unwrap_or(name)
}

fn read_members(
    kernel: &mut Conversation,
    place: InKernel<'_>,
    set: &str,
) -> Result<BTreeSet<IpAddr>, KernelError> {
    let request = || {
        let mut request = place.message(GET_ELEMENTS, list_flags());
        request.put_text(SET_NAME, set);
        request
    };
    let mut members = BTreeSet::new();
    for bytes in kernel.list(request)? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        for element in attributes.within(ELEMENTS)?.all(LIST_ELEMENT) {
            let data = Attributes::read(element)?.within(ELEMENT_KEY)?;
            members.insert(data.of(DATA_VALUE).and_then(address).ok_or(KernelError::Garbled)?);
        }
    }
    Ok(members)
}

pub(super) fn new_set(
    place: InKernel<'_>,
    name: &str,
    family: Family,
    of: Of<'_>,
    id: u32,
) -> Message {
    let mut message = place.message(NEW_SET, CREATE);
    let key = key(family);
    message.put_text(SET_NAME, name);
    message.put_be32(SET_FLAGS, of.flags());
    message.put_be32(SET_KEY_TYPE, key.kind);
    message.put_be32(SET_KEY_BYTES, key.bytes);
    message.put_be32(SET_ID, id);
    if let Of::Tally(tally) = of {
        tally::write_set(&mut message, tally);
    }
    message
}

pub(super) fn elements(
    place: InKernel<'_>,
    kind: u16,
    flags: u16,
    set: &str,
    members: &BTreeSet<IpAddr>,
) -> Vec<Message> {
    let members: Vec<_> = members.iter().collect();
    let one = |members: &[&IpAddr]| {
        let mut message = place.message(kind, flags);
        message.put_text(SET_NAME, set);
        message.nest(ELEMENTS, |message| {
            for member in members {
                message.nest(LIST_ELEMENT, |message| {
                    message.nest(ELEMENT_KEY, |message| {
                        message.put(DATA_VALUE, &mercato_machine::address(**member));
                    });
                });
            }
        });
        message
    };
    members.chunks(limits::ELEMENTS_PER_MESSAGE).map(one).collect()
}

/// What a set has in it.
#[derive(Clone, Copy)]
pub(super) enum Of<'a> {
    Addresses,
    Nets,
    Tally(&'a Tally),
}

impl Of<'_> {
    fn flags(self) -> u32 {
        match self {
            Self::Addresses => 0,
            Self::Nets => OF_NETS,
            Self::Tally(tally) => tally::flags(tally),
        }
    }
}

/// By what members of a set are known.
struct Key {
    kind: u32,
    bytes: u32,
}

fn key(family: Family) -> Key {
    match family {
        Family::V4 => Key { kind: TYPE_IPV4, bytes: 4 },
        Family::V6 => Key { kind: TYPE_IPV6, bytes: 16 },
    }
}
