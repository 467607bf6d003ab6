//! Sets of nf_tables, and who is in them (linux/netfilter/nf_tables.h).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::conversation::{Conversation, list_flags};
use super::message::{Attributes, CREATE, Message, address};
use super::nets::{self, NFT_SET_INTERVAL};
use super::numbers::{
    HEADER_BYTES, InKernel, NFT_MSG_GETSET, NFT_MSG_GETSETELEM, NFT_MSG_NEWSET, NFTA_DATA_VALUE,
    NFTA_LIST_ELEM, NFTA_SET_ELEM_KEY, NFTA_SET_ELEM_LIST_ELEMENTS, NFTA_SET_FLAGS, NFTA_SET_ID,
    NFTA_SET_KEY_LEN, NFTA_SET_KEY_TYPE, NFTA_SET_NAME, NFTA_TABLE_NAME, TYPE_IPV4, TYPE_IPV6,
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
    for bytes in kernel.list(|| place.message(NFT_MSG_GETSET, list_flags()))? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        let name = attributes.text(NFTA_SET_NAME).unwrap_or_default();
        let bytes = attributes.be32(NFTA_SET_KEY_LEN);
        let flags = attributes.be32(NFTA_SET_FLAGS).unwrap_or(0);
        if attributes.text(NFTA_TABLE_NAME).as_deref() != Some(place.table) {
            continue;
        }
        let is_of_them = families.iter().any(|family| bytes == Some(key(*family).bytes));
        let nets = match is_of_them && flags == NFT_SET_INTERVAL {
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
        let mut request = place.message(NFT_MSG_GETSETELEM, list_flags());
        request.put_text(NFTA_SET_NAME, set);
        request
    };
    let mut members = BTreeSet::new();
    for bytes in kernel.list(request)? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        for element in attributes.within(NFTA_SET_ELEM_LIST_ELEMENTS)?.all(NFTA_LIST_ELEM) {
            let data = Attributes::read(element)?.within(NFTA_SET_ELEM_KEY)?;
            members.insert(data.of(NFTA_DATA_VALUE).and_then(address).ok_or(KernelError::Garbled)?);
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
    let mut message = place.message(NFT_MSG_NEWSET, CREATE);
    let key = key(family);
    message.put_text(NFTA_SET_NAME, name);
    message.put_be32(NFTA_SET_FLAGS, of.flags());
    message.put_be32(NFTA_SET_KEY_TYPE, key.kind);
    message.put_be32(NFTA_SET_KEY_LEN, key.bytes);
    message.put_be32(NFTA_SET_ID, id);
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
        message.put_text(NFTA_SET_NAME, set);
        message.nest(NFTA_SET_ELEM_LIST_ELEMENTS, |message| {
            for member in members {
                message.nest(NFTA_LIST_ELEM, |message| {
                    message.nest(NFTA_SET_ELEM_KEY, |message| {
                        message.put(NFTA_DATA_VALUE, &mercato_machine::address(**member));
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
            Self::Nets => NFT_SET_INTERVAL,
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
