//! One gateway as its shell drives it: a real endpoint, a real shard and a real address table. It
//! performs the endpoint's effects; what it receives for its cluster, and what it does with keys,
//! is there for the checks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mercato_protocol::id::{ClusterId, ContractId, NegotiationId};
use mercato_protocol::time::Now;
use mercato_session::{
    AddressTable, Change, Checksum, Config, Cut, DATA_HEADER_BYTES, Effect, Endpoint, Entry,
    Ignored, KeyPair, OffloadHeader, PeerConfig, PeerIndex, Role, Shard, ShardError, SharedSecret,
    Start, Suite, Suites, limits,
};

use super::bug::TunnelBug;

/// Gateways of a trial: the first has a session with each of the others.
pub(super) const GATEWAYS: usize = 3;
/// Leases: the gateway at the other end, which is not the first.
pub(super) const LEASES: [usize; 3] = [1, 2, 1];
/// Packets that wait for a session.
const WAITING: usize = 16;
/// Of the low bits of an index: the shard's.
const SHARD_BITS: u32 = limits::SHARDS as u32 - 1;

/// A gateway and what is around it.
pub(super) struct Gateway {
    pub(super) number: usize,
    /// As its data folder keeps it.
    pub(super) start: Start,
    endpoint: Endpoint,
    shard: Shard,
    table: AddressTable,
    peers: BTreeMap<usize, PeerIndex>,
    /// Translated packets without a session.
    waiting: VecDeque<(PeerIndex, Vec<u8>)>,
    pub(super) outbox: Vec<(SocketAddr, Vec<u8>)>,
    /// With the lease that they came by.
    pub(super) received: Vec<(ContractId, Vec<u8>)>,
    /// When each session that is not over began, by our index.
    pub(super) sessions: BTreeMap<u32, u64>,
    /// Keys that were used after their end.
    pub(super) misused: Option<String>,
    bug: Option<TunnelBug>,
    /// For bugs: by index and counter of what came, whose packet it carried.
    seen: BTreeMap<(u32, u64), (PeerIndex, Vec<u8>)>,
    highest: BTreeMap<u32, u64>,
}

/// Where a gateway is, unless it has moved.
pub(super) fn home(number: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number as u8 + 1], 7475))
}

/// The contract of a lease.
pub(super) fn contract(lease: usize) -> ContractId {
    NegotiationId([lease as u8 + 1; 16])
}

/// A lease's pod, of the first gateway's cluster or of the other one, as `of` knows it: clusters
/// call it in their own ways.
pub(super) fn pod(lease: usize, is_of_first: bool, of: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 100 + of as u8, u8::from(is_of_first), lease as u8 + 1)
}

/// The same between the gateways.
fn inner(lease: usize, is_of_first: bool) -> Ipv4Addr {
    Ipv4Addr::new(10, 200, u8::from(is_of_first), lease as u8 + 1)
}

/// Whether a gateway is an end of a lease.
pub(super) fn has_lease(number: usize, lease: usize) -> bool {
    number == 0 || LEASES[lease] == number
}

fn keys(number: usize) -> KeyPair {
    KeyPair::from_secret(&[number as u8 + 1; 32])
}

impl Gateway {
    /// A gateway that has just begun; the seed is another each time.
    pub(super) fn new(number: usize, start: Start, seed: [u8; 32], bug: Option<TunnelBug>) -> Self {
        let suites = Suites::new([Suite::Aes256Gcm].into_iter().filter(|_| number != 2));
        let config = Config { keys: keys(number), suites, shards: 1, link_mtu: 1_500, start };
        let mut gateway = Self {
            number,
            start,
            endpoint: Endpoint::new(config, seed),
            shard: Shard::new(0),
            table: AddressTable::new([7; 16]),
            peers: BTreeMap::new(),
            waiting: VecDeque::new(),
            outbox: Vec::new(),
            received: Vec::new(),
            sessions: BTreeMap::new(),
            misused: None,
            bug,
            seen: BTreeMap::new(),
            highest: BTreeMap::new(),
        };
        let others: BTreeSet<_> = if number == 0 { [1, 2].into() } else { [0].into() };
        for other in others {
            let secret = SharedSecret::new([number.max(other) as u8; 32]);
            let peer =
                PeerConfig { key: keys(other).public(), secret, addresses: vec![home(other)] };
            let peer = gateway.endpoint.add_peer(peer).expect("three gateways are few");
            gateway.peers.insert(other, peer);
        }
        (0..LEASES.len()).for_each(|lease| gateway.add_lease(lease));
        gateway
    }

    fn add_lease(&mut self, lease: usize) {
        let number = self.number;
        if !has_lease(number, lease) {
            return;
        }
        let is_first = number == 0;
        let other = if is_first { LEASES[lease] } else { 0 };
        let (cluster, active) = (ClusterId([other as u8; 32]), self.peers[&other]);
        let role = if is_first { Role::Consumer } else { Role::Provider };
        let entry = |is_of_first| {
            let (local, inner) = (pod(lease, is_of_first, number), inner(lease, is_of_first));
            Entry { lease: contract(lease), local: local.into(), inner: inner.into() }
        };
        let changes = [
            Change::Link { cluster, gateways: Vec::new(), active },
            Change::Lease { lease: contract(lease), cluster, role, left: Duration::MAX },
            Change::AddLocal(entry(is_first)),
            Change::AddRemote(entry(!is_first)),
        ];
        let refused = self.table.apply(0, &changes);
        assert!(refused.is_empty(), "each pod has addresses of its own: {refused:?}");
    }

    /// A packet of its cluster's.
    pub(super) fn send(&mut self, now: Now, mut packet: Vec<u8>) {
        let routed = self.table.outbound(now.mono_ms, &mut packet, Checksum::Complete);
        let route = routed.expect("what is sent is between two pods of a lease");
        if self.waiting.len() == WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((route.peer, packet));
        self.flush(now);
        self.settle(now);
    }

    fn flush(&mut self, now: Now) {
        for (peer, packet) in std::mem::take(&mut self.waiting) {
            if !self.seal(now, peer, &packet) {
                self.waiting.push_back((peer, packet));
            }
        }
    }

    /// False if there is no session.
    fn seal(&mut self, now: Now, peer: PeerIndex, packet: &[u8]) -> bool {
        let room = self.shard.room(peer);
        let Ok(mut cut) = Cut::new(&OffloadHeader::default(), packet, room) else { return true };
        let mut datagram = vec![0; room.datagram() + limits::SEALED_BYTES];
        while let Some(length) = cut.write_next(&mut datagram[DATA_HEADER_BYTES..]) {
            let sealed = &mut datagram[..length + limits::SEALED_BYTES];
            match self.shard.seal(self.key_ms(now), peer, sealed) {
                Ok(via) => self.outbox.push((via.to, sealed.to_vec())),
                Err(_) => return false,
            }
        }
        true
    }

    /// What time the shard believes it is.
    fn key_ms(&self, now: Now) -> u64 {
        if self.bug == Some(TunnelBug::KeysOutliveTheirEnd) { 0 } else { now.mono_ms }
    }

    /// A datagram from the link. Says whether it was a sealed packet, and opened.
    pub(super) fn receive(&mut self, now: Now, from: SocketAddr, mut datagram: Vec<u8>) -> bool {
        let taken = self.endpoint.handle_datagram(now, from, &datagram);
        let is_opened = taken == Err(Ignored::Data) && self.open(now, from, &mut datagram);
        self.settle(now);
        is_opened
    }

    /// Whether packets with this index are to be opened now.
    pub(super) fn has_session(&self, now: Now, index: u32) -> bool {
        let began_ms = self.sessions.get(&(index & !SHARD_BITS));
        began_ms.is_some_and(|began| now.mono_ms.saturating_sub(*began) < limits::REJECT_AFTER_MS)
    }

    fn open(&mut self, now: Now, from: SocketAddr, datagram: &mut [u8]) -> bool {
        let place = place_of(datagram);
        if self.bug == Some(TunnelBug::WindowMovesFirst) && !self.moves_first(place) {
            return false;
        }
        let opened = match self.shard.open(self.key_ms(now), from, datagram) {
            Ok(opened) => Some((opened.peer, opened.packet.to_vec())),
            Err(ShardError::Replayed) if self.bug == Some(TunnelBug::ReplayTaken) => {
                self.seen.get(&place).cloned()
            }
            Err(_) => return false,
        };
        self.note_use(now, place.0);
        let Some((peer, mut packet)) = opened.filter(|(_, packet)| !packet.is_empty()) else {
            return true;
        };
        if self.bug == Some(TunnelBug::ReplayTaken) {
            self.seen.insert(place, (peer, packet.clone()));
        }
        if self.bug == Some(TunnelBug::TableSkipped) {
            self.received.push((contract(0), packet));
            return true;
        }
        if let Ok(route) = self.table.inbound(now.mono_ms, peer, &mut packet, Checksum::Complete) {
            self.received.push((route.lease, packet));
        }
        true
    }

    /// A window as somebody might write it: whether this packet is taken, decided and remembered
    /// before anything is verified.
    fn moves_first(&mut self, (index, counter): (u32, u64)) -> bool {
        if !self.sessions.contains_key(&(index & !SHARD_BITS)) {
            return true;
        }
        let highest = self.highest.entry(index).or_default();
        let is_in_window = counter + limits::REPLAY_WINDOW > *highest;
        *highest = counter.min(u64::MAX / 2).max(*highest);
        is_in_window
    }

    /// A session has opened a packet: it must not be over.
    fn note_use(&mut self, now: Now, index: u32) {
        if !self.has_session(now, index) {
            let own_index = index & !SHARD_BITS;
            let began_ms = self.sessions.get(&own_index);
            let age_ms = began_ms.map(|began_ms| now.mono_ms.saturating_sub(*began_ms));
            let session = format!("session {own_index:#x} of age {age_ms:?} ms");
            self.misused = Some(format!("{session} has opened a packet"));
        }
    }

    /// The own link has refused a datagram as too large.
    pub(super) fn note_refused(&mut self, now: Now, to: SocketAddr, bytes: usize) {
        self.shard.note_refused(to, bytes);
        self.settle(now);
    }

    pub(super) fn wakeup_ms(&self) -> Option<u64> {
        self.endpoint.wakeup_ms()
    }

    pub(super) fn wake(&mut self, now: Now) {
        self.endpoint.handle_timeout(now);
        self.settle(now);
    }

    /// Carries what the shard saw to the endpoint, and its effects to the shard.
    fn settle(&mut self, now: Now) {
        loop {
            let seen: Vec<_> = self.shard.activities().collect();
            for (peer, activity) in seen {
                self.endpoint.handle_activity(now, peer, activity);
            }
            let mut is_quiet = true;
            while let Some(effect) = self.endpoint.poll_effect() {
                is_quiet = false;
                self.perform(now, effect);
            }
            if is_quiet {
                return;
            }
        }
    }

    fn perform(&mut self, now: Now, effect: Effect) {
        match effect {
            Effect::Send(via, datagram) => self.outbox.push((via.to, datagram)),
            Effect::Install(peer, keys) => {
                self.sessions.insert(keys.own_index(), now.mono_ms);
                self.shard.install(peer, keys);
            }
            Effect::SealWith(peer, index) => {
                self.shard.seal_with(peer, index);
                self.flush(now);
            }
            Effect::Control(peer, control) => {
                let sealed = self.shard.seal_control(self.key_ms(now), peer, control);
                self.outbox.extend(sealed.map(|(via, datagram)| (via.to, datagram)));
            }
            Effect::Challenge(peer, via, number) => {
                let sealed = self.shard.seal_challenge(self.key_ms(now), peer, number);
                self.outbox.extend(sealed.map(|datagram| (via.to, datagram)));
            }
            Effect::Path(peer, path) => self.shard.set_path(peer, path),
            Effect::RemoveSession(index) => {
                self.sessions.remove(&index);
                if self.bug != Some(TunnelBug::KeysOutliveTheirEnd) {
                    self.shard.remove_session(index);
                }
            }
            Effect::Address(peer, via) => self.shard.set_address(peer, via),
            Effect::Link(..) => {}
        }
    }
}

/// The index and the counter in front of a sealed packet; zero where there is none.
pub(super) fn place_of(datagram: &[u8]) -> (u32, u64) {
    let index = datagram.get(4..).and_then(|rest| rest.first_chunk());
    let counter = datagram.get(8..).and_then(|rest| rest.first_chunk());
    (
        index.map_or(0, |bytes| u32::from_le_bytes(*bytes)),
        counter.map_or(0, |bytes| u64::from_le_bytes(*bytes)),
    )
}
