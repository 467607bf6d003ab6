//! Packets on their way from the device to the socket: read, translated, cut, sealed and sent in
//! buffers that are made once.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use mercato_session::limits::SEALED_BYTES;
use mercato_session::{
    AddressTable, Checksum, Cut, CutError, DATA_HEADER_BYTES, OFFLOAD_HEADER_BYTES, OffloadHeader,
    PeerIndex, Route, Shard, too_big,
};

use crate::device::Device;
use crate::limits;
use crate::socket::DatagramSocket;

/// Packets on their way out.
pub(super) struct Outgoing {
    /// A packet of the device, with its header.
    read: Box<[u8]>,
    read_bytes: usize,
    /// Datagrams, one after the other.
    sealed: Box<[u8]>,
    /// Translated packets that wait for a session, the oldest first.
    waiting: VecDeque<(PeerIndex, Vec<u8>)>,
}

/// What came of a packet of the device.
pub(super) enum Sent {
    /// It was sent, or nobody can be told why not.
    Yes,
    /// It waits for a session with its peer.
    WithoutSession,
    /// This is to be told to its sender, as if the peer had sent it.
    TooBig(Vec<u8>),
}

/// A packet of the device.
pub(super) struct Packet<'a> {
    header: OffloadHeader,
    bytes: &'a mut [u8],
    sealed: &'a mut [u8],
}

impl Outgoing {
    pub(super) fn new() -> Self {
        Self {
            read: vec![0; limits::DEVICE_BYTES].into(),
            read_bytes: 0,
            sealed: vec![0; limits::SEND_BYTES].into(),
            waiting: VecDeque::new(),
        }
    }

    /// Reads a packet of the device, if there is one.
    pub(super) fn read(&mut self, device: &Device) -> io::Result<Option<Packet<'_>>> {
        match device.read(&mut self.read) {
            Ok(bytes) => {
                self.read_bytes = bytes;
                let sealed = &mut self.sealed;
                Ok(Packet::new(&mut self.read[..bytes], sealed))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps the packet that was read, until there is a session with its peer.
    pub(super) fn keep(&mut self, peer: PeerIndex) {
        if self.waiting.len() == limits::WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((peer, self.read[..self.read_bytes].to_vec()));
    }

    /// Sends what waited for a session with this peer.
    pub(super) fn send_kept(
        &mut self,
        mono_ms: u64,
        peer: PeerIndex,
        shard: &mut Shard,
        socket: &mut DatagramSocket,
    ) {
        for (of, mut bytes) in std::mem::take(&mut self.waiting) {
            if of != peer {
                self.waiting.push_back((of, bytes));
            } else if let Some(packet) = Packet::new(&mut bytes, &mut self.sealed) {
                packet.send(mono_ms, peer, shard, socket);
            }
        }
    }

    /// Sends an empty packet.
    pub(super) fn send_empty(
        &mut self,
        mono_ms: u64,
        peer: PeerIndex,
        shard: &mut Shard,
        socket: &mut DatagramSocket,
    ) {
        let mut datagram = [0; SEALED_BYTES];
        if let Ok(to) = shard.seal(mono_ms, peer, &mut datagram) {
            send(socket, to, &datagram, SEALED_BYTES);
        }
    }
}

impl<'a> Packet<'a> {
    /// None if its header asks for what was never offered.
    fn new(read: &'a mut [u8], sealed: &'a mut [u8]) -> Option<Self> {
        let (header, bytes) = read.split_first_chunk_mut::<OFFLOAD_HEADER_BYTES>()?;
        let header = OffloadHeader::from_bytes(header)?;
        Some(Self { header, bytes, sealed })
    }

    /// Translates it. None if it may not pass.
    pub(super) fn translate(&mut self, table: &mut AddressTable, mono_ms: u64) -> Option<Route> {
        let is_partial = self.header.checksum.is_some();
        let checksum = if is_partial { Checksum::Partial } else { Checksum::Complete };
        table.outbound(mono_ms, self.bytes, checksum).ok()
    }

    /// Cuts, seals and sends it.
    pub(super) fn send(
        self,
        mono_ms: u64,
        peer: PeerIndex,
        shard: &mut Shard,
        socket: &mut DatagramSocket,
    ) -> Sent {
        let Self { header, bytes, sealed } = self;
        let room = shard.room(peer);
        let mut cut = match Cut::new(&header, bytes, room) {
            Ok(cut) => cut,
            Err(CutError::TooLarge(most)) => {
                return too_big(bytes, most).map_or(Sent::Yes, Sent::TooBig);
            }
            Err(error) => {
                tracing::debug!(%error, "a packet that cannot be sent");
                return Sent::Yes;
            }
        };
        let (mut end, mut each) = (0, 0);
        let mut to = None;
        while let Some(length) = cut.write_next(&mut sealed[end + DATA_HEADER_BYTES..]) {
            let begin = end;
            end += length + SEALED_BYTES;
            match shard.seal(mono_ms, peer, &mut sealed[begin..end]) {
                Ok(address) => to = Some(address),
                Err(_) => return Sent::WithoutSession,
            }
            if each > 0 && end - begin > each {
                // Halves of packets: all but the last datagram of one send are equally long.
                send(socket, to.expect("it was sealed"), &sealed[..begin], each);
                sealed.copy_within(begin..end, 0);
                (end, each) = (end - begin, 0);
            }
            let is_last = each > 0 && end % each != 0;
            each = each.max(end.min(length + SEALED_BYTES));
            let is_full = end + room.datagram() + SEALED_BYTES > sealed.len();
            if is_last || is_full || end >= each * limits::SEND_SEGMENTS {
                send(socket, to.expect("it was sealed"), &sealed[..end], each);
                (end, each) = (0, 0);
            }
        }
        if let Some(to) = to.filter(|_| end > 0) {
            send(socket, to, &sealed[..end], each);
        }
        Sent::Yes
    }
}

fn send(socket: &mut DatagramSocket, to: SocketAddr, bytes: &[u8], each: usize) {
    // What a network does not take is lost, as on any link; whoever sent it says it again.
    if let Err(error) = socket.send(to, bytes, each) {
        tracing::debug!(%to, %error, "datagrams were not sent");
    }
}
