//! The ten bytes in front of a packet of a device with segmentation offloads
//! (`struct virtio_net_hdr`, VIRTIO 1.2, section 5.1.6): what is left to do before it can go on a
//! wire. Little endian, as on every machine that this runs on.

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

#[cfg(test)]
mod tests {
    use super::*;

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
