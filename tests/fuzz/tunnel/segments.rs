//! Large packets of a device: cut, and put together again. What is sound comes back as it was;
//! of what is not, no packet is lost and nothing panics.

use mercato_protocol::id::ContractId;
use mercato_session::{
    Checksum, Coalescer, Cut, OFFLOAD_HEADER_BYTES, OffloadHeader, Outbox, Room, Route,
    SegmentKind, Segments, complete_checksum, take_partial_mark,
};

use super::input::Input;
use super::noise::NOW;
use super::packets;
use super::sealed;

/// No packet, and no piece of one, is larger.
const MOST: usize = 65_535;
/// Room for a datagram, at least: what no header fills.
const LEAST_ROOM: usize = 200;

/// One large packet, or several of any kind.
pub(crate) fn segments(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    match input.byte() & 3 {
        0 => raw(&mut input),
        1 => many(&mut input),
        _ => sound(&mut input),
    }
}

/// A header and a packet as they come.
fn raw(input: &mut Input<'_>) {
    let header = input.array::<OFFLOAD_HEADER_BYTES>();
    let room = Room::certain(LEAST_ROOM + usize::from(input.word() & 0x1fff));
    let ends = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut packet = packets::packet(input, ends.0, ends.1);
    let Some(mut header) = OffloadHeader::from_bytes(&header) else { return };
    assert_eq!(OffloadHeader::from_bytes(&header.to_bytes()), Some(header));
    let count = header.count(&packet);
    assert!(count.packets >= 1 && count.bytes >= packet.len() as u64);
    if let Ok(cut) = Cut::new(&header, &packet, room) {
        let pieces = pieces(cut, room.datagram());
        assert!(!pieces.is_empty());
    }
    send(&header, &packet);
    complete_checksum(&mut header, &mut packet);
    assert_eq!(header.checksum, None);
}

/// The same on a data path with a session: all pieces leave, or the packet is dropped.
fn send(header: &OffloadHeader, packet: &[u8]) {
    let (mut path, peer) = sealed::data_path();
    let (route, mut outbox) = (Route { lease: ContractId([1; 16]), peer }, Outbox::default());
    path.send(NOW.mono_ms, route, header, packet, &mut outbox);
    let room = path.shard().room(peer);
    let pieces = Cut::new(header, packet, room).map(|cut| pieces(cut, room.datagram()).len());
    assert_eq!(outbox.sent.len(), pieces.unwrap_or(0));
    assert_eq!(outbox.dropped.is_empty(), pieces.is_ok());
}

/// Packets one after the other, of which some follow each other.
fn many(input: &mut Input<'_>) {
    let mut coalescer = Coalescer::default();
    let (mut pushed, mut written) = (0, 0);
    let ends = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into(), [10, 0, 0, 3].into()];
    let mut write = |header: OffloadHeader, packet: &mut [u8]| {
        written += header.count(packet).packets;
        assert!(packet.len() <= MOST);
        assert_eq!(header.segments.is_some(), header.count(packet).packets > 1);
    };
    while !input.is_empty() && pushed < 64 {
        let choice = input.byte();
        let from = ends[usize::from(choice & 1)];
        let mut packet = packets::packet(input, from, ends[2]);
        let again = 1 + usize::from(choice >> 6);
        let is_partial = choice & 2 != 0;
        let checksum = if is_partial { Checksum::Partial } else { Checksum::Complete };
        for _ in 0..again {
            coalescer.push(&mut packet, checksum, &mut write);
            pushed += 1;
        }
    }
    coalescer.finish(&mut write);
    assert_eq!(written, pushed, "a packet was lost, or doubled");
}

/// A large packet with right headers, as a kernel gives it.
fn sound(input: &mut Input<'_>) {
    let choice = input.byte();
    let kind = match choice & 3 {
        0 | 3 => SegmentKind::TcpV4,
        1 => SegmentKind::TcpV6,
        _ => SegmentKind::Udp,
    };
    let is_tcp = kind != SegmentKind::Udp;
    let at = if kind == SegmentKind::TcpV6 { 40 } else { 20 };
    let options = if is_tcp { usize::from(choice >> 2 & 7) * 4 } else { 0 };
    let flags = if choice & 0x20 != 0 { 0x18 } else { 0x10 };
    let transport_bytes = if is_tcp { 20 + options } else { 8 };
    let headers = at + transport_bytes;
    let size = 1 + usize::from(input.word()) % 2_000;
    let length = 1 + usize::from(input.word()) % 20_000.min(size * 60);
    let room = Room::certain(headers + size + usize::from(input.byte()));
    let options = input.padded(options);
    let mut header = vec![0; transport_bytes];
    header[..4].copy_from_slice(&input.array::<4>());
    if is_tcp {
        header[4..8].copy_from_slice(&input.array::<4>());
        header[12] = ((transport_bytes / 4) as u8) << 4;
        header[13] = flags;
        header[20..].copy_from_slice(&options);
    } else {
        header[4..6].copy_from_slice(&((8 + length) as u16).to_be_bytes());
    }
    let fill = input.array::<8>();
    let payload: Vec<u8> = (0..length).map(|nth| fill[nth % 8] ^ (nth / 8) as u8).collect();
    let packet = packet(kind, &[header, payload].concat());
    let protocol = if is_tcp { packets::TCP } else { packets::UDP };
    let checksum_at = at + if is_tcp { 16 } else { 6 };
    let segments = Segments { kind, size: size as u16 };
    let header = OffloadHeader {
        checksum: Some((at as u16, (checksum_at - at) as u16)),
        segments: Some(segments),
        headers: headers as u16,
    };
    let cut = Cut::new(&header, &packet, room).unwrap();
    let mut pieces = pieces(cut, room.datagram());
    assert_eq!(pieces.len(), length.div_ceil(size));
    assert_eq!(header.count(&packet).packets as usize, pieces.len());
    let mut coalescer = Coalescer::default();
    let mut whole = Vec::new();
    let mut write =
        |header: OffloadHeader, packet: &mut [u8]| whole.push((header, packet.to_vec()));
    for piece in &mut pieces {
        assert!(take_partial_mark(piece));
        let of = (protocol, at..piece.len());
        let mut one = OffloadHeader { segments: None, ..header };
        let mut finished = piece.clone();
        complete_checksum(&mut one, &mut finished);
        assert_eq!(packets::transport_sum(&finished, &of), 0xffff, "the checksum of a piece");
        coalescer.push(piece, Checksum::Partial, &mut write);
    }
    coalescer.finish(&mut write);
    let segments = Some(segments).filter(|_| pieces.len() > 1);
    assert_eq!(whole, [(OffloadHeader { segments, ..header }, packet)]);
}

/// With the partial checksum that a kernel leaves to a device.
fn packet(kind: SegmentKind, transport: &[u8]) -> Vec<u8> {
    let is_version_6 = kind == SegmentKind::TcpV6;
    let ends = if is_version_6 {
        ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap())
    } else {
        ([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
    };
    let is_udp = kind == SegmentKind::Udp;
    let protocol = if is_udp { packets::UDP } else { packets::TCP };
    let mut packet = packets::laid_out(ends.0, ends.1, protocol, &[], transport);
    let addresses = if is_version_6 { 8..40 } else { 12..20 };
    let length = (transport.len() as u32).to_be_bytes();
    let pseudo = packets::sum(&[&packet[addresses], &length, &[0, protocol]].concat());
    let at = if is_version_6 { 40 } else { 20 } + if is_udp { 6 } else { 16 };
    packet[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
    packet
}

fn pieces(mut cut: Cut<'_>, most: usize) -> Vec<Vec<u8>> {
    let mut into = vec![0; most];
    let mut pieces = Vec::new();
    while let Some(length) = cut.write_next(&mut into) {
        assert!(length <= most && pieces.len() <= 2 * MOST);
        pieces.push(into[..length].to_vec());
    }
    pieces
}
