//! The ten bytes in front of a packet of a device with segmentation offloads
//! (`struct virtio_net_hdr`, VIRTIO 1.2, section 5.1.6): what is left to do before it can go on a
//! wire. Little endian, as on every machine that this runs on.

use crate::checksum;
use crate::count::Count;

/// Of the header.
pub const OFFLOAD_HEADER_BYTES: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const NOT_SEGMENTED: u8 = 0;
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP_SEGMENTS: u8 = 5;
/// Says that TCP's CWR may stand in the first segment (RFC 3168).
const ECN: u8 = 0x80;

/// What is left to do with a packet of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadHeader {
    /// Where the checksum is to be computed from, and where it goes, counted from there; none if
    /// it is whole.
    pub checksum: Option<(u16, u16)>,
    /// How it is to be cut; none if it is one packet.
    pub segments: Option<Segments>,
    /// The bytes in front of the payload, for whom it may concern.
    pub headers: u16,
}

/// How a packet is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// What is transported.
    pub kind: SegmentKind,
    /// Payload of each but the last.
    pub size: u16,
}

/// What a packet that is to be cut transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP over either.
    Udp,
}

impl OffloadHeader {
    /// Reads it; none if it asks for what was never offered.
    pub fn from_bytes(bytes: &[u8; OFFLOAD_HEADER_BYTES]) -> Option<Self> {
        let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let kind = match bytes[1] & !ECN {
            NOT_SEGMENTED => None,
            TCP_V4 => Some(SegmentKind::TcpV4),
            TCP_V6 => Some(SegmentKind::TcpV6),
            UDP_SEGMENTS => Some(SegmentKind::Udp),
            _ => return None,
        };
        let size = word(4);
        if kind.is_some() && size == 0 {
            return None;
        }
        let needs_checksum = bytes[0] & NEEDS_CHECKSUM != 0;
        Some(Self {
            checksum: needs_checksum.then(|| (word(6), word(8))),
            segments: kind.map(|kind| Segments { kind, size }),
            headers: word(2),
        })
    }

    /// How many packets one is, and how many bytes they have together, each with headers of its
    /// own.
    pub fn count(&self, packet: &[u8]) -> Count {
        let bytes = packet.len() as u64;
        let (Some(Segments { kind, size }), Some((start, _))) = (self.segments, self.checksum)
        else {
            return Count { packets: 1, bytes };
        };
        // `headers` is only a hint: the kernel says there how much of it lies in one piece.
        let transport = match kind {
            SegmentKind::Udp => 8,
            SegmentKind::TcpV4 | SegmentKind::TcpV6 => {
                let offset = packet.get(usize::from(start) + 12).map_or(0, |byte| byte >> 4);
                u64::from(offset) * 4
            }
        };
        let headers = (u64::from(start) + transport).min(bytes);
        let packets = (bytes - headers).div_ceil(u64::from(size.max(1))).max(1);
        Count { packets, bytes: bytes + (packets - 1) * headers }
    }

    /// Lays it out.
    pub fn to_bytes(self) -> [u8; OFFLOAD_HEADER_BYTES] {
        let mut bytes = [0; OFFLOAD_HEADER_BYTES];
        let mut set = |at: usize, word: u16| bytes[at..at + 2].copy_from_slice(&word.to_le_bytes());
        set(2, self.headers);
        let (start, offset) = self.checksum.unwrap_or_default();
        set(6, start);
        set(8, offset);
        if let Some(Segments { size, .. }) = self.segments {
            set(4, size);
        }
        bytes[0] = if self.checksum.is_some() { NEEDS_CHECKSUM } else { 0 };
        bytes[1] = match self.segments.map(|segments| segments.kind) {
            None => NOT_SEGMENTED,
            Some(SegmentKind::TcpV4) => TCP_V4,
            Some(SegmentKind::TcpV6) => TCP_V6,
            Some(SegmentKind::Udp) => UDP_SEGMENTS,
        };
        bytes
    }
}

/// Finishes a packet's partial checksum where its header says, as a device would.
pub fn complete_checksum(header: &mut OffloadHeader, packet: &mut [u8]) {
    let Some((start, offset)) = header.checksum.take() else { return };
    let start = usize::from(start);
    let at = start + usize::from(offset);
    if at + 2 > packet.len() {
        return;
    }
    // UDP's zero would mean that there is none (RFC 768), and to TCP both are the same.
    let checksum = match !checksum::sum(&packet[start..]) {
        0 => 0xffff,
        checksum => checksum,
    };
    packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet;

    #[test]
    fn a_large_packet_counts_as_those_that_it_is_cut_into() {
        let segments = Some(Segments { kind: SegmentKind::TcpV4, size: 1_000 });
        let header = OffloadHeader { checksum: Some((20, 16)), segments, headers: 9 };
        let mut packet = vec![0; 40 + 2_500];
        packet[32] = 5 << 4;
        assert_eq!(header.count(&packet), Count { packets: 3, bytes: 2_500 + 3 * 40 });
        assert_eq!(header.count(&packet[..1_040]), Count { packets: 1, bytes: 1_040 });
        let plain = OffloadHeader::default().count(&packet[..64]);
        assert_eq!(plain, Count { packets: 1, bytes: 64 });
    }

    #[test]
    fn a_finished_checksum_is_right() {
        let (one, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        for payload in 1..40 {
            let header = [0, 53, 0, 53, 0, 8 + payload, 0, 0];
            let udp = [header.as_slice(), &[7; 40][..usize::from(payload)]].concat();
            let whole = packet::tests::packet(one, other, packet::UDP, &udp);
            let mut partial = whole.clone();
            let length = u16::from(payload) + 8;
            let pseudo = [&whole[12..20], &[0, packet::UDP], &length.to_be_bytes()].concat();
            partial[26..28].copy_from_slice(&checksum::sum(&pseudo).to_be_bytes());
            let mut header = OffloadHeader { checksum: Some((20, 6)), ..OffloadHeader::default() };
            complete_checksum(&mut header, &mut partial);
            assert_eq!((header.checksum, partial), (None, whole));
        }
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        for kind in [SegmentKind::TcpV4, SegmentKind::TcpV6, SegmentKind::Udp] {
            let header = OffloadHeader {
                checksum: Some((20, 16)),
                segments: Some(Segments { kind, size: 1_340 }),
                headers: 52,
            };
            assert_eq!(OffloadHeader::from_bytes(&header.to_bytes()), Some(header));
        }
        let plain = OffloadHeader::default();
        assert_eq!(OffloadHeader::from_bytes(&plain.to_bytes()), Some(plain));
        assert_eq!(OffloadHeader::from_bytes(&[0, 3, 0, 0, 1, 0, 0, 0, 0, 0]), None, "UFO");
        assert_eq!(OffloadHeader::from_bytes(&[1, 1, 0, 0, 0, 0, 0, 0, 0, 0]), None, "no size");
    }
}
