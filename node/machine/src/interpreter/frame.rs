//! A frame with what the kernel knows of where its headers are.

use crate::family::Family;
use crate::packets::protocols::{IPV4, IPV6};

/// Of Ethernet: two addresses, and what is in the frame (IEEE 802.3).
const LINK_BYTES: usize = 14;
const KIND: usize = 12;
const TAG_BYTES: usize = 4;
/// What is below is a length, and the frame is one of LLC (`ETH_P_802_2`).
const LEAST_KIND: u16 = 0x0600;
const LLC: u16 = 0x0004;
/// Tags of VLANs, which the kernel takes off what comes in.
const TAGS: [u16; 2] = [0x8100, 0x88a8];

/// The smallest header of IPv4, in bytes, and the one of IPv6.
const BYTES_V4: usize = 20;
const BYTES_V6: usize = 40;
// Headers of IPv6 that others follow (RFC 8200, section 4; RFC 4302).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTH: u8 = 51;
const NONE: u8 = 59;
const OPTIONS: u8 = 60;

/// A frame, or a packet without one, as a chain sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub(super) bytes: Vec<u8>,
    /// Where the packet begins that is in it; zero: there is no header of a frame.
    pub(super) network: usize,
    /// What is in it, as the kernel was told (`skb->protocol`).
    pub(super) protocol: u16,
}

/// What is in an IP packet (`struct nft_pktinfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transport {
    pub(super) protocol: u8,
    /// Where it begins in the bytes of the frame.
    pub(super) offset: usize,
    /// Whether this is a later part of it, in which its header is not.
    pub(super) is_later_part: bool,
}

impl Frame {
    /// A frame that a program hands to its device, and of which it tells the kernel what is in it.
    pub fn sent(bytes: Vec<u8>, protocol: u16) -> Self {
        Self { network: LINK_BYTES, protocol, bytes }
    }

    /// A frame as a device gets it: the kernel reads in it what it has, behind tags of VLANs.
    pub fn received(bytes: Vec<u8>) -> Self {
        let kind = |at: usize| match bytes.get(at..at + 2) {
            Some(&[high, low]) => u16::from_be_bytes([high, low]),
            Some(_) | None => 0,
        };
        let (mut network, mut protocol) = (LINK_BYTES, kind(KIND));
        // One tag is taken off: of a second one the packet is one of a VLAN.
        if TAGS.contains(&protocol) && bytes.len() >= network + TAG_BYTES {
            protocol = kind(network + 2);
            network += TAG_BYTES;
        }
        if protocol < LEAST_KIND {
            protocol = LLC;
        }
        Self { network, protocol, bytes }
    }

    /// A packet of IP without the header of a frame, such as a device of IP alone has it.
    pub fn packet(bytes: Vec<u8>) -> Self {
        let is_six = bytes.first().is_some_and(|first| first >> 4 == 6);
        Self { network: 0, protocol: if is_six { IPV6 } else { IPV4 }, bytes }
    }

    /// All bytes of the frame, as they are on the wire.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same packet without the frame.
    pub fn without_link(&self) -> Self {
        Self { bytes: self.at_network().to_vec(), network: 0, protocol: self.protocol }
    }

    /// The family of the packet in it, by what the kernel was told; none: it is no packet of IP.
    pub fn family(&self) -> Option<Family> {
        match self.protocol {
            IPV4 => Some(Family::V4),
            IPV6 => Some(Family::V6),
            _ => None,
        }
    }

    pub(super) fn at_network(&self) -> &[u8] {
        self.bytes.get(self.network..).unwrap_or_default()
    }

    /// What is in the packet, where the rules of a device look at it: none, where its header cannot be
    /// (`nft_set_pktinfo_ipv4_validate`, `nft_set_pktinfo_ipv6_validate`).
    pub(super) fn checked_transport(&self) -> Option<Transport> {
        let packet = self.at_network();
        match self.family()? {
            Family::V4 => {
                let length = usize::from(be16(packet, 2)?);
                let header = usize::from(packet.first()? & 0x0f) * 4;
                let is_there = packet.len() >= BYTES_V4 && packet.first()? >> 4 == 4;
                let is_whole = length <= packet.len() && header >= BYTES_V4 && header <= length;
                self.transport().filter(|_| is_there && is_whole)
            }
            Family::V6 => {
                let length = usize::from(be16(packet, 4)?) + BYTES_V6;
                let is_six = packet.first()? >> 4 == 6;
                self.transport().filter(|_| is_six && length <= packet.len())
            }
        }
    }

    /// The same where the kernel has looked at the header already (`nft_set_pktinfo_ipv4`).
    pub(super) fn transport(&self) -> Option<Transport> {
        match self.family()? {
            Family::V4 => self.transport_of_four(),
            Family::V6 => self.transport_of_six(),
        }
    }

    fn transport_of_four(&self) -> Option<Transport> {
        let packet = self.at_network();
        let header = usize::from(packet.first()? & 0x0f) * 4;
        Some(Transport {
            protocol: *packet.get(9)?,
            offset: self.network + header,
            is_later_part: be16(packet, 6)? & 0x1fff != 0,
        })
    }

    /// Behind all headers that others follow (`ipv6_find_hdr`).
    fn transport_of_six(&self) -> Option<Transport> {
        let packet = self.at_network();
        let mut next = *packet.get(6)?;
        let mut start = BYTES_V6;
        if packet.len() < BYTES_V6 {
            return None;
        }
        loop {
            let offset = self.network + start;
            let found = |protocol| Transport { protocol, offset, is_later_part: false };
            if !is_extension(next) || matches!(next, NONE | AUTH) {
                // Of the one for authentication its beginning has to be there.
                let is_there = next != AUTH || packet.len() >= start + 2;
                return is_there.then(|| found(next));
            }
            let (following, length) = (*packet.get(start)?, *packet.get(start + 1)?);
            let mut bytes = (usize::from(length) + 1) * 8;
            if next == FRAGMENT {
                bytes = 8;
                if be16(packet, start + 2)? & !7 != 0 {
                    let ends = !is_extension(following) || following == NONE;
                    return ends.then(|| Transport { is_later_part: true, ..found(following) });
                }
            }
            (next, start) = (following, start + bytes);
        }
    }
}

fn is_extension(header: u8) -> bool {
    matches!(header, HOP_BY_HOP | ROUTING | FRAGMENT | AUTH | NONE | OPTIONS)
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}
