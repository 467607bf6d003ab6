//! Packets of one flow that came through the tunnel, put together again: one write to the device
//! for up to 64 KiB. What cannot be put together passes as it is, and the order within a flow is
//! kept.

use crate::checksum;
use crate::limits;
use crate::offload::{OffloadHeader, SegmentKind, Segments};
use crate::packet::{Layout, TCP, UDP};
use crate::translate::Checksum;

/// Flows that are put together at a time. A guess: one batch of a socket seldom has more.
const FLOWS: usize = 8;
/// Datagrams that Linux takes as one: `UDP_MAX_SEGMENTS`, which was 64 before 6.9.
const DATAGRAMS: usize = 64;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// Puts packets of a flow together.
#[derive(Debug, Default)]
pub struct Coalescer {
    flows: Vec<Flow>,
    /// Buffers of flows that ended, to be used again.
    spare: Vec<Vec<u8>>,
}

/// A packet that grows.
#[derive(Debug)]
struct Flow {
    bytes: Vec<u8>,
    headers: Headers,
    /// Payload of each segment but the last.
    size: usize,
    segments: usize,
    /// TCP's next sequence number.
    next: u32,
    /// Nothing can follow: the last segment was shorter, or is to be pushed.
    is_closed: bool,
}

/// Where things stand in a packet that can be put together with others.
#[derive(Clone, Copy, Debug)]
struct Headers {
    is_version_6: bool,
    is_tcp: bool,
    transport: usize,
    payload: usize,
}

impl Coalescer {
    /// Takes a packet. Gives to `write` what is complete by it: packets with the header for the
    /// device.
    pub fn push(
        &mut self,
        packet: &mut [u8],
        checksum: Checksum,
        mut write: impl FnMut(OffloadHeader, &mut [u8]),
    ) {
        let Some(headers) = Headers::of(packet, checksum) else {
            self.flush_flow_of(packet, &mut write);
            write(single(packet, checksum), packet);
            return;
        };
        if let Some(nth) = self.flows.iter().position(|flow| headers.is_same_flow(packet, flow)) {
            if self.flows[nth].append(packet, headers) {
                return;
            }
            self.flush(nth, &mut write);
        } else if self.flows.len() == FLOWS {
            self.flush(0, &mut write);
        }
        let bytes = self.spare.pop().unwrap_or_default();
        self.flows.push(Flow::new(bytes, packet, headers));
    }

    /// Gives to `write` all that is left, at the end of a batch.
    pub fn finish(&mut self, mut write: impl FnMut(OffloadHeader, &mut [u8])) {
        while !self.flows.is_empty() {
            self.flush(0, &mut write);
        }
    }

    fn flush(&mut self, nth: usize, write: &mut impl FnMut(OffloadHeader, &mut [u8])) {
        let mut flow = self.flows.remove(nth);
        let header = flow.complete();
        write(header, &mut flow.bytes);
        flow.bytes.clear();
        self.spare.push(flow.bytes);
    }

    /// Before a packet that cannot be put together goes what came before it between the same two.
    fn flush_flow_of(&mut self, packet: &[u8], write: &mut impl FnMut(OffloadHeader, &mut [u8])) {
        // A packet that grows has no right length in its header before it is complete.
        let ends = |bytes: &[u8]| {
            let layout = Layout::read_headers(bytes).ok()?;
            Some((layout.source, layout.destination, layout.protocol))
        };
        let Some(of_packet) = ends(packet) else { return };
        while let Some(nth) =
            self.flows.iter().position(|flow| ends(&flow.bytes) == Some(of_packet))
        {
            self.flush(nth, write);
        }
    }
}

impl Headers {
    /// None if a packet cannot be put together with others: it is another protocol, a fragment,
    /// has options, carries nothing, says more than "here are bytes", or its checksum is wrong.
    fn of(packet: &[u8], checksum: Checksum) -> Option<Self> {
        let layout = Layout::read(packet).ok()?;
        let is_version_6 = layout.is_version_6();
        let transport = layout.transport.start;
        if layout.is_fragment || transport != if is_version_6 { 40 } else { 20 } {
            return None;
        }
        let (is_tcp, payload) = match layout.protocol {
            TCP => {
                let offset = packet.get(transport + 12)?;
                let is_plain = packet.get(transport + 13)? & !PSH == ACK;
                (true, is_plain.then_some(transport + usize::from(offset >> 4) * 4)?)
            }
            UDP => {
                let length = packet.get(transport + 4..transport + 6)?;
                let is_whole = usize::from(u16::from_be_bytes([length[0], length[1]]))
                    == packet.len() - transport;
                let has_checksum = packet.get(transport + 6..transport + 8)? != [0, 0];
                (false, (is_whole && has_checksum).then_some(transport + 8)?)
            }
            _ => return None,
        };
        let least = transport + if is_tcp { 20 } else { 8 };
        if payload < least || payload >= packet.len() {
            return None;
        }
        let headers = Self { is_version_6, is_tcp, transport, payload };
        let is_right = match checksum {
            Checksum::Partial => true,
            // Whoever finishes it would make a wrong one right.
            Checksum::Complete => headers.sum(packet) == 0xffff,
        };
        is_right.then_some(headers)
    }

    /// Over the transport part and the pseudo header.
    fn sum(&self, packet: &[u8]) -> u16 {
        checksum::add(checksum::sum(&packet[self.transport..]), self.pseudo_sum(packet))
    }

    fn pseudo_sum(&self, packet: &[u8]) -> u16 {
        let addresses = if self.is_version_6 { &packet[8..40] } else { &packet[12..20] };
        let length = ((packet.len() - self.transport) as u32).to_be_bytes();
        let rest = checksum::add(checksum::sum(&length), u16::from(self.protocol()));
        checksum::add(checksum::sum(addresses), rest)
    }

    fn protocol(&self) -> u8 {
        if self.is_tcp { TCP } else { UDP }
    }

    fn checksum_at(&self) -> usize {
        self.transport + if self.is_tcp { 16 } else { 6 }
    }

    /// Whether both are between the same addresses and ports.
    fn is_same_flow(&self, packet: &[u8], flow: &Flow) -> bool {
        let (one, other) = (packet, &flow.bytes);
        let addresses = if self.is_version_6 { 8..40 } else { 12..20 };
        let ports = self.transport..self.transport + 4;
        (self.is_version_6, self.is_tcp) == (flow.headers.is_version_6, flow.headers.is_tcp)
            && one[addresses.clone()] == other[addresses]
            && one[ports.clone()] == other[ports]
    }
}

impl Flow {
    fn new(mut bytes: Vec<u8>, packet: &[u8], headers: Headers) -> Self {
        bytes.extend_from_slice(packet);
        let size = packet.len() - headers.payload;
        let next = sequence(packet, headers).wrapping_add(size as u32);
        let is_closed = headers.is_tcp && packet[headers.transport + 13] & PSH != 0;
        Self { bytes, headers, size, segments: 1, next, is_closed }
    }

    /// Appends a packet, if it follows. Says whether it did.
    fn append(&mut self, packet: &[u8], headers: Headers) -> bool {
        let payload = &packet[headers.payload..];
        let follows = !self.is_closed
            && headers.payload == self.headers.payload
            && payload.len() <= self.size
            && self.bytes.len() + payload.len() <= limits::PACKET_BYTES
            && (headers.is_tcp || self.segments < DATAGRAMS)
            && self.has_same_headers(packet);
        if !follows {
            return false;
        }
        self.bytes.extend_from_slice(payload);
        self.segments += 1;
        self.next = self.next.wrapping_add(payload.len() as u32);
        self.is_closed = payload.len() < self.size;
        if headers.is_tcp && packet[headers.transport + 13] & PSH != 0 {
            self.bytes[headers.transport + 13] |= PSH;
            self.is_closed = true;
        }
        true
    }

    /// Whether a packet says the same in its headers, but for what differs in every packet.
    fn has_same_headers(&self, packet: &[u8]) -> bool {
        let Headers { is_version_6, is_tcp, transport, payload } = self.headers;
        let is_same = |range: std::ops::Range<usize>| self.bytes[range.clone()] == packet[range];
        let same_ip = if is_version_6 {
            is_same(0..4) && is_same(6..8)
        } else {
            // The identification rises by one, as it will when the device cuts it again.
            let id = |bytes: &[u8]| u16::from_be_bytes([bytes[4], bytes[5]]);
            let rises = id(packet) == id(&self.bytes).wrapping_add(self.segments as u16);
            let is_free = packet[6] & 0x40 != 0 && id(packet) == id(&self.bytes);
            is_same(0..2) && is_same(6..10) && (rises || is_free)
        };
        let same_tcp = || {
            sequence(packet, self.headers) == self.next
                && is_same(transport + 8..transport + 13)
                && is_same(transport + 14..transport + 16)
                && is_same(transport + 18..payload)
        };
        same_ip && (!is_tcp || same_tcp())
    }

    /// Writes lengths and checksums for all of it. Gives the header for the device.
    fn complete(&mut self) -> OffloadHeader {
        let headers = self.headers;
        let Headers { is_version_6, is_tcp, transport, payload } = headers;
        let length = self.bytes.len();
        if is_version_6 {
            self.set(4, (length - 40) as u16);
        } else {
            self.set(2, length as u16);
            self.set(10, 0);
            let sum = checksum::sum(&self.bytes[..20]);
            self.set(10, !sum);
        }
        if !is_tcp {
            self.set(transport + 4, (length - transport) as u16);
        }
        let pseudo = headers.pseudo_sum(&self.bytes);
        self.set(headers.checksum_at(), pseudo);
        let kind = match (is_tcp, is_version_6) {
            (true, false) => SegmentKind::TcpV4,
            (true, true) => SegmentKind::TcpV6,
            (false, _) => SegmentKind::Udp,
        };
        let segments = Segments { kind, size: self.size as u16 };
        OffloadHeader {
            checksum: Some((transport as u16, (headers.checksum_at() - transport) as u16)),
            segments: (self.segments > 1).then_some(segments),
            headers: payload as u16,
        }
    }

    fn set(&mut self, at: usize, word: u16) {
        self.bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
    }
}

/// The header of a packet that passes as it is.
fn single(packet: &[u8], checksum: Checksum) -> OffloadHeader {
    let place = || {
        let layout = Layout::read(packet).ok()?;
        let at = layout.checksum_at()?;
        Some((layout.transport.start as u16, (at - layout.transport.start) as u16))
    };
    let checksum = match checksum {
        Checksum::Partial => place(),
        Checksum::Complete => None,
    };
    OffloadHeader { checksum, ..OffloadHeader::default() }
}

fn sequence(packet: &[u8], headers: Headers) -> u32 {
    if !headers.is_tcp {
        return 0;
    }
    let at = headers.transport + 4;
    u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
}
