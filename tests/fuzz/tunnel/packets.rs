//! IP packets as the fuzzer describes them, and their checksums computed anew.

use std::net::IpAddr;
use std::ops::Range;

use super::input::Input;

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP: u8 = 1;
pub(super) const ICMPV6: u8 = 58;

/// The ones' complement sum, one pair of bytes after the other.
pub(super) fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += (u32::from(pair[0]) << 8) | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A packet between these two, with what the input says of it. Half of them are sound.
pub(super) fn packet(input: &mut Input<'_>, source: IpAddr, destination: IpAddr) -> Vec<u8> {
    let choice = input.byte();
    let protocol = match choice & 7 {
        0 | 1 => TCP,
        2 | 3 => UDP,
        4 => ICMP,
        5 => ICMPV6,
        _ => input.byte(),
    };
    let option_words = usize::from(input.byte() & 15) * usize::from(choice & 8 != 0);
    let options = input.padded(option_words.min(10) * 4);
    let length = usize::from(input.byte()) * if choice & 16 != 0 { 6 } else { 1 };
    let mut transport = input.take(length).to_vec();
    if choice & 32 != 0 {
        transport.resize(length, choice);
    }
    let mut bytes = laid_out(source, destination, protocol, &options, &transport);
    if choice & 64 == 0 {
        complete_checksum(&mut bytes);
    }
    if choice & 128 != 0
        && let Some(byte) = bytes.get_mut(usize::from(input.byte()))
    {
        *byte = input.byte();
    }
    bytes
}

/// A packet with right lengths, and a right checksum of an IPv4 header. Extension headers are
/// what `options` says.
pub(super) fn laid_out(
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    options: &[u8],
    transport: &[u8],
) -> Vec<u8> {
    let rest = [options, transport].concat();
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let words = (5 + options.len() / 4) as u8;
            let total = (20 + rest.len()) as u16;
            let mut header = vec![0x40 | words, 0, 0, 0, 0, 7, 0x40, 0, 64, protocol, 0, 0];
            header[2..4].copy_from_slice(&total.to_be_bytes());
            header.extend(source.octets());
            header.extend(destination.octets());
            header.extend(options);
            let checksum = !sum(&header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            [&header, transport].concat()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let [high, low] = (rest.len() as u16).to_be_bytes();
            // The first option names what follows it; without one, the protocol does.
            let next = if options.is_empty() { protocol } else { 60 };
            let mut header = vec![0x60, 0, 0, 0, high, low, next, 64];
            header.extend(source.octets());
            header.extend(destination.octets());
            header.extend(rest);
            header
        }
        mixed => panic!("{mixed:?}"),
    }
}

/// Where the transport part of a packet without extension headers stands, and what it is; none
/// of a fragment, and of what is no packet.
pub(super) fn transport(bytes: &[u8]) -> Option<(u8, Range<usize>)> {
    match bytes.first()? >> 4 {
        4 => {
            let at = usize::from(bytes[0] & 15) * 4;
            let is_fragment = u16::from_be_bytes([bytes[6], bytes[7]]) & 0x3fff != 0;
            (!is_fragment).then_some((bytes[9], at..bytes.len()))
        }
        _ => (!matches!(bytes[6], 0 | 43 | 44 | 60)).then_some((bytes[6], 40..bytes.len())),
    }
}

/// Where the checksum of this transport stands.
pub(super) fn checksum_at((protocol, part): &(u8, Range<usize>)) -> Option<usize> {
    let within = match *protocol {
        TCP => 16,
        UDP => 6,
        ICMP | ICMPV6 => 2,
        _ => return None,
    };
    (part.len() >= within + 2).then_some(part.start + within)
}

/// The sum over the transport part, with the pseudo header where there is one: 0xffff if its
/// checksum is right.
pub(super) fn transport_sum(bytes: &[u8], (protocol, part): &(u8, Range<usize>)) -> u16 {
    let transport = &bytes[part.clone()];
    if *protocol == ICMP {
        return sum(transport);
    }
    let addresses = if bytes[0] >> 4 == 6 { &bytes[8..40] } else { &bytes[12..20] };
    let length = (transport.len() as u32).to_be_bytes();
    sum(&[addresses, &length, &[0, *protocol], transport].concat())
}

fn complete_checksum(bytes: &mut [u8]) {
    let Some(of) = transport(bytes) else { return };
    let Some(at) = checksum_at(&of) else { return };
    bytes[at..at + 2].fill(0);
    let checksum = match !transport_sum(bytes, &of) {
        0 => 0xffff,
        checksum => checksum,
    };
    bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}
