//! Packets of pods in a simulated tunnel: UDP over IPv4 with a number, by which each is known where
//! it arrives, and a payload that follows from it.

use std::net::Ipv4Addr;

/// Bytes of the headers of IPv4 and UDP.
pub(super) const HEADERS: usize = 28;
/// The least that holds a number.
pub(super) const LEAST_BYTES: usize = HEADERS + 8;

/// A packet of this number, without a checksum of UDP's.
pub(super) fn numbered(
    number: u64,
    bytes: usize,
    source: Ipv4Addr,
    destination: Ipv4Addr,
) -> Vec<u8> {
    assert!((LEAST_BYTES..65_535).contains(&bytes), "room for a number");
    let mut packet = vec![(number % 251) as u8; bytes];
    packet[..2].copy_from_slice(&[0x45, 0]);
    packet[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    packet[4..12].copy_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0]);
    packet[12..16].copy_from_slice(&source.octets());
    packet[16..20].copy_from_slice(&destination.octets());
    let sum = !sum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet[20..24].copy_from_slice(&[0, 53, 0, 53]);
    packet[24..26].copy_from_slice(&((bytes - 20) as u16).to_be_bytes());
    packet[26..28].fill(0);
    packet[HEADERS..LEAST_BYTES].copy_from_slice(&number.to_be_bytes());
    packet
}

/// The number of a packet; none if it has no room for one.
pub(super) fn number_of(packet: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*packet.get(HEADERS..)?.first_chunk()?))
}

fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    ((sum >> 16) + (sum & 0xffff)) as u16
}
