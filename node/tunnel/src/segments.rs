//! Large packets for a device that may not take them: whole where it does, and else in the pieces
//! that they were made of. What it refuses once is not tried again.

use std::io;

use mercato_session::{
    Cut, OFFLOAD_HEADER_BYTES, OffloadHeader, Room, complete_checksum, take_partial_mark,
};

use crate::limits;
use crate::offloads::{Offload, OffloadState};

/// Writes packets to a device, and gives up what it does not take.
#[derive(Debug, Default)]
pub(crate) struct SegmentWriter {
    /// Of one piece.
    piece: Vec<u8>,
}

impl SegmentWriter {
    /// Writes a packet by `write`, whole or in pieces.
    ///
    /// # Errors
    /// The first that `write` gives for the packet or a piece.
    pub(crate) fn write(
        &mut self,
        offloads: &OffloadState,
        header: OffloadHeader,
        packet: &mut [u8],
        mut write: impl FnMut(&[u8; OFFLOAD_HEADER_BYTES], &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(segments) = header.segments else {
            return write_one(offloads, header, packet, &mut write);
        };
        let offload = Offload::of_written(segments.kind);
        let in_use = offloads.now();
        if !in_use.contains(offload) || !in_use.contains(Offload::Checksum) {
            return self.write_pieces(offloads, &header, packet, &mut write);
        }
        match write(&header.to_bytes(), packet) {
            Err(refused) if refused.raw_os_error() == Some(libc::EINVAL) => {
                self.write_pieces(offloads, &header, packet, &mut write)?;
                // The pieces were taken: it is their being one that was refused.
                offloads.give_up(offload, &refused);
                Ok(())
            }
            other => other,
        }
    }

    fn write_pieces(
        &mut self,
        offloads: &OffloadState,
        header: &OffloadHeader,
        packet: &[u8],
        write: &mut impl FnMut(&[u8; OFFLOAD_HEADER_BYTES], &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let mut cut =
            Cut::new(header, packet, Room::certain(limits::DEVICE_BYTES)).map_err(invalid)?;
        self.piece.resize(limits::DEVICE_BYTES, 0);
        while let Some(length) = cut.write_next(&mut self.piece) {
            let piece = &mut self.piece[..length];
            take_partial_mark(piece);
            let header = OffloadHeader { segments: None, ..*header };
            write_one(offloads, header, piece, write)?;
        }
        Ok(())
    }
}

fn write_one(
    offloads: &OffloadState,
    mut header: OffloadHeader,
    packet: &mut [u8],
    write: &mut impl FnMut(&[u8; OFFLOAD_HEADER_BYTES], &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    if !offloads.contains(Offload::Checksum) {
        complete_checksum(&mut header, packet);
    }
    write(&header.to_bytes(), packet)
}

#[cfg(test)]
mod tests {
    use mercato_session::{SegmentKind, Segments};

    use super::*;
    use crate::offloads::Offloads;

    const HEADERS: usize = 28;

    /// Three datagrams of UDP over IPv4 as one, of 1,000, 1,000 and 500 bytes.
    fn datagrams() -> (OffloadHeader, Vec<u8>) {
        let length = (HEADERS + 2_500) as u16;
        let mut packet = vec![0x45, 0, 0, 0, 0, 7, 0x40, 0, 64, 17, 0, 0];
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 0, 53]);
        packet.extend((length - 20).to_be_bytes());
        packet.extend([0; 2]);
        packet.resize(length.into(), 9);
        let segments = Some(Segments { kind: SegmentKind::Udp, size: 1_000 });
        (OffloadHeader { checksum: Some((20, 6)), segments, headers: HEADERS as u16 }, packet)
    }

    /// Writes them to a device that refuses large packets with this error. Gives the lengths of
    /// all that it took, and whether their checksums were left to it.
    fn write(
        offloads: &OffloadState,
        refused: Option<i32>,
    ) -> (io::Result<()>, Vec<(usize, bool)>) {
        let (header, mut packet) = datagrams();
        let mut taken = Vec::new();
        let device = |header: &[u8; OFFLOAD_HEADER_BYTES], packet: &[u8]| {
            let header = OffloadHeader::from_bytes(header).expect("a header of ours");
            match refused.filter(|_| header.segments.is_some()) {
                Some(code) => Err(io::Error::from_raw_os_error(code)),
                None => {
                    taken.push((packet.len(), header.checksum.is_some()));
                    Ok(())
                }
            }
        };
        let written = SegmentWriter::default().write(offloads, header, &mut packet, device);
        (written, taken)
    }

    const PIECES: [usize; 3] = [HEADERS + 1_000, HEADERS + 1_000, HEADERS + 500];

    #[test]
    fn what_the_device_refuses_goes_in_pieces_from_then_on() {
        let offloads = OffloadState::new(Offloads::ALL);
        let (written, taken) = write(&offloads, None);
        written.unwrap();
        assert_eq!(taken, [(HEADERS + 2_500, true)]);
        for _ in 0..2 {
            let (written, taken) = write(&offloads, Some(libc::EINVAL));
            written.unwrap();
            assert_eq!(taken, PIECES.map(|length| (length, true)));
            assert_eq!(offloads.now(), Offloads::ALL.without(Offload::GroUdp));
        }
        assert_eq!(write(&offloads, None).1.len(), 3, "it is not tried again");
    }

    #[test]
    fn an_error_of_the_device_itself_gives_nothing_up() {
        let offloads = OffloadState::new(Offloads::ALL);
        let (written, taken) = write(&offloads, Some(libc::EIO));
        assert_eq!(written.unwrap_err().raw_os_error(), Some(libc::EIO));
        assert_eq!((taken.len(), offloads.now()), (0, Offloads::ALL));
    }

    #[test]
    fn without_partial_checksums_each_piece_has_its_own() {
        let offloads = OffloadState::new(Offloads::ALL.without(Offload::Checksum));
        let (written, taken) = write(&offloads, None);
        written.unwrap();
        assert_eq!(taken, PIECES.map(|length| (length, false)));
    }
}
