//! A large packet of a device, cut into packets that fit a datagram: once, at the sender. Their
//! checksums stay partial; the tunnel's seal protects the bytes, and the device at the other end
//! finishes them. A packet that fits no datagram and cannot be cut goes in two halves; its sender
//! may have to be told.

use crate::checksum::Change;
use crate::control::{HALF_HEADER_BYTES, HalfKind};
use crate::offload::{OffloadHeader, SegmentKind, Segments};
use crate::packet::{Layout, NoPacket, TCP, UDP};
use crate::room::Room;
use thiserror::Error;

/// In the first byte of a packet between two gateways: its checksum is partial. IP's versions are
/// below eight.
const PARTIAL: u8 = 0x80;

const DONT_FRAGMENT: u8 = 0x40;
const FIN_AND_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// A packet of a device, as packets that fit a datagram.
#[derive(Debug)]
pub struct Cut<'a> {
    packet: &'a [u8],
    /// None if it goes as it is.
    segments: Option<SegmentedPacket>,
    is_partial: bool,
    /// Where the next one's payload begins; none after the last.
    next: Option<usize>,
    /// What one datagram carries.
    datagram: usize,
    /// The rest of a packet whose first half was written, with its header.
    second_half: Option<Vec<u8>>,
    /// What its sender is to be told, if anything.
    told: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct SegmentedPacket {
    is_version_6: bool,
    transport: usize,
    payload: usize,
    is_tcp: bool,
    size: usize,
}

/// Why a packet cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CutError {
    /// It is not what its header says.
    #[error(transparent)]
    NoPacket(#[from] NoPacket),
    /// It is, or its pieces are, larger than passes: its sender is to be told how much does, by
    /// [`too_big`](crate::too_big). None while that is not certain, since a sender would go by it
    /// for minutes, and if smaller packets would not pass either.
    #[error("a packet that is larger than passes")]
    TooLarge(Option<usize>),
}

impl<'a> Cut<'a> {
    /// Begins to cut a packet into pieces for which there is room, headers included.
    ///
    /// # Errors
    /// When it is not what its header says, or cannot be cut so small.
    pub fn new(header: &OffloadHeader, packet: &'a [u8], room: Room) -> Result<Self, CutError> {
        let layout = Layout::read(packet)?;
        let is_partial = header.checksum.is_some();
        let may_be_fragmented = may_be_fragmented(packet, &layout);
        let most = room.most(may_be_fragmented);
        let mut cut = Self {
            packet,
            segments: None,
            is_partial,
            next: Some(0),
            datagram: room.datagram(),
            second_half: None,
            told: None,
        };
        if let Some(segments) = header.segments {
            if !is_partial {
                return Err(NoPacket::Headers.into());
            }
            let segmented = SegmentedPacket::new(segments, packet, &layout, cut.datagram)?;
            cut.next = Some(segmented.payload);
            cut.segments = Some(segmented);
        }
        let told = room.told();
        cut.told = told.filter(|told| !may_be_fragmented && cut.largest() > *told);
        if cut.largest() > most { Err(CutError::TooLarge(told)) } else { Ok(cut) }
    }

    /// How large the packets of its sender should be, whom [`too_big`](crate::too_big) tells so: it
    /// passes, but in halves. None where nobody is to be told.
    pub fn told(&self) -> Option<usize> {
        self.told
    }

    /// The length of the largest piece.
    fn largest(&self) -> usize {
        self.segments.map_or(self.packet.len(), |segments| {
            self.packet.len().min(segments.payload + segments.size)
        })
    }

    /// Writes the next piece to the beginning of `into`, which has [room](Room::datagram) for it.
    /// Gives its length; none after the last one. Pieces are sealed in this order, one directly
    /// after the other.
    pub fn write_next(&mut self, into: &mut [u8]) -> Option<usize> {
        if let Some(second_half) = self.second_half.take() {
            into[..second_half.len()].copy_from_slice(&second_half);
            return Some(second_half.len());
        }
        let at = self.next.take()?;
        if self.largest() <= self.datagram {
            return Some(self.write_piece(at, into));
        }
        let mut piece = vec![0; self.largest()];
        let length = self.write_piece(at, &mut piece);
        if length <= self.datagram {
            into[..length].copy_from_slice(&piece[..length]);
            return Some(length);
        }
        let (first, second) = piece[..length].split_at(length.div_ceil(2));
        self.second_half = Some([&[HalfKind::Second.to_byte()], second].concat());
        let end = HALF_HEADER_BYTES + first.len();
        into[..HALF_HEADER_BYTES].copy_from_slice(&[HalfKind::First.to_byte()]);
        into[HALF_HEADER_BYTES..end].copy_from_slice(first);
        Some(end)
    }

    fn write_piece(&mut self, at: usize, into: &mut [u8]) -> usize {
        let length = match self.segments {
            None => {
                into[..self.packet.len()].copy_from_slice(self.packet);
                self.packet.len()
            }
            Some(segments) => {
                let end = (at + segments.size).min(self.packet.len());
                self.next = (end < self.packet.len()).then_some(end);
                segments.write(self.packet, at..end, into)
            }
        };
        if self.is_partial {
            into[0] |= PARTIAL;
        }
        length
    }
}

/// Whether its sender lets routers fragment it: IPv4's "don't fragment" is not set.
fn may_be_fragmented(packet: &[u8], layout: &Layout) -> bool {
    !layout.is_version_6() && packet[6] & DONT_FRAGMENT == 0
}

/// Takes the mark of a partial checksum off a packet that has come through the tunnel. Says
/// whether it was there.
pub fn take_partial_mark(packet: &mut [u8]) -> bool {
    let Some(first) = packet.first_mut() else { return false };
    let is_marked = *first & PARTIAL != 0;
    *first &= !PARTIAL;
    is_marked
}

impl SegmentedPacket {
    fn new(
        segments: Segments,
        packet: &[u8],
        layout: &Layout,
        datagram: usize,
    ) -> Result<Self, CutError> {
        let is_version_6 = layout.is_version_6();
        let is_tcp = match segments.kind {
            SegmentKind::TcpV4 => layout.protocol == TCP && !is_version_6,
            SegmentKind::TcpV6 => layout.protocol == TCP && is_version_6,
            SegmentKind::Udp if layout.protocol == UDP => false,
            SegmentKind::Udp => return Err(NoPacket::Headers.into()),
        };
        if is_tcp != (layout.protocol == TCP) || layout.is_fragment {
            return Err(NoPacket::Headers.into());
        }
        let transport = layout.transport.start;
        let header_bytes = if is_tcp {
            let offset = packet.get(transport + 12).ok_or(NoPacket::Length)?;
            usize::from(offset >> 4) * 4
        } else {
            8
        };
        let least = if is_tcp { 20 } else { 8 };
        let payload = transport + header_bytes;
        if header_bytes < least || payload >= packet.len() {
            return Err(NoPacket::Length.into());
        }
        let size = usize::from(segments.size).min(packet.len() - payload);
        let room = datagram.saturating_sub(payload);
        if !is_tcp || size <= room {
            return Ok(Self { is_version_6, transport, payload, is_tcp, size });
        }
        // TCP is a stream of bytes, and may be cut smaller; a datagram is what it is. Each piece
        // has all headers anew: with headers larger than any real ones, one packet would become
        // thousands of pieces.
        if room < payload {
            return Err(CutError::TooLarge(None));
        }
        Ok(Self { is_version_6, transport, payload, is_tcp, size: room })
    }

    /// Writes the piece with this part of the payload.
    fn write(&self, packet: &[u8], part: std::ops::Range<usize>, into: &mut [u8]) -> usize {
        let length = self.payload + part.len();
        let (is_first, is_last) = (part.start == self.payload, part.end == packet.len());
        let number = (part.start - self.payload) / self.size;
        into[..self.payload].copy_from_slice(&packet[..self.payload]);
        into[self.payload..length].copy_from_slice(&packet[part.clone()]);
        if self.is_version_6 {
            set(into, 4, (length - 40) as u16);
        } else {
            let mut change = set(into, 2, length as u16);
            let id = u16::from_be_bytes([into[4], into[5]]).wrapping_add(number as u16);
            change = change.and(set(into, 4, id));
            let checksum = u16::from_be_bytes([into[10], into[11]]);
            set(into, 10, change.to_checksum(checksum));
        }
        let before = (packet.len() - self.transport) as u32;
        let after = (length - self.transport) as u32;
        let change = Change::of(&before.to_be_bytes(), &after.to_be_bytes());
        let checksum_at = self.transport + if self.is_tcp { 16 } else { 6 };
        let sum = u16::from_be_bytes([into[checksum_at], into[checksum_at + 1]]);
        set(into, checksum_at, change.to_partial(sum));
        if self.is_tcp {
            self.write_tcp(part.start, is_first, is_last, into);
        } else {
            set(into, self.transport + 4, after as u16);
        }
        length
    }

    fn write_tcp(&self, at: usize, is_first: bool, is_last: bool, into: &mut [u8]) {
        let sequence = &mut into[self.transport + 4..self.transport + 8];
        let first = sequence.first_chunk().expect("the range has four bytes");
        let number = u32::from_be_bytes(*first).wrapping_add((at - self.payload) as u32);
        sequence.copy_from_slice(&number.to_be_bytes());
        let flags = &mut into[self.transport + 13];
        if !is_last {
            *flags &= !FIN_AND_PSH;
        }
        if !is_first {
            *flags &= !CWR;
        }
    }
}

fn set(bytes: &mut [u8], at: usize, word: u16) -> Change {
    let field = &mut bytes[at..at + 2];
    let change = Change::of(field, &word.to_be_bytes());
    field.copy_from_slice(&word.to_be_bytes());
    change
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::tests::packet;

    /// Cuts a TCP packet of 2,000 bytes of payload with so many bytes of IPv6 options in front.
    fn cut_with_options(option_bytes: usize, datagram: usize) -> Result<Option<usize>, CutError> {
        let mut options = vec![0; option_bytes];
        options[..2].copy_from_slice(&[TCP, (option_bytes / 8 - 1) as u8]);
        let mut header = [0; 20];
        header[12] = 5 << 4;
        let transport = [&options[..], &header, &[0; 2_000]].concat();
        let (one, other) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let bytes = packet(one, other, 60, &transport);
        let segments = Segments { kind: SegmentKind::TcpV6, size: 1_400 };
        let start = 40 + option_bytes as u16;
        let header =
            OffloadHeader { checksum: Some((start, 16)), segments: Some(segments), headers: 0 };
        let cut = Cut::new(&header, &bytes, Room::certain(datagram))?;
        Ok(cut.segments.map(|segments| segments.size))
    }

    #[test]
    fn headers_that_leave_no_room_for_a_payload_are_refused() {
        assert_eq!(cut_with_options(8, 1_200), Ok(Some(1_200 - 68)));
        let refused = Err(CutError::TooLarge(None));
        for option_bytes in [576, 1_128, 1_136, 1_144, 2_000] {
            assert_eq!(cut_with_options(option_bytes, 1_200), refused, "{option_bytes}");
        }
    }
}
