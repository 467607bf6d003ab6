//! Where things stand in an IP packet: addresses, transport header, checksums. Reading changes
//! nothing; what cannot be read to its end is no packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use thiserror::Error;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const SCTP: u8 = 132;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
const END_OF_OPTIONS: u8 = 0;
const NO_OPTION: u8 = 1;
/// Options of an IPv4 header (RFC 791, section 3.1).
const LOOSE_SOURCE_ROUTE: u8 = 131;
const STRICT_SOURCE_ROUTE: u8 = 137;
/// Extension headers of one packet, at most: RFC 8200 names five that may stand here.
const EXTENSIONS: usize = 6;

/// Where things stand in a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Who sent it.
    pub(crate) source: IpAddr,
    /// Who is to get it.
    pub(crate) destination: IpAddr,
    /// The number of what is transported (TCP, UDP, ...).
    pub(crate) protocol: u8,
    /// Where the transport header begins, and the packet ends.
    pub(crate) transport: Range<usize>,
    /// Whether it is a fragment, and not the first: it has no transport header.
    pub(crate) is_later_fragment: bool,
    /// Whether it is any fragment.
    pub(crate) is_fragment: bool,
    /// Whether it says itself by whom it goes.
    is_source_routed: bool,
}

/// Why bytes are no IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoPacket {
    /// It is neither version 4 nor version 6.
    #[error("neither IPv4 nor IPv6")]
    Version,
    /// It ends before a header of it does, or says another length than it has.
    #[error("a packet that is cut off, or says another length than it has")]
    Length,
    /// It has more headers than any real packet.
    #[error("a packet with more extension headers than there are kinds of them")]
    Headers,
    /// It says itself by whom it goes: who gets it in the end would not be whom it was admitted to.
    #[error("a packet that says by whom it goes")]
    SourceRoute,
}

impl Layout {
    /// Reads the headers of a packet that fills `bytes`.
    ///
    /// # Errors
    /// When it is no whole packet.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, NoPacket> {
        let layout = Self::read_headers(bytes)?;
        if layout.transport.end != bytes.len() {
            return Err(NoPacket::Length);
        }
        if layout.is_source_routed { Err(NoPacket::SourceRoute) } else { Ok(layout) }
    }

    /// The same of a packet of which only the beginning may be here, as ICMP quotes one.
    pub(crate) fn read_headers(bytes: &[u8]) -> Result<Self, NoPacket> {
        match bytes.first().map(|byte| byte >> 4) {
            Some(4) => Self::version_4(bytes),
            Some(6) => Self::version_6(bytes),
            Some(_) | None => Err(NoPacket::Version),
        }
    }

    fn version_4(bytes: &[u8]) -> Result<Self, NoPacket> {
        let header: &[u8; 20] = bytes.first_chunk().ok_or(NoPacket::Length)?;
        let header_bytes = usize::from(header[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header_bytes < 20 || total < header_bytes || bytes.len() < header_bytes {
            return Err(NoPacket::Length);
        }
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        let address = |at: usize| {
            let octets = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            IpAddr::V4(Ipv4Addr::from_octets(octets))
        };
        Ok(Self {
            source: address(12),
            destination: address(16),
            protocol: header[9],
            transport: header_bytes..total,
            is_later_fragment: fragment & 0x1fff != 0,
            is_fragment: fragment & 0x3fff != 0,
            is_source_routed: has_source_route(&bytes[20..header_bytes]),
        })
    }

    fn version_6(bytes: &[u8]) -> Result<Self, NoPacket> {
        let header: &[u8; 40] = bytes.first_chunk().ok_or(NoPacket::Length)?;
        let end = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
        let address = |at: usize| {
            let octets = header[at..].first_chunk().expect("40 bytes hold two addresses");
            IpAddr::V6(Ipv6Addr::from_octets(*octets))
        };
        let mut layout = Self {
            source: address(8),
            destination: address(24),
            protocol: header[6],
            transport: 40..end,
            is_later_fragment: false,
            is_fragment: false,
            is_source_routed: false,
        };
        for _ in 0..EXTENSIONS {
            if !layout.pass_extension(bytes)? {
                return Ok(layout);
            }
        }
        Err(NoPacket::Headers)
    }

    /// Steps over an extension header, if one stands here. What follows a fragment header is taken
    /// for what is transported: headers there could be in any fragment, and be overwritten by one.
    fn pass_extension(&mut self, bytes: &[u8]) -> Result<bool, NoPacket> {
        if !matches!(self.protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION)
            || self.is_fragment
        {
            return Ok(false);
        }
        let at = self.transport.start;
        let begin: &[u8; 8] =
            bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(NoPacket::Length)?;
        self.is_source_routed |= self.protocol == ROUTING;
        let length = if self.protocol == FRAGMENT {
            let fragment = u16::from_be_bytes([begin[2], begin[3]]);
            self.is_later_fragment = fragment & 0xfff8 != 0;
            self.is_fragment = true;
            8
        } else {
            8 + usize::from(begin[1]) * 8
        };
        self.protocol = begin[0];
        self.transport.start += length;
        if self.transport.start > self.transport.end {
            return Err(NoPacket::Length);
        }
        Ok(true)
    }

    /// Whether it is of version 6.
    pub(crate) fn is_version_6(&self) -> bool {
        self.source.is_ipv6()
    }

    /// Where the checksum of its transport header stands, if it has one here.
    pub(crate) fn checksum_at(&self) -> Option<usize> {
        if self.is_later_fragment {
            return None;
        }
        let within = match self.protocol {
            TCP => 16,
            UDP => 6,
            ICMP | ICMPV6 => 2,
            _ => return None,
        };
        Some(self.transport.start + within)
    }

    /// Whether the transport checksum covers the two addresses.
    pub(crate) fn has_pseudo_header(&self) -> bool {
        matches!(self.protocol, TCP | UDP | ICMPV6)
    }
}

/// Whether there is a source route among the options of an IPv4 header.
fn has_source_route(mut options: &[u8]) -> bool {
    loop {
        match options {
            [] | [END_OF_OPTIONS, ..] => return false,
            [NO_OPTION, rest @ ..] => options = rest,
            [LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE, ..] => return true,
            [_, length, ..] if *length >= 2 => {
                options = options.get(usize::from(*length)..).unwrap_or_default();
            }
            // Whoever reads them in another way than we do is not to find one.
            [_, ..] => return true,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checksum;

    /// An IP packet with right checksums.
    pub(crate) fn packet(
        source: IpAddr,
        destination: IpAddr,
        protocol: u8,
        transport: &[u8],
    ) -> Vec<u8> {
        let mut bytes = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let total = (20 + transport.len()) as u16;
                let mut header = [0x45, 0, 0, 0, 0, 7, 0x40, 0, 64, protocol, 0, 0].to_vec();
                header[2..4].copy_from_slice(&total.to_be_bytes());
                header.extend(source.octets());
                header.extend(destination.octets());
                let check = !checksum::sum(&header);
                header[10..12].copy_from_slice(&check.to_be_bytes());
                header
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let length = (transport.len() as u16).to_be_bytes();
                let mut header = vec![0x60, 0, 0, 0, length[0], length[1], protocol, 64];
                header.extend(source.octets());
                header.extend(destination.octets());
                header
            }
            mixed => panic!("{mixed:?}"),
        };
        bytes.extend_from_slice(transport);
        complete_checksum(&mut bytes);
        bytes
    }

    /// Writes the transport checksum anew.
    pub(crate) fn complete_checksum(bytes: &mut [u8]) {
        let layout = Layout::read(bytes).unwrap();
        let Some(at) = layout.checksum_at() else { return };
        bytes[at..at + 2].fill(0);
        let sum = transport_sum(bytes, &layout);
        let check = if !sum == 0 { 0xffff } else { !sum };
        bytes[at..at + 2].copy_from_slice(&check.to_be_bytes());
    }

    /// The sum over the transport part, with the pseudo header where there is one.
    pub(crate) fn transport_sum(bytes: &[u8], layout: &Layout) -> u16 {
        let transport = &bytes[layout.transport.clone()];
        let sum = checksum::sum(transport);
        if !layout.has_pseudo_header() {
            return sum;
        }
        let addresses = if layout.is_version_6() { &bytes[8..40] } else { &bytes[12..20] };
        let length = checksum::sum(&(transport.len() as u32).to_be_bytes());
        let pseudo = checksum::add(length, u16::from(layout.protocol));
        checksum::add(checksum::add(sum, checksum::sum(addresses)), pseudo)
    }

    /// Asserts that all checksums of a packet are right.
    pub(crate) fn assert_right(bytes: &[u8]) {
        let layout = Layout::read(bytes).unwrap();
        if !layout.is_version_6() {
            let header = usize::from(bytes[0] & 15) * 4;
            assert_eq!(checksum::sum(&bytes[..header]), 0xffff, "the header of {bytes:02x?}");
        }
        if layout.checksum_at().is_some() {
            assert_eq!(transport_sum(bytes, &layout), 0xffff, "the transport of {bytes:02x?}");
        }
    }

    #[test]
    fn headers_are_found_in_both_versions() {
        let udp = [0, 53, 0, 53, 0, 9, 0, 0, 7];
        let bytes = packet([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), UDP, &udp);
        let layout = Layout::read(&bytes).unwrap();
        assert_eq!((layout.protocol, layout.transport.clone()), (UDP, 20..29));
        assert_eq!(layout.checksum_at(), Some(26));
        assert_right(&bytes);

        let one: IpAddr = "fd00::1".parse().unwrap();
        let extended = [[UDP, 0, 1, 4, 0, 0, 0, 0].as_slice(), &udp].concat();
        let bytes = packet(one, "fd00::2".parse().unwrap(), DESTINATION, &extended);
        let layout = Layout::read(&bytes).unwrap();
        assert_eq!((layout.protocol, layout.transport), (UDP, 48..57));
    }

    #[test]
    fn a_packet_that_says_by_whom_it_goes_is_refused() {
        let with_options = |options: &[u8]| {
            let mut bytes = packet([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 132, &[0; 20]);
            bytes[0] += (options.len() / 4) as u8;
            bytes[20..20 + options.len()].copy_from_slice(options);
            Layout::read(&bytes).map(drop)
        };
        for options in [[131, 3, 4, 0], [137, 3, 4, 0], [1, 1, 131, 0], [7, 0, 0, 0]] {
            assert_eq!(with_options(&options), Err(NoPacket::SourceRoute), "{options:?}");
        }
        assert_eq!(with_options(&[1, 3, 1, 1, 131, 3, 4, 0]), Err(NoPacket::SourceRoute));
        for options in [[0, 131, 3, 4], [7, 4, 131, 0], [1, 1, 1, 0], [148, 4, 0, 0]] {
            assert_eq!(with_options(&options), Ok(()), "{options:?}");
        }
        let (one, other) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let mut routed = packet(one, other, DESTINATION, &[59, 0, 1, 4, 0, 0, 0, 0]);
        assert!(Layout::read(&routed).is_ok());
        routed[6] = ROUTING;
        assert_eq!(Layout::read(&routed), Err(NoPacket::SourceRoute));
    }

    #[test]
    fn a_later_fragment_has_no_transport_header() {
        let mut bytes = packet([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), UDP, &[0; 16]);
        bytes[6..8].copy_from_slice(&[0x20, 0]);
        let first = Layout::read(&bytes).unwrap();
        assert!(first.is_fragment && !first.is_later_fragment && first.checksum_at().is_some());
        bytes[6..8].copy_from_slice(&[0, 2]);
        assert_eq!(Layout::read(&bytes).unwrap().checksum_at(), None);
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), version in 4_u8..7) {
            if let Some(first) = bytes.first_mut() {
                *first = (version << 4) | (*first & 15);
            }
            if let Ok(layout) = Layout::read(&bytes) {
                prop_assert!(layout.transport.start <= layout.transport.end);
                prop_assert_eq!(layout.transport.end, bytes.len());
            }
        }
    }
}
