//! Packets on their way from the device to the socket: translated, cut, sealed and sent in
//! buffers that are made once. While the way out is full, and where a lease has sent more than it
//! may, they wait in the queues of their leases.

use std::collections::VecDeque;

use mercato_protocol::id::ContractId;
use mercato_session::limits::SEALED_BYTES;
use mercato_session::{
    AddressTable, Checksum, Cut, CutError, DATA_HEADER_BYTES, DropReason, FairQueue,
    OFFLOAD_HEADER_BYTES, OffloadHeader, PeerIndex, Queued, Route, Shard, Via, too_big,
};

use super::backlog::Backlog;
use super::batch::{Batch, Refused, Way};
use super::leases::Leases;
use crate::limits;
use crate::socket::DatagramSocket;

/// Packets on their way out.
pub(super) struct Outgoing {
    batch: Batch,
    way: Way,
    backlog: Backlog,
    queue: FairQueue<Waiting>,
    /// When the next of those that wait for their rate may go.
    next_ms: Option<u64>,
    /// Translated packets without a session with their peer, the oldest first.
    without_session: VecDeque<Waiting>,
    /// Whether there are more of these since it was last asked.
    wants_session: bool,
    /// Made for senders of packets that do not pass, by the peer in whose pods' name.
    told: Vec<(PeerIndex, Vec<u8>)>,
}

/// A translated packet that waits.
struct Waiting {
    route: Route,
    header: OffloadHeader,
    bytes: Vec<u8>,
}

/// What packets on their way out pass through.
pub(super) struct Through<'a> {
    pub(super) mono_ms: u64,
    pub(super) shard: &'a mut Shard,
    pub(super) leases: &'a mut Leases,
    pub(super) socket: &'a DatagramSocket,
}

impl Outgoing {
    pub(super) fn new() -> Self {
        Self {
            batch: Batch::new(),
            way: Way::Open,
            backlog: Backlog::default(),
            queue: FairQueue::default(),
            next_ms: None,
            without_session: VecDeque::new(),
            wants_session: false,
            told: Vec::new(),
        }
    }

    /// Whether the socket is to say when it takes more.
    pub(super) fn waits_for_socket(&self) -> bool {
        self.way == Way::Full
    }

    /// When the next packet that waits for its rate may go.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.next_ms
    }

    /// Whether packets have come to wait for a session since this was last called.
    pub(super) fn take_wants_session(&mut self) -> bool {
        std::mem::take(&mut self.wants_session)
    }

    /// What is to be written to the device since this was last called, for senders of packets that
    /// do not pass, as if these peers had sent it.
    pub(super) fn take_told(&mut self) -> Vec<(PeerIndex, Vec<u8>)> {
        std::mem::take(&mut self.told)
    }

    /// Datagrams that the own link refused as too large since this was last called.
    pub(super) fn take_refused(&mut self) -> Vec<Refused> {
        self.batch.take_refused()
    }

    /// Takes a packet as the device gave it, with its header in front.
    pub(super) fn take(
        &mut self,
        read: &mut [u8],
        table: &mut AddressTable,
        through: &mut Through<'_>,
    ) {
        let Some((header, bytes)) = read.split_first_chunk_mut::<OFFLOAD_HEADER_BYTES>() else {
            return;
        };
        // None: it asks for what was never offered.
        let Some(header) = OffloadHeader::from_bytes(header) else { return };
        let is_partial = header.checksum.is_some();
        let checksum = if is_partial { Checksum::Partial } else { Checksum::Complete };
        let count = header.count(bytes);
        let route = match table.outbound(through.mono_ms, bytes, checksum) {
            Ok(route) => route,
            Err(reason) => {
                if let Some(lease) = table.lease_of_outbound(bytes) {
                    through.leases.drop_outbound(lease, reason, count);
                }
                return;
            }
        };
        let may_go = self.way == Way::Open
            && (self.queue.is_empty() || !self.queue.has(route.lease))
            && through.leases.admit_outbound(through.mono_ms, route.lease, count.bytes).is_ok();
        if may_go {
            self.seal(route, &header, bytes, through);
        } else {
            self.wait(Waiting { route, header, bytes: bytes.to_vec() }, through.leases);
        }
    }

    /// Seals a packet that may go now; keeps it if there is no session.
    fn seal(
        &mut self,
        route: Route,
        header: &OffloadHeader,
        bytes: &[u8],
        through: &mut Through<'_>,
    ) {
        match self.seal_pieces(route.peer, header, bytes, through) {
            Ok(()) => through.leases.pass_outbound(route.lease, header.count(bytes)),
            Err(Unsent::Dropped(reason)) => {
                through.leases.drop_outbound(route.lease, reason, header.count(bytes));
            }
            Err(Unsent::WithoutSession) => {
                let waiting = Waiting { route, header: *header, bytes: bytes.to_vec() };
                if self.without_session.len() == limits::WAITING {
                    let lost = self.without_session.pop_front();
                    lost.inspect(|lost| lost.drop(DropReason::NoSession, through.leases));
                }
                self.without_session.push_back(waiting);
                self.wants_session = true;
            }
        }
        if self.batch.send_complete(through.socket) == Way::Full {
            self.way = Way::Full;
        }
    }

    fn seal_pieces(
        &mut self,
        peer: PeerIndex,
        header: &OffloadHeader,
        bytes: &[u8],
        through: &mut Through<'_>,
    ) -> Result<(), Unsent> {
        let room = through.shard.room(peer);
        let mut cut = Cut::new(header, bytes, room).map_err(|error| {
            tracing::debug!(%error, "a packet that cannot be sent");
            if let CutError::TooLarge(Some(most)) = error {
                self.told.extend(too_big(bytes, most).map(|told| (peer, told)));
            }
            Unsent::Dropped(error.into())
        })?;
        let most = room.datagram() + SEALED_BYTES;
        loop {
            let Some(room) = self.batch.room(most) else {
                if self.batch.send_all(through.socket) == Way::Full {
                    self.way = Way::Full;
                    return Err(Unsent::Dropped(DropReason::Queue));
                }
                continue;
            };
            let Some(length) = cut.write_next(&mut room[DATA_HEADER_BYTES..]) else {
                return Ok(());
            };
            let datagram = &mut room[..length + SEALED_BYTES];
            match through.shard.seal(through.mono_ms, peer, datagram) {
                Ok(via) => self.batch.push(via, length + SEALED_BYTES),
                // All other errors are those of opening.
                Err(_) => return Err(Unsent::WithoutSession),
            }
        }
    }

    fn wait(&mut self, waiting: Waiting, leases: &mut Leases) {
        let (lease, bytes) = (waiting.route.lease, waiting.bytes.len());
        if let Err(lost) = self.queue.push(Queued { lease, bytes, packet: waiting }) {
            lost.packet.drop(DropReason::Queue, leases);
        }
    }

    /// Sends what is sealed, then what waits and may go.
    pub(super) fn flush(&mut self, through: &mut Through<'_>) {
        self.backlog.before(through.socket);
        self.way = self.batch.send_all(through.socket);
        while self.way == Way::Open && !self.queue.is_empty() {
            let mut next_ms: Option<u64> = None;
            let (leases, mono_ms) = (&mut *through.leases, through.mono_ms);
            let popped = self.queue.pop(|lease, bytes| {
                let admitted = leases.admit_outbound(mono_ms, lease, bytes as u64);
                if let Err(at_ms) = admitted {
                    next_ms = Some(next_ms.map_or(at_ms, |next_ms| next_ms.min(at_ms)));
                }
                admitted.is_ok()
            });
            self.next_ms = next_ms;
            let Some(Queued { packet: Waiting { route, header, bytes }, .. }) = popped else {
                break;
            };
            self.seal(route, &header, &bytes, through);
        }
        if self.way == Way::Open {
            self.way = self.batch.send_all(through.socket);
        }
        if self.queue.is_empty() {
            self.next_ms = None;
        }
        let (is_full, sent_bytes) = (self.way == Way::Full, self.batch.sent_bytes());
        self.backlog.after(through.mono_ms, is_full, sent_bytes, through.socket);
    }

    /// Sends what waited for a session with this peer.
    pub(super) fn session_began(&mut self, peer: PeerIndex, through: &mut Through<'_>) {
        let (kept, others) = std::mem::take(&mut self.without_session)
            .into_iter()
            .partition::<VecDeque<_>, _>(|waiting| waiting.route.peer == peer);
        self.without_session = others;
        for Waiting { route, header, bytes } in kept {
            self.seal(route, &header, &bytes, through);
        }
        self.flush(through);
    }

    /// Drops what waits of a lease.
    pub(super) fn remove_lease(&mut self, lease: ContractId) {
        self.queue.remove(lease);
        self.without_session.retain(|waiting| waiting.route.lease != lease);
    }

    /// Sends a datagram that is no packet of a pod. While the way out is full, it waits before all
    /// packets that are not sealed yet.
    pub(super) fn send_alone(&mut self, via: Via, datagram: &[u8], through: &mut Through<'_>) {
        self.batch.push_alone(via, datagram);
        self.flush(through);
    }
}

/// Why a packet was not sealed.
enum Unsent {
    Dropped(DropReason),
    WithoutSession,
}

impl Waiting {
    fn drop(&self, reason: DropReason, leases: &mut Leases) {
        let count = self.header.count(&self.bytes);
        leases.drop_outbound(self.route.lease, reason, count);
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::NegotiationId;
    use mercato_session::{Config, Endpoint, KeyPair, PeerConfig, SharedSecret, Start, Suites};

    use super::*;
    use crate::offloads::{OffloadState, Offloads};

    fn peer() -> PeerIndex {
        let (keys, suites, start) =
            (KeyPair::from_secret(&[1; 32]), Suites::new([]), Start::from_ms(0));
        let config = Config { keys, suites, shards: 1, link_mtu: 1_500, start };
        let (key, secret) = (KeyPair::from_secret(&[2; 32]).public(), SharedSecret::new([3; 32]));
        let peer = PeerConfig { key, secret, addresses: Vec::new() };
        Endpoint::new(config, [1; 32]).add_peer(peer).unwrap()
    }

    fn packet() -> Vec<u8> {
        let mut packet = vec![0; 28];
        packet[..10].copy_from_slice(&[0x45, 0, 0, 28, 0, 7, 0x40, 0, 64, 17]);
        packet
    }

    #[test]
    fn what_is_not_sent_is_counted_by_its_reason() {
        let route = Route { lease: NegotiationId([1; 16]), peer: peer() };
        let offloads = OffloadState::new(Offloads::ALL);
        let any = "127.0.0.1:0".parse().unwrap();
        let socket = DatagramSocket::bind(any, 1, &offloads).unwrap().remove(0);
        let (mut shard, mut leases, mut outgoing) =
            (Shard::new(0), Leases::default(), Outgoing::new());
        let mut seal = |shard: &mut Shard, bytes: &[u8]| {
            let (leases, socket) = (&mut leases, &socket);
            let mut through = Through { mono_ms: 1_000, shard, leases, socket };
            outgoing.seal(route, &OffloadHeader::default(), bytes, &mut through);
        };
        for _ in 0..=limits::WAITING {
            seal(&mut shard, &packet());
        }
        seal(&mut shard, &[0; 28]);
        let counters = leases.counters()[&route.lease].outbound;
        for reason in DropReason::ALL {
            let expected = [DropReason::NoSession, DropReason::Malformed];
            let dropped = counters.dropped(reason).packets;
            assert_eq!(dropped, u64::from(expected.contains(&reason)), "{reason}");
        }
    }
}
