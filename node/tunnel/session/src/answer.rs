//! Packets that a gateway makes for the sender of another one, as if that one's destination had
//! sent them: ICMP errors (RFC 792, RFC 4443), and TCP's word that there is no such connection (RFC
//! 9293, section 3.10.7.1).

use std::net::IpAddr;

use crate::checksum;
use crate::crossing::is_icmp_error;
use crate::packet::{ICMP, ICMPV6, Layout, TCP, UDP};

/// Of an ICMP message in front of what it quotes.
const ICMP_HEADER_BYTES: usize = 8;
/// An ICMP error over IPv4 is at most so large (RFC 1812, section 4.3.2.3).
const MOST_V4_BYTES: usize = 576;
/// An ICMP error over IPv6 is at most so large (RFC 4443, section 2.4 c): IPv6's least MTU.
const MOST_V6_BYTES: usize = 1_280;
const HOPS: u8 = 64;

// Unreachable, by type and code.
const HOST_V4: [u8; 2] = [3, 1];
const PORT_V4: [u8; 2] = [3, 3];
const ADDRESS_V6: [u8; 2] = [1, 3];
const PORT_V6: [u8; 2] = [1, 4];

const TCP_HEADER_BYTES: usize = 20;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// The packet that tells a sender that nobody is at the destination of its packet any more: to TCP a
/// reset, to UDP that nobody has the port, to all else that the host is not reached. None where
/// nobody is to be told: for a reset, a later fragment, an ICMP error, or what was for many.
pub fn nobody_there(packet: &[u8]) -> Option<Vec<u8>> {
    let layout = Layout::read(packet).ok()?;
    let kind = match (layout.protocol, layout.is_version_6()) {
        (TCP, _) => return reset(packet, &layout),
        (UDP, false) => PORT_V4,
        (UDP, true) => PORT_V6,
        (_, false) => HOST_V4,
        (_, true) => ADDRESS_V6,
    };
    icmp_error(packet, &layout, kind, [0; 4])
}

/// What resets the connection of a segment, whatever its state.
fn reset(packet: &[u8], layout: &Layout) -> Option<Vec<u8>> {
    if is_for_nobody(packet, layout) {
        return None;
    }
    let segment = packet.get(layout.transport.clone())?;
    let header: &[u8; TCP_HEADER_BYTES] = segment.first_chunk()?;
    let flags = header[13];
    if flags & RST != 0 {
        return None;
    }
    let word = |at: usize| header.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word));
    let (sequence, acknowledged, flags) = if flags & ACK != 0 {
        (word(8)?, 0, RST)
    } else {
        let data = segment.len().checked_sub(usize::from(header[12] >> 4) * 4)?;
        let controls = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let length = u32::try_from(data).ok()?.wrapping_add(controls);
        (0, word(4)?.wrapping_add(length), RST | ACK)
    };
    let mut answer = vec![0; TCP_HEADER_BYTES];
    answer[..2].copy_from_slice(&header[2..4]);
    answer[2..4].copy_from_slice(&header[..2]);
    answer[4..8].copy_from_slice(&sequence.to_be_bytes());
    answer[8..12].copy_from_slice(&acknowledged.to_be_bytes());
    (answer[12], answer[13]) = ((TCP_HEADER_BYTES as u8 / 4) << 4, flags);
    packet_of(layout, TCP, answer, 16)
}

/// The ICMP error of this type and code, with this second word, that answers a packet; none where
/// nobody is to be told.
pub(crate) fn icmp_error(
    packet: &[u8],
    layout: &Layout,
    kind: [u8; 2],
    word: [u8; 4],
) -> Option<Vec<u8>> {
    if is_for_nobody(packet, layout) || is_icmp_error(packet, layout) {
        return None;
    }
    let (protocol, most) = if layout.is_version_6() {
        (ICMPV6, MOST_V6_BYTES - 40 - ICMP_HEADER_BYTES)
    } else {
        (ICMP, MOST_V4_BYTES - 20 - ICMP_HEADER_BYTES)
    };
    let quoted = &packet[..packet.len().min(most)];
    packet_of(layout, protocol, [&kind[..], &[0, 0], &word, quoted].concat(), 2)
}

/// Of what is a later part, or was for many, nobody is told anything.
fn is_for_nobody(packet: &[u8], layout: &Layout) -> bool {
    let is_for_many = layout.destination.is_multicast() || layout.source.is_multicast();
    packet.is_empty() || layout.is_later_fragment || is_for_many
}

/// A packet with this in it, from the destination of another one to its source; the checksum stands
/// at this place of what it transports.
fn packet_of(
    to: &Layout,
    protocol: u8,
    mut transported: Vec<u8>,
    checksum_at: usize,
) -> Option<Vec<u8>> {
    let length = u16::try_from(transported.len()).ok()?;
    let (header, addresses_at) = match (to.destination, to.source) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let [high, low] = length.checked_add(20)?.to_be_bytes();
            let mut header = [0x45, 0, high, low, 0, 0, 0, 0, HOPS, protocol, 0, 0].to_vec();
            header.extend(from.octets());
            header.extend(to.octets());
            let sum = checksum::sum(&header);
            header[10..12].copy_from_slice(&(!sum).to_be_bytes());
            (header, 12)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let [high, low] = length.to_be_bytes();
            let mut header = vec![0x60, 0, 0, 0, high, low, protocol, HOPS];
            header.extend(from.octets());
            header.extend(to.octets());
            (header, 8)
        }
        _ => return None,
    };
    let mut sum = checksum::sum(&transported);
    if protocol != ICMP {
        sum = checksum::add(sum, checksum::sum(&header[addresses_at..]));
        sum = checksum::add(checksum::add(sum, length), u16::from(protocol));
    }
    transported[checksum_at..checksum_at + 2].copy_from_slice(&(!sum).to_be_bytes());
    Some([header, transported].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::tests::{assert_right, packet};

    fn ends() -> [[IpAddr; 2]; 2] {
        let v6 = ["fd00::1", "fd00::2"].map(|it| it.parse().unwrap());
        [[[10, 0, 0, 1].into(), [10, 0, 0, 2].into()], v6]
    }

    /// A segment from port 40,000 to port 80.
    fn segment(sequence: u32, acknowledged: u32, flags: u8, data: &[u8]) -> Vec<u8> {
        let mut header = vec![0x9c, 0x40, 0, 80];
        header.extend(sequence.to_be_bytes());
        header.extend(acknowledged.to_be_bytes());
        header.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
        [header, data.to_vec()].concat()
    }

    #[test]
    fn a_segment_is_answered_by_the_reset_that_its_sender_believes() {
        for [from, to] in ends() {
            let answered = |segment: &[u8]| {
                let answer = nobody_there(&packet(from, to, TCP, segment))?;
                assert_right(&answer);
                let layout = Layout::read(&answer).unwrap();
                assert_eq!((layout.source, layout.destination), (to, from));
                let said = answer[layout.transport].to_vec();
                assert_eq!(said[..4], [0, 80, 0x9c, 0x40]);
                Some((said[4..12].to_vec(), said[13]))
            };
            let said = |sequence: u32, acknowledged: u32| {
                [sequence.to_be_bytes(), acknowledged.to_be_bytes()].concat()
            };
            let data = answered(&segment(7, 1_000, ACK, b"more"));
            assert_eq!(data, Some((said(1_000, 0), RST)), "what it awaits next");
            let begins = answered(&segment(u32::MAX, 0, SYN, &[]));
            assert_eq!(begins, Some((said(0, 0), RST | ACK)), "one after the last number");
            assert_eq!(answered(&segment(7, 9, RST | ACK, &[])), None);
            assert_eq!(answered(&segment(7, 9, RST, &[])), None);
        }
    }

    #[test]
    fn what_is_no_tcp_is_answered_by_an_error() {
        let kinds = [(PORT_V4, HOST_V4), (PORT_V6, ADDRESS_V6)];
        for ([from, to], (port, host)) in ends().into_iter().zip(kinds) {
            let echo = if from.is_ipv6() { (ICMPV6, 128) } else { (ICMP, 8) };
            for (protocol, first, kind) in [(UDP, 0, port), (echo.0, echo.1, host)] {
                let asked = packet(from, to, protocol, &[first, 0, 0, 0, 0, 8, 0, 0]);
                let answer = nobody_there(&asked).unwrap();
                assert_right(&answer);
                let layout = Layout::read(&answer).unwrap();
                assert_eq!((layout.source, layout.destination), (to, from));
                let at = layout.transport.start;
                assert_eq!(answer[at..at + 2], kind);
                assert_eq!(answer[at + ICMP_HEADER_BYTES..], asked, "what it quotes");
                assert_eq!(nobody_there(&answer), None, "an error is not answered by another");
            }
        }
    }

    #[test]
    fn nobody_is_told_of_a_later_fragment() {
        let [from, to] = ends()[0];
        let mut fragment = packet(from, to, TCP, &segment(1, 1, ACK, &[0; 64]));
        fragment[7] = 9;
        assert_eq!(nobody_there(&fragment), None);
    }

    proptest! {
        #[test]
        fn whatever_comes_is_answered_rightly_or_not_at_all(
            transported in proptest::collection::vec(any::<u8>(), 0..120),
            protocol in prop_oneof![Just(TCP), Just(UDP), Just(ICMP), Just(132_u8), any::<u8>()],
        ) {
            let [from, to] = ends()[0];
            let mut bytes = packet(from, to, 255, &transported);
            bytes[9] = protocol;
            if let Some(answer) = nobody_there(&bytes) {
                assert_right(&answer);
                prop_assert!(answer.len() <= MOST_V4_BYTES);
            }
        }
    }
}
