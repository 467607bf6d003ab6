//! Maps of addresses, and the words of a rule that take an address from one and write it into the
//! packet (linux/netfilter/nf_tables.h).

use std::net::{IpAddr, Ipv4Addr};

use super::conversation::{Conversation, list_flags};
use super::message::{Attributes, CREATE, Message, address};
use super::numbers::{
    DATA_VALUE, ELEMENT_KEY, ELEMENTS, GET_ELEMENTS, HEADER_BYTES, InKernel, LIST_ELEMENT,
    NEW_ELEMENTS, NEW_SET, SET_FLAGS, SET_ID, SET_KEY_BYTES, SET_KEY_TYPE, SET_NAME, TYPE_IPV4,
};
use crate::error::KernelError;
use crate::limits;
use mercato_machine::{AddressMap, Expression, Rewritten};

// Of sets: that one is a map, and what it has for its members (`NFT_SET_MAP`).
const MAP: u32 = 8;
const SET_DATA_TYPE: u16 = 6;
const SET_DATA_BYTES: u16 = 7;
const ELEMENT_DATA: u16 = 2;
const BYTES_IPV4: u32 = 4;
// Of `payload`, where it writes; the bases are the headers of the network and of what is in it.
const FROM: u16 = 5;
const BASE: u16 = 2;
const OFFSET: u16 = 3;
const BYTES: u16 = 4;
const SUM_KIND: u16 = 6;
const SUM_OFFSET: u16 = 7;
const SUM_FLAGS: u16 = 8;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const NO_SUM: u32 = 0;
/// The sum of the Internet (RFC 1071), and that one of what is in the packet is of it as well.
const INTERNET: u32 = 1;
const OF_PSEUDO_HEADER: u32 = 1;
/// Where an IPv4 header has its sum (RFC 791, section 3.1).
const HEADER_SUM: u32 = 10;
/// Where an ICMP error has that of the packet that it is about. Of its own sum that packet is a
/// part: what changes there comes twice, and evens out.
const SUM_OF_THE_OTHER: u32 = 8 + HEADER_SUM;

/// What makes a map, with all that is in it. The number is its own among sets of the table.
pub(super) fn new_map(place: InKernel<'_>, name: &str, map: &AddressMap, id: u32) -> Vec<Message> {
    let mut message = place.message(NEW_SET, CREATE);
    message.put_text(SET_NAME, name);
    message.put_be32(SET_FLAGS, MAP);
    message.put_be32(SET_KEY_TYPE, TYPE_IPV4);
    message.put_be32(SET_KEY_BYTES, BYTES_IPV4);
    message.put_be32(SET_DATA_TYPE, TYPE_IPV4);
    message.put_be32(SET_DATA_BYTES, BYTES_IPV4);
    message.put_be32(SET_ID, id);
    let members: Vec<_> = map.iter().collect();
    let some = |members: &[(&Ipv4Addr, &Ipv4Addr)]| {
        let mut message = place.message(NEW_ELEMENTS, CREATE);
        message.put_text(SET_NAME, name);
        message.nest(ELEMENTS, |message| {
            for (of, other) in members {
                message.nest(LIST_ELEMENT, |message| {
                    for (kind, address) in [(ELEMENT_KEY, of), (ELEMENT_DATA, other)] {
                        message.nest(kind, |message| message.put(DATA_VALUE, &address.octets()));
                    }
                });
            }
        });
        message
    };
    // A member takes no more than two of a set do.
    let rest = members.chunks(limits::ELEMENTS_PER_MESSAGE / 2).map(some);
    std::iter::once(message).chain(rest).collect()
}

/// Whether a set with these attributes is a map of addresses.
pub(super) fn is_map(set: &Attributes<'_>) -> bool {
    let bytes = [SET_KEY_BYTES, SET_DATA_BYTES].map(|kind| set.be32(kind));
    set.be32(SET_FLAGS) == Some(MAP) && bytes == [Some(BYTES_IPV4); 2]
}

/// All that is in the map of this name.
pub(super) fn read_map(
    kernel: &mut Conversation,
    place: InKernel<'_>,
    name: &str,
) -> Result<AddressMap, KernelError> {
    let request = || {
        let mut request = place.message(GET_ELEMENTS, list_flags());
        request.put_text(SET_NAME, name);
        request
    };
    let mut map = AddressMap::new();
    for bytes in kernel.list(request)? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        for element in attributes.within(ELEMENTS)?.all(LIST_ELEMENT) {
            let element = Attributes::read(element)?;
            let of = |kind| match element.within(kind)?.of(DATA_VALUE).and_then(address) {
                Some(IpAddr::V4(address)) => Ok(address),
                Some(IpAddr::V6(_)) | None => Err(KernelError::Garbled),
            };
            map.insert(of(ELEMENT_KEY)?, of(ELEMENT_DATA)?);
        }
    }
    Ok(map)
}

/// Writes the attributes of a word that writes what is in this register.
pub(super) fn write(message: &mut Message, register: u32, what: Rewritten) {
    let place = place(what);
    message.put_be32(FROM, register);
    message.put_be32(BASE, place.base);
    message.put_be32(OFFSET, what.offset());
    message.put_be32(BYTES, BYTES_IPV4);
    message.put_be32(SUM_KIND, place.sum_kind);
    message.put_be32(SUM_OFFSET, place.sum);
    message.put_be32(SUM_FLAGS, place.flags);
}

/// What such a word writes from this register, if it is one of ours.
pub(super) fn read(attributes: &Attributes<'_>, register: u32) -> Option<Expression> {
    let is_it = |what: &Rewritten| {
        let place = place(*what);
        let said = [
            (FROM, register),
            (BASE, place.base),
            (OFFSET, what.offset()),
            (BYTES, BYTES_IPV4),
            (SUM_KIND, place.sum_kind),
            (SUM_OFFSET, place.sum),
        ];
        said.iter().all(|(kind, number)| attributes.be32(*kind) == Some(*number))
            && attributes.be32(SUM_FLAGS).unwrap_or(0) == place.flags
    };
    Rewritten::ALL.into_iter().find(is_it).map(Expression::Write)
}

/// By which header an address stands, and what sum it is a part of.
struct Place {
    base: u32,
    sum_kind: u32,
    sum: u32,
    flags: u32,
}

fn place(what: Rewritten) -> Place {
    match what {
        Rewritten::Source | Rewritten::Destination => {
            let (sum_kind, flags) = (INTERNET, OF_PSEUDO_HEADER);
            Place { base: NETWORK_HEADER, sum_kind, sum: HEADER_SUM, flags }
        }
        Rewritten::ErrorSource | Rewritten::ErrorDestination => {
            let (sum_kind, sum) = (INTERNET, SUM_OF_THE_OTHER);
            Place { base: TRANSPORT_HEADER, sum_kind, sum, flags: 0 }
        }
        Rewritten::ArpSender | Rewritten::ArpTarget => {
            Place { base: NETWORK_HEADER, sum_kind: NO_SUM, sum: 0, flags: 0 }
        }
    }
}
