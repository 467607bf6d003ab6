//! One gateway as its shell drives it: a real carrier, the data path of a real shard and a real
//! address table. What it receives for its cluster, and what it does with keys, is there for the
//! checks.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::time::Now;
use mercato_session::{
    AddressTable, Carrier, Change, Checksum, Claim, Config, DataPath, DropReason, Entry, Ignored,
    KeyPair, Link, OffloadHeader, Order, Outbound, Outbox, PeerConfig, PeerIndex, Role, Route, Say,
    ShardError, Shards, SharedSecret, Start, Suite, Suites, Via, limits,
};

use super::bug::TunnelBug;

/// Gateways of a trial: the first has a session with each of the others.
pub(super) const GATEWAYS: usize = 3;
/// Leases: the gateway at the other end, which is not the first.
pub(super) const LEASES: [usize; 3] = [1, 2, 1];
/// The largest packet of a link on which nothing goes wrong.
pub(super) const LINK_MTU: usize = 1_500;
/// Sealed packets begin with it.
const DATA: u8 = 4;
/// Of the low bits of an index: the shard's.
const SHARD_BITS: u32 = limits::SHARDS as u32 - 1;

/// A gateway and what is around it.
pub(super) struct Gateway {
    pub(super) number: usize,
    /// As its data folder keeps it.
    pub(super) start: Start,
    carrier: Carrier,
    only: OnlyShard,
    table: AddressTable,
    peers: BTreeMap<usize, PeerIndex>,
    /// With the lease that they came by.
    pub(super) received: Vec<(ContractId, Vec<u8>)>,
    /// Keys that were used after their end.
    pub(super) misused: Option<String>,
    bug: Option<TunnelBug>,
    /// For bugs: by index and counter of what came, whose packet it carried.
    seen: BTreeMap<(u32, u64), (PeerIndex, Vec<u8>)>,
    highest: BTreeMap<u32, u64>,
}

/// The only shard of a gateway, which does what is ordered at once.
struct OnlyShard {
    path: DataPath,
    outbox: Outbox,
    mono_ms: u64,
    /// When each session that is not over began, by our index.
    sessions: BTreeMap<u32, u64>,
    keeps_keys: bool,
}

/// Where a gateway is, unless it has moved.
pub(super) fn home(number: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number as u8 + 1], 7475))
}

/// The contract of a lease.
pub(super) fn contract(lease: usize) -> ContractId {
    ContractId([lease as u8 + 1; 16])
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
        let config = Config { keys: keys(number), suites, shards: 1, link_mtu: LINK_MTU, start };
        let mut gateway = Self {
            number,
            start,
            carrier: Carrier::new(config, seed),
            only: OnlyShard::new(bug == Some(TunnelBug::KeysOutliveTheirEnd)),
            table: AddressTable::new([7; 16]),
            peers: BTreeMap::new(),
            received: Vec::new(),
            misused: None,
            bug,
            seen: BTreeMap::new(),
            highest: BTreeMap::new(),
        };
        let others: &[usize] = if number == 0 { &[1, 2] } else { &[0] };
        for &other in others {
            let secret = SharedSecret::new([number.max(other) as u8; 32]);
            let cluster = ClusterId([other as u8; 32]);
            let claims = vec![Claim { cluster, secret, addresses: vec![home(other)] }];
            let peer = PeerConfig { key: keys(other).public(), claims };
            let now = Now { mono_ms: 0, wall_ms: start.to_ms() };
            let peer = gateway.carrier.add_peer(now, peer).expect("three gateways are few");
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
        let route = routed.ok().and_then(Outbound::through);
        let route = route.expect("what is sent is between pods of two clusters");
        let (header, key_ms) = (OffloadHeader::default(), self.only.key_ms(now.mono_ms));
        self.only.path.send(key_ms, route, &header, &packet, &mut self.only.outbox);
        self.settle(now);
    }

    /// A packet of a peer's, for its cluster.
    fn admit(&mut self, now: Now, peer: PeerIndex, packet: &mut [u8]) -> Result<Route, DropReason> {
        self.table.inbound(now.mono_ms, peer, packet, Checksum::Complete)
    }

    /// A datagram from the link. Says whether it was a sealed packet, and opened.
    pub(super) fn receive(&mut self, now: Now, from: SocketAddr, mut datagram: Vec<u8>) -> bool {
        let is_opened = if is_sealed(&datagram) {
            self.open(now, from, &mut datagram)
        } else {
            self.only.mono_ms = now.mono_ms;
            self.carrier.take_datagram(from.into(), &datagram);
            self.carrier.handle_datagrams(now, &mut self.only);
            false
        };
        self.settle(now);
        is_opened
    }

    /// Whether packets with this index are to be opened now.
    pub(super) fn has_session(&self, now: Now, index: u32) -> bool {
        let age_ms = self.session_age_ms(now, index);
        age_ms.is_some_and(|age_ms| age_ms < limits::REJECT_AFTER_MS)
    }

    fn session_age_ms(&self, now: Now, index: u32) -> Option<u64> {
        let began_ms = self.only.sessions.get(&(index & !SHARD_BITS))?;
        Some(now.mono_ms.saturating_sub(*began_ms))
    }

    fn open(&mut self, now: Now, from: SocketAddr, datagram: &mut [u8]) -> bool {
        let place = place_of(datagram);
        if self.bug == Some(TunnelBug::WindowMovesFirst) && !self.moves_first(place.0, place.1) {
            return false;
        }
        let key_ms = self.only.key_ms(now.mono_ms);
        let opened = match self.only.path.open(key_ms, from.into(), datagram) {
            Ok((opened, _)) => Some((opened.peer, opened.packet.to_vec())),
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
        } else if let Ok(route) = self.admit(now, peer, &mut packet) {
            self.received.push((route.lease, packet));
        }
        true
    }

    /// A window as somebody might write it: whether this packet is taken, decided and remembered
    /// before anything is verified.
    fn moves_first(&mut self, index: u32, counter: u64) -> bool {
        if !self.only.sessions.contains_key(&(index & !SHARD_BITS)) {
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
            let age_ms = self.session_age_ms(now, index);
            let session = format!("session {:#x} of age {age_ms:?} ms", index & !SHARD_BITS);
            self.misused = Some(format!("{session} has opened a packet"));
        }
    }

    /// The own link has refused a datagram as too large.
    pub(super) fn note_refused(&mut self, now: Now, to: SocketAddr, bytes: usize) {
        self.only.path.note_refused(to, bytes);
        self.settle(now);
    }

    /// What it wants to send since this was last taken.
    pub(super) fn take_sent(&mut self) -> Vec<(Via, Vec<u8>)> {
        std::mem::take(&mut self.only.outbox.sent)
    }

    pub(super) fn wakeup_ms(&self) -> Option<u64> {
        self.carrier.wakeup_ms()
    }

    /// Does what is due, and carries what the shard saw until nothing more comes of it.
    pub(super) fn settle(&mut self, now: Now) {
        self.only.mono_ms = now.mono_ms;
        loop {
            for (peer, activity) in self.only.path.activities() {
                self.carrier.note(now, peer, activity);
            }
            if !self.carrier.carry(now, &mut self.only) {
                return;
            }
        }
    }
}

impl OnlyShard {
    fn new(keeps_keys: bool) -> Self {
        let (path, outbox) = (DataPath::new(0), Outbox::default());
        Self { path, outbox, mono_ms: 0, sessions: BTreeMap::new(), keeps_keys }
    }

    /// What time the data path believes it is.
    fn key_ms(&self, mono_ms: u64) -> u64 {
        if self.keeps_keys { 0 } else { mono_ms }
    }
}

impl Shards for OnlyShard {
    fn order(&mut self, order: Order) {
        match &order {
            Order::Install(_, keys) => {
                self.sessions.insert(keys.own_index(), self.mono_ms);
            }
            Order::RemoveSession(index) => {
                self.sessions.remove(index);
                if self.keeps_keys {
                    return;
                }
            }
            Order::SealWith(..)
            | Order::Address(..)
            | Order::Path(..)
            | Order::RemovePeer(_)
            | Order::Table(_) => {}
        }
        self.path.obey(self.key_ms(self.mono_ms), order, &mut self.outbox);
    }

    fn say(&mut self, say: Say) {
        self.path.say(self.key_ms(self.mono_ms), say, &mut self.outbox);
    }

    fn link(&mut self, _: PeerIndex, _: Link, _: ClusterId) {}

    fn ignored(&mut self, _: Via, _: Ignored) {}
}

/// Whether a datagram says that it is a sealed packet.
pub(super) fn is_sealed(datagram: &[u8]) -> bool {
    datagram.first() == Some(&DATA)
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
