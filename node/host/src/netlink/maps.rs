//! Maps of addresses, and the words of a rule that take an address from one and write it into the
//! packet (linux/netfilter/nf_tables.h).

use std::net::{IpAddr, Ipv4Addr};

use super::conversation::{Conversation, list_flags};
use super::message::{Attributes, CREATE, Message, address};
use super::numbers::{
    HEADER_BYTES, InKernel, NFT_MSG_GETSETELEM, NFT_MSG_NEWSET, NFT_MSG_NEWSETELEM,
    NFTA_DATA_VALUE, NFTA_LIST_ELEM, NFTA_SET_ELEM_KEY, NFTA_SET_ELEM_LIST_ELEMENTS,
    NFTA_SET_FLAGS, NFTA_SET_ID, NFTA_SET_KEY_LEN, NFTA_SET_KEY_TYPE, NFTA_SET_NAME, TYPE_IPV4,
};
use crate::error::KernelError;
use crate::limits;
use mercato_machine::{AddressMap, Expression, Rewritten};

// Of sets: that one is a map, and what it has for its members (`NFT_SET_MAP`).
const NFT_SET_MAP: u32 = 8;
const NFTA_SET_DATA_TYPE: u16 = 6;
const NFTA_SET_DATA_LEN: u16 = 7;
const NFTA_SET_ELEM_DATA: u16 = 2;
const BYTES_IPV4: u32 = 4;
// Of `payload`, where it writes; the bases are the headers of the network and of what is in it.
const NFTA_PAYLOAD_SREG: u16 = 5;
const NFTA_PAYLOAD_BASE: u16 = 2;
const NFTA_PAYLOAD_OFFSET: u16 = 3;
const NFTA_PAYLOAD_LEN: u16 = 4;
const NFTA_PAYLOAD_CSUM_TYPE: u16 = 6;
const NFTA_PAYLOAD_CSUM_OFFSET: u16 = 7;
const NFTA_PAYLOAD_CSUM_FLAGS: u16 = 8;
const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
const NFT_PAYLOAD_TRANSPORT_HEADER: u32 = 2;
const NFT_PAYLOAD_CSUM_NONE: u32 = 0;
/// The sum of the Internet (RFC 1071), and that one of what is in the packet is of it as well.
const NFT_PAYLOAD_CSUM_INET: u32 = 1;
const NFT_PAYLOAD_L4CSUM_PSEUDOHDR: u32 = 1;
/// Where an IPv4 header has its sum (RFC 791, section 3.1).
const HEADER_SUM: u32 = 10;
/// Where an ICMP error has that of the packet that it is about. Of its own sum that packet is a
/// part: what changes there comes twice, and evens out.
const SUM_OF_THE_OTHER: u32 = 8 + HEADER_SUM;

/// What makes a map, with all that is in it. The number is its own among sets of the table.
pub(super) fn new_map(place: InKernel<'_>, name: &str, map: &AddressMap, id: u32) -> Vec<Message> {
    let mut message = place.message(NFT_MSG_NEWSET, CREATE);
    message.put_text(NFTA_SET_NAME, name);
    message.put_be32(NFTA_SET_FLAGS, NFT_SET_MAP);
    message.put_be32(NFTA_SET_KEY_TYPE, TYPE_IPV4);
    message.put_be32(NFTA_SET_KEY_LEN, BYTES_IPV4);
    message.put_be32(NFTA_SET_DATA_TYPE, TYPE_IPV4);
    message.put_be32(NFTA_SET_DATA_LEN, BYTES_IPV4);
    message.put_be32(NFTA_SET_ID, id);
    let members: Vec<_> = map.iter().collect();
    let some = |members: &[(&Ipv4Addr, &Ipv4Addr)]| {
        let mut message = place.message(NFT_MSG_NEWSETELEM, CREATE);
        message.put_text(NFTA_SET_NAME, name);
        message.nest(NFTA_SET_ELEM_LIST_ELEMENTS, |message| {
            for (of, other) in members {
                message.nest(NFTA_LIST_ELEM, |message| {
                    for (kind, address) in [(NFTA_SET_ELEM_KEY, of), (NFTA_SET_ELEM_DATA, other)] {
                        message
                            .nest(kind, |message| message.put(NFTA_DATA_VALUE, &address.octets()));
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
    let bytes = [NFTA_SET_KEY_LEN, NFTA_SET_DATA_LEN].map(|kind| set.be32(kind));
    set.be32(NFTA_SET_FLAGS) == Some(NFT_SET_MAP) && bytes == [Some(BYTES_IPV4); 2]
}

/// All that is in the map of this name.
pub(super) fn read_map(
    kernel: &mut Conversation,
    place: InKernel<'_>,
    name: &str,
) -> Result<AddressMap, KernelError> {
    let request = || {
        let mut request = place.message(NFT_MSG_GETSETELEM, list_flags());
        request.put_text(NFTA_SET_NAME, name);
        request
    };
    let mut map = AddressMap::new();
    for bytes in kernel.list(request)? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        for element in attributes.within(NFTA_SET_ELEM_LIST_ELEMENTS)?.all(NFTA_LIST_ELEM) {
            let element = Attributes::read(element)?;
            let of = |kind| match element.within(kind)?.of(NFTA_DATA_VALUE).and_then(address) {
                Some(IpAddr::V4(address)) => Ok(address),
                Some(IpAddr::V6(_)) | None => Err(KernelError::Garbled),
            };
            map.insert(of(NFTA_SET_ELEM_KEY)?, of(NFTA_SET_ELEM_DATA)?);
        }
    }
    Ok(map)
}

/// Writes the attributes of a word that writes what is in this register.
pub(super) fn write(message: &mut Message, register: u32, what: Rewritten) {
    let place = place(what);
    message.put_be32(NFTA_PAYLOAD_SREG, register);
    message.put_be32(NFTA_PAYLOAD_BASE, place.base);
    message.put_be32(NFTA_PAYLOAD_OFFSET, what.offset());
    message.put_be32(NFTA_PAYLOAD_LEN, BYTES_IPV4);
    message.put_be32(NFTA_PAYLOAD_CSUM_TYPE, place.sum_kind);
    message.put_be32(NFTA_PAYLOAD_CSUM_OFFSET, place.sum);
    message.put_be32(NFTA_PAYLOAD_CSUM_FLAGS, place.flags);
}

/// What such a word writes from this register, if it is one of ours.
pub(super) fn read(attributes: &Attributes<'_>, register: u32) -> Option<Expression> {
    let is_it = |what: &Rewritten| {
        let place = place(*what);
        let said = [
            (NFTA_PAYLOAD_SREG, register),
            (NFTA_PAYLOAD_BASE, place.base),
            (NFTA_PAYLOAD_OFFSET, what.offset()),
            (NFTA_PAYLOAD_LEN, BYTES_IPV4),
            (NFTA_PAYLOAD_CSUM_TYPE, place.sum_kind),
            (NFTA_PAYLOAD_CSUM_OFFSET, place.sum),
        ];
        said.iter().all(|(kind, number)| attributes.be32(*kind) == Some(*number))
            && attributes.be32(NFTA_PAYLOAD_CSUM_FLAGS).unwrap_or(0) == place.flags
    };
    Rewritten::ALL.into_iter().find(is_it).map(Expression::PayloadSet)
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
            let (sum_kind, flags) = (NFT_PAYLOAD_CSUM_INET, NFT_PAYLOAD_L4CSUM_PSEUDOHDR);
            Place { base: NFT_PAYLOAD_NETWORK_HEADER, sum_kind, sum: HEADER_SUM, flags }
        }
        Rewritten::ErrorSource | Rewritten::ErrorDestination => {
            let (sum_kind, sum) = (NFT_PAYLOAD_CSUM_INET, SUM_OF_THE_OTHER);
            Place { base: NFT_PAYLOAD_TRANSPORT_HEADER, sum_kind, sum, flags: 0 }
        }
        Rewritten::ArpSender | Rewritten::ArpTarget => Place {
            base: NFT_PAYLOAD_NETWORK_HEADER,
            sum_kind: NFT_PAYLOAD_CSUM_NONE,
            sum: 0,
            flags: 0,
        },
    }
}
