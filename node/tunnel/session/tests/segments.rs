//! What is cut is put together again; the pieces are what a network card would have made.
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use mercato_session::{
    Checksum, Coalescer, Cut, CutError, OffloadHeader, Room, SegmentKind, Segments,
    take_partial_mark,
};
use proptest::prelude::*;

/// The ones' complement sum, written anew.
fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[derive(Clone, Debug)]
struct Large {
    kind: SegmentKind,
    size: usize,
    payload: Vec<u8>,
    /// TCP's options, of four bytes each.
    options: usize,
    flags: u8,
    sequence: u32,
}

fn large() -> impl Strategy<Value = Large> {
    let kind =
        prop_oneof![Just(SegmentKind::TcpV4), Just(SegmentKind::TcpV6), Just(SegmentKind::Udp)];
    let payload = proptest::collection::vec(any::<u8>(), 1..9_000);
    let flags = prop_oneof![Just(0x10), Just(0x18)];
    (kind, 200_usize..1_400, payload, 0_usize..5, flags, any::<u32>()).prop_map(
        |(kind, size, payload, options, flags, sequence)| Large {
            kind,
            size,
            payload,
            options,
            flags,
            sequence,
        },
    )
}

impl Large {
    fn is_tcp(&self) -> bool {
        self.kind != SegmentKind::Udp
    }

    fn transport_at(&self) -> usize {
        if self.kind == SegmentKind::TcpV6 { 40 } else { 20 }
    }

    fn payload_at(&self) -> usize {
        self.transport_at() + if self.is_tcp() { 20 + 4 * self.options } else { 8 }
    }

    fn checksum_at(&self) -> usize {
        self.transport_at() + if self.is_tcp() { 16 } else { 6 }
    }

    /// As a device gives it: lengths are right, the transport checksum is the pseudo header's.
    fn packet(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.payload_at()];
        bytes.extend_from_slice(&self.payload);
        let (at, length) = (self.transport_at(), bytes.len());
        let transport = (length - at) as u16;
        let protocol = if self.is_tcp() { 6 } else { 17 };
        if at == 40 {
            bytes[0] = 0x60;
            bytes[4..6].copy_from_slice(&transport.to_be_bytes());
            bytes[6..8].copy_from_slice(&[protocol, 64]);
            bytes[8..40].copy_from_slice(&[5; 32]);
        } else {
            bytes[..2].copy_from_slice(&[0x45, 0]);
            bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            bytes[4..10].copy_from_slice(&[0xff, 0xfe, 0, 0, 64, protocol]);
            bytes[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
            let checksum = !sum(&bytes[..20]);
            bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        bytes[at..at + 4].copy_from_slice(&[1, 2, 3, 4]);
        if self.is_tcp() {
            bytes[at + 4..at + 8].copy_from_slice(&self.sequence.to_be_bytes());
            bytes[at + 12] = ((5 + self.options) as u8) << 4;
            bytes[at + 13] = self.flags;
        } else {
            bytes[at + 4..at + 6].copy_from_slice(&transport.to_be_bytes());
        }
        let pseudo = pseudo(&bytes, at, protocol);
        let at = self.checksum_at();
        bytes[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        bytes
    }

    fn header(&self) -> OffloadHeader {
        let at = self.transport_at() as u16;
        OffloadHeader {
            checksum: Some((at, self.checksum_at() as u16 - at)),
            segments: Some(Segments { kind: self.kind, size: self.size as u16 }),
            headers: self.payload_at() as u16,
        }
    }

    fn pieces(&self, most: usize) -> Vec<Vec<u8>> {
        let packet = self.packet();
        let mut cut = Cut::new(&self.header(), &packet, Room::certain(most)).unwrap();
        let mut room = vec![0; 10_000];
        let mut pieces = Vec::new();
        while let Some(length) = cut.write_next(&mut room) {
            pieces.push(room[..length].to_vec());
        }
        pieces
    }
}

fn pseudo(bytes: &[u8], transport: usize, protocol: u8) -> u16 {
    let addresses = if transport == 40 { &bytes[8..40] } else { &bytes[12..20] };
    let length = ((bytes.len() - transport) as u32).to_be_bytes();
    sum(&[addresses, &length, &[0, protocol]].concat())
}

fn put_together(pieces: &[Vec<u8>], checksum: Checksum) -> Vec<(OffloadHeader, Vec<u8>)> {
    let mut coalescer = Coalescer::default();
    let mut written = Vec::new();
    for mut piece in pieces.iter().cloned() {
        coalescer.push(&mut piece, checksum, |header, bytes| {
            written.push((header, bytes.to_vec()));
        });
    }
    coalescer.finish(|header, bytes| written.push((header, bytes.to_vec())));
    written
}

proptest! {
    #[test]
    fn pieces_are_whole_packets_and_come_together_again(large in large()) {
        let mut pieces = large.pieces(9_999);
        prop_assert_eq!(pieces.len(), large.payload.len().div_ceil(large.size));
        let mut payload = Vec::new();
        for (nth, piece) in pieces.iter_mut().enumerate() {
            prop_assert!(take_partial_mark(piece));
            payload.extend_from_slice(&piece[large.payload_at()..]);
            let at = large.transport_at();
            if at == 20 {
                prop_assert_eq!(sum(&piece[..20]), 0xffff, "the header's checksum");
            }
            let protocol = if large.is_tcp() { 6 } else { 17 };
            let partial = pseudo(piece, at, protocol);
            let checksum_at = large.checksum_at();
            prop_assert_eq!(&partial.to_be_bytes()[..], &piece[checksum_at..checksum_at + 2]);
            if large.is_tcp() {
                let sequence = large.sequence.wrapping_add((nth * large.size) as u32);
                prop_assert_eq!(&sequence.to_be_bytes()[..], &piece[at + 4..at + 8]);
            }
        }
        prop_assert_eq!(&payload, &large.payload);

        let written = put_together(&pieces, Checksum::Partial);
        prop_assert_eq!(written.len(), 1);
        let (header, bytes) = &written[0];
        prop_assert_eq!(bytes, &large.packet());
        let whole = OffloadHeader {
            segments: large.header().segments.filter(|_| pieces.len() > 1),
            ..large.header()
        };
        prop_assert_eq!(header, &whole);
    }

    #[test]
    fn whatever_order_they_come_in_no_byte_is_lost(
        large in large(),
        order in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
    ) {
        let mut pieces = large.pieces(9_999);
        pieces.iter_mut().for_each(|piece| assert!(take_partial_mark(piece)));
        let shuffled: Vec<_> = order.iter().map(|index| index.get(&pieces).clone()).collect();
        let written = put_together(&shuffled, Checksum::Partial);
        let mut bytes: Vec<u8> = Vec::new();
        for (_, packet) in &written {
            bytes.extend_from_slice(&packet[large.payload_at()..]);
        }
        let sent: Vec<u8> =
            shuffled.iter().flat_map(|piece| piece[large.payload_at()..].to_vec()).collect();
        prop_assert_eq!(bytes, sent, "the order within a flow is kept");
    }

    #[test]
    fn tcp_is_cut_as_small_as_it_must_be(large in large(), most in 160_usize..600) {
        let packet = large.packet();
        let cut = Cut::new(&large.header(), &packet, Room::certain(most));
        if large.is_tcp() {
            let pieces = large.pieces(most);
            prop_assert!(pieces.iter().all(|piece| piece.len() <= most));
            return Ok(());
        }
        // It may be fragmented, and goes over two datagrams if that is enough.
        let largest = packet.len().min(large.size + large.payload_at());
        let is_too_large = largest > 2 * (most - 1);
        prop_assert_eq!(cut.err(), is_too_large.then_some(CutError::TooLarge(Some(1_280))));
        if !is_too_large {
            prop_assert!(large.pieces(most).iter().all(|piece| piece.len() <= most));
        }
    }

    #[test]
    fn whatever_comes_is_cut_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        header in any::<[u8; 10]>(),
        version in prop_oneof![Just(0x45_u8), Just(0x60)],
    ) {
        let mut bytes = bytes;
        if bytes.len() > 40 {
            bytes[0] = version;
            let length = if version == 0x45 { bytes.len() } else { bytes.len() - 40 } as u16;
            let at = if version == 0x45 { 2 } else { 4 };
            bytes[at..at + 2].copy_from_slice(&length.to_be_bytes());
            bytes[if version == 0x45 { 9 } else { 6 }] = if header[9] % 2 == 0 { 6 } else { 17 };
        }
        if let Some(header) = OffloadHeader::from_bytes(&header)
            && let Ok(mut cut) = Cut::new(&header, &bytes, Room::certain(1_400))
        {
            let mut room = [0; 1_400];
            let mut pieces = 0;
            while cut.write_next(&mut room).is_some() {
                pieces += 1;
            }
            prop_assert!(pieces <= 200);
        }
        let written = put_together(&[bytes.clone()], Checksum::Complete);
        prop_assert_eq!(written.len(), 1);
        prop_assert_eq!(&written[0].1.len(), &bytes.len());
    }
}

#[test]
fn a_wrong_checksum_is_not_made_right() {
    let large = Large {
        kind: SegmentKind::TcpV4,
        size: 500,
        payload: vec![7; 1_000],
        options: 0,
        flags: 0x10,
        sequence: 1,
    };
    let mut pieces = large.pieces(9_999);
    for piece in &mut pieces {
        assert!(take_partial_mark(piece));
        // Not finished: as a complete checksum it is wrong.
    }
    let written = put_together(&pieces, Checksum::Complete);
    assert_eq!(written.len(), 2, "each passes as it is");
    assert!(written.iter().all(|(header, _)| header.checksum.is_none()));
}

#[test]
fn no_more_datagrams_come_together_than_the_kernel_takes() {
    let large = Large {
        kind: SegmentKind::Udp,
        size: 64,
        payload: vec![7; 100 * 64],
        options: 0,
        flags: 0,
        sequence: 0,
    };
    let mut pieces = large.pieces(9_999);
    pieces.iter_mut().for_each(|piece| assert!(take_partial_mark(piece)));
    let written = put_together(&pieces, Checksum::Partial);
    let lengths: Vec<_> = written.iter().map(|(_, packet)| packet.len() - 28).collect();
    assert_eq!(lengths, [64 * 64, 36 * 64]);
}
