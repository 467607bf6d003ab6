//! Packets on their way from the device to the socket: translated, cut, sealed and sent in
//! buffers that are made once. While the way out is full, and where a lease has sent more than it
//! may, they wait in the queues of their leases.

use mercato_protocol::id::ContractId;
use mercato_session::{
    Checksum, Count, DataPath, DropReason, FairQueue, OFFLOAD_HEADER_BYTES, OffloadHeader, Order,
    Outbound, Outlet, PeerIndex, Queued, Route, Say, Via, clamp_segment_size, nobody_there,
};

use super::backlog::Backlog;
use super::batch::{Batch, Refused, Way};
use super::leases::Leases;
use crate::device::Device;
use crate::limits;
use crate::outer::OuterCounters;
use crate::socket::DatagramSocket;

/// Packets on their way out.
pub(super) struct Outgoing {
    batch: Batch,
    way: Way,
    backlog: Backlog,
    queue: FairQueue<Waiting>,
    /// When the next of those that wait for their rate may go.
    next_ms: Option<u64>,
    /// Made for senders of packets that do not pass, by the peer in whose pods' name.
    told: Vec<(PeerIndex, Vec<u8>)>,
    /// Made for senders of packets to guests that are gone, by the names of this cluster.
    answers: Vec<Vec<u8>>,
}

/// A translated packet that waits.
struct Waiting {
    route: Route,
    header: OffloadHeader,
    bytes: Vec<u8>,
}

/// A translated packet that goes back to the device.
pub(super) struct Returning<'a> {
    pub(super) lease: ContractId,
    pub(super) header: OffloadHeader,
    pub(super) bytes: &'a mut [u8],
}

/// What packets on their way out pass through.
pub(super) struct Through<'a> {
    pub(super) mono_ms: u64,
    pub(super) path: &'a mut DataPath,
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
            told: Vec::new(),
            answers: Vec::new(),
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

    /// What is to be written to the device since this was last called, for senders of packets that
    /// do not pass, as if these peers had sent it.
    pub(super) fn take_told(&mut self) -> Vec<(PeerIndex, Vec<u8>)> {
        std::mem::take(&mut self.told)
    }

    /// The same for senders of packets to guests that are gone, as if these had sent it.
    pub(super) fn take_answers(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.answers)
    }

    /// Datagrams that the own link refused as too large since this was last called.
    pub(super) fn take_refused(&mut self) -> Vec<Refused> {
        self.batch.take_refused()
    }

    /// Datagrams that the socket did not take.
    pub(super) fn outer(&self) -> &OuterCounters {
        self.batch.outer()
    }

    /// Takes a packet as the device gave it, with its header in front. Gives one that goes back to
    /// the device: another guest here is called.
    pub(super) fn take<'a>(
        &mut self,
        read: &'a mut [u8],
        through: &mut Through<'_>,
    ) -> Option<Returning<'a>> {
        let (header, bytes) = read.split_first_chunk_mut::<OFFLOAD_HEADER_BYTES>()?;
        // None: it asks for what was never offered.
        let header = OffloadHeader::from_bytes(header)?;
        let is_partial = header.checksum.is_some();
        let checksum = if is_partial { Checksum::Partial } else { Checksum::Complete };
        let count = header.count(bytes);
        let addresses = through.path.addresses();
        let route = match addresses.outbound(through.mono_ms, bytes, checksum) {
            Ok(Outbound::Through(route)) => route,
            // It is carried to nobody else: no lease counts it. The other guest may be on another node.
            Ok(Outbound::Back(lease)) => {
                clamp_segment_size(bytes, limits::UNSETTLED_BYTES, checksum);
                return Some(Returning { lease, header, bytes });
            }
            Err(reason) => {
                if let Some(lease) = addresses.lease_of_outbound(bytes) {
                    through.leases.drop_outbound(lease, reason, count);
                }
                if reason == DropReason::Gone {
                    self.answers.extend(nobody_there(bytes));
                }
                return None;
            }
        };
        self.send(route, &header, bytes, through);
        None
    }

    /// Sends a translated packet, now or in its turn.
    pub(super) fn send(
        &mut self,
        route: Route,
        header: &OffloadHeader,
        bytes: &[u8],
        through: &mut Through<'_>,
    ) {
        let count = header.count(bytes);
        let may_go = self.way == Way::Open
            && (self.queue.is_empty() || !self.queue.has(route.lease))
            && through.leases.admit_outbound(through.mono_ms, route.lease, count.bytes).is_ok();
        if may_go {
            self.seal(route, header, bytes, through);
        } else {
            let waiting = Waiting { route, header: *header, bytes: bytes.to_vec() };
            self.wait(waiting, through.leases);
        }
    }

    /// Seals a packet that may go now; it waits if there is no session.
    fn seal(
        &mut self,
        route: Route,
        header: &OffloadHeader,
        bytes: &[u8],
        through: &mut Through<'_>,
    ) {
        self.with_outlet(through, |path, mono_ms, outlet| {
            path.send(mono_ms, route, header, bytes, outlet);
        });
        if self.batch.send_complete(through.socket) == Way::Full {
            self.way = Way::Full;
        }
    }

    /// Lets the data path do something that may send.
    fn with_outlet(
        &mut self,
        through: &mut Through<'_>,
        work: impl FnOnce(&mut DataPath, u64, &mut WayOut<'_>),
    ) {
        let Self { batch, way, told, .. } = self;
        let Through { mono_ms, path, leases, socket } = through;
        work(path, *mono_ms, &mut WayOut { batch, way, told, leases, socket });
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

    /// Does what the carrier orders.
    pub(super) fn obey(&mut self, order: Order, through: &mut Through<'_>) {
        // Whatever waited may go then.
        let may_send = matches!(order, Order::SealWith(..));
        self.with_outlet(through, |path, mono_ms, outlet| path.obey(mono_ms, order, outlet));
        if may_send {
            self.flush(through);
        }
    }

    /// Says what is no packet of a pod. While the way out is full, it waits before all packets that
    /// are not sealed yet.
    pub(super) fn say(&mut self, say: Say, through: &mut Through<'_>) {
        self.with_outlet(through, |path, mono_ms, outlet| path.say(mono_ms, say, outlet));
        self.flush(through);
    }

    /// Drops what waits for the way out of a lease.
    pub(super) fn remove_lease(&mut self, lease: ContractId) {
        self.queue.remove(lease);
    }
}

impl Returning<'_> {
    /// Writes it to the device.
    pub(super) fn deliver(self, device: &mut Device, leases: &mut Leases) {
        let Self { lease, header, bytes } = self;
        let count = header.count(bytes);
        if let Err(error) = device.write(header, bytes) {
            leases.drop_outbound(lease, DropReason::Device, count);
            tracing::debug!(device = device.name(), %error, "a packet of a guest was not taken");
        }
    }
}

/// The way out of a lane, as a data path sees it.
struct WayOut<'a> {
    batch: &'a mut Batch,
    way: &'a mut Way,
    told: &'a mut Vec<(PeerIndex, Vec<u8>)>,
    leases: &'a mut Leases,
    socket: &'a DatagramSocket,
}

impl Outlet for WayOut<'_> {
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        if !self.batch.has_room(bytes) && self.batch.send_all(self.socket) == Way::Full {
            *self.way = Way::Full;
            return None;
        }
        self.batch.room(bytes)
    }

    fn push(&mut self, via: Via, bytes: usize) {
        self.batch.push(via, bytes);
    }

    fn push_alone(&mut self, via: Via, datagram: &[u8]) {
        self.batch.push_alone(via, datagram);
    }

    fn passed(&mut self, route: Route, count: Count) {
        self.leases.pass_outbound(route.lease, count);
    }

    fn dropped(&mut self, route: Route, reason: DropReason, count: Count) {
        self.leases.drop_outbound(route.lease, reason, count);
    }

    fn told(&mut self, peer: PeerIndex, packet: Vec<u8>) {
        self.told.push((peer, packet));
    }
}

impl Waiting {
    fn drop(&self, reason: DropReason, leases: &mut Leases) {
        let count = self.header.count(&self.bytes);
        leases.drop_outbound(self.route.lease, reason, count);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mercato_protocol::id::{ClusterId, ContractId};
    use mercato_protocol::time::Now;
    use mercato_session::{
        AddressTable, Carrier, Claim, Config, KeyPair, PeerConfig, SharedSecret, Start, Suites,
    };

    use super::*;
    use crate::offloads::{OffloadState, Offloads};
    use crate::sockets::Sockets;

    fn peer() -> PeerIndex {
        let (keys, suites, start) =
            (KeyPair::from_secret(&[1; 32]), Suites::new([]), Start::from_ms(0));
        let config = Config { keys, suites, shards: 1, link_mtu: 1_500, start };
        let (key, secret) = (KeyPair::from_secret(&[2; 32]).public(), SharedSecret::new([3; 32]));
        let claims = vec![Claim { cluster: ClusterId([1; 32]), secret, addresses: Vec::new() }];
        let now = Now { mono_ms: 0, wall_ms: 0 };
        Carrier::new(config, [1; 32]).add_peer(now, PeerConfig { key, claims }).unwrap()
    }

    fn packet() -> Vec<u8> {
        let mut packet = vec![0; 28];
        packet[..10].copy_from_slice(&[0x45, 0, 0, 28, 0, 7, 0x40, 0, 64, 17]);
        packet
    }

    #[test]
    fn what_is_not_sent_is_counted_by_its_reason() {
        let route = Route { lease: ContractId([1; 16]), peer: peer() };
        let offloads = OffloadState::new(Offloads::ALL);
        let any = "127.0.0.1:0".parse().unwrap();
        let socket = Sockets::bind(any, 1, &offloads).unwrap().shards.remove(0);
        let (mut path, mut leases, mut outgoing) =
            (DataPath::new(0), Leases::default(), Outgoing::new());
        let mut through =
            Through { mono_ms: 1_000, path: &mut path, leases: &mut leases, socket: &socket };
        let header = OffloadHeader::default();
        outgoing.seal(route, &header, &packet(), &mut through);
        outgoing.seal(route, &header, &[0; 28], &mut through);
        // What waits for a session is lost when its lease is none of the table.
        outgoing.obey(Order::Table(Arc::new(AddressTable::new([1; 16]))), &mut through);
        let counters = leases.counters()[&route.lease].outbound;
        for reason in DropReason::ALL {
            let expected = [DropReason::NoSession, DropReason::Malformed];
            let dropped = counters.dropped(reason).packets;
            assert_eq!(dropped, u64::from(expected.contains(&reason)), "{reason}");
        }
    }
}
