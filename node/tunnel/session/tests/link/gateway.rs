//! One gateway as its shell drives it: a carrier and the data paths of its shards, with the
//! datagrams that they want to send, what they gave to the cluster, and what was ignored.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::time::Now;
use mercato_session::{
    Carrier, Change, Claim, Config, DataPath, DropReason, Ignored, KeyPair, Link, OffloadHeader,
    Order, Outbox, Path, PeerConfig, PeerIndex, PeerState, PublicKey, Role, Room, Route, Say,
    Shards, SharedSecret, Start, Suite, Suites, Via, limits,
};

/// The wall clock when a test begins.
pub(crate) const BEGIN_MS: u64 = 1_700_000_000_000;
/// Sealed packets begin with it.
const DATA: u8 = 4;
/// Bytes of the headers of IPv4 and UDP.
const HEADERS: usize = 28;
/// Between whom what [`Gateway::send`] says goes, as it stands in a packet.
const TALKERS: [u8; 8] = [10, 9, 9, 1, 10, 9, 9, 2];
/// By which all goes.
const LEASE: ContractId = ContractId([0; 16]);

pub(crate) struct Gateway {
    number: u8,
    link_mtu: usize,
    start: Start,
    suites: Suites,
    carrier: Carrier,
    peer: Option<PeerIndex>,
    next_shard: usize,
    pub(crate) shards: AllShards,
    /// What [`Gateway::send`] said at the other end, and other packets as they are.
    pub(crate) received: Vec<Vec<u8>>,
}

/// All shards of a gateway, which do what is ordered at once, and what they were told.
pub(crate) struct AllShards {
    mono_ms: u64,
    paths: Vec<DataPath>,
    pub(crate) outbox: Outbox,
    pub(crate) ignored: Vec<Ignored>,
    pub(crate) links: Vec<Link>,
    /// Of which cluster the gateway was, each time.
    pub(crate) owners: Vec<ClusterId>,
    path: Path,
    installed: usize,
    open: BTreeSet<u32>,
    suite: Option<Suite>,
}

/// Where a gateway is, unless it has moved.
pub(crate) fn home(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], 7475))
}

pub(crate) fn keys(number: u8) -> KeyPair {
    KeyPair::from_secret(&[number + 1; 32])
}

/// A UDP packet over IPv4 without checksums.
fn packet(said: &[u8]) -> Vec<u8> {
    let [length, udp_length] =
        [HEADERS, 8].map(|headers| ((headers + said.len()) as u16).to_be_bytes());
    let begin = [0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, 17, 0, 0];
    let udp = [0, 7, 0, 7, udp_length[0], udp_length[1], 0, 0];
    [&begin[..], &TALKERS, &udp, said].concat()
}

impl Gateway {
    pub(crate) fn new(number: u8, suites: Suites, shards: u8) -> Self {
        Self::on_link(number, suites, shards, 1_500)
    }

    /// A gateway whose own link has this MTU.
    pub(crate) fn on_link(number: u8, suites: Suites, shards: u8, link_mtu: usize) -> Self {
        let start = Start::after(None, BEGIN_MS);
        let config = Config { keys: keys(number), suites, shards, link_mtu, start };
        let carrier = Carrier::new(config, [number; 32]);
        let (shards, received) = (AllShards::new(shards), Vec::new());
        let (peer, next_shard) = (None, 0);
        Self { number, link_mtu, start, suites, carrier, peer, next_shard, shards, received }
    }

    /// Makes the gateway of this number its peer.
    pub(crate) fn know(&mut self, number: u8) {
        self.know_by(number, [9; 32]);
    }

    /// The same, with another shared secret than all others have.
    pub(crate) fn know_by(&mut self, number: u8, secret: [u8; 32]) {
        let cluster = ClusterId([number; 32]);
        let secret = SharedSecret::new(secret);
        let addresses = vec![home(number)];
        self.know_claims(number, vec![Claim { cluster, secret, addresses }]);
    }

    /// Knows who says that the gateway of this number is theirs.
    pub(crate) fn know_claims(&mut self, number: u8, claims: Vec<Claim>) {
        self.know_key(keys(number).public(), claims);
    }

    /// The same of any key.
    pub(crate) fn know_key(&mut self, key: PublicKey, claims: Vec<Claim>) {
        let config = PeerConfig { key, claims };
        let now = Now { mono_ms: self.shards.mono_ms, wall_ms: BEGIN_MS };
        self.peer = Some(self.carrier.add_peer(now, config).unwrap());
    }

    /// The same gateway after a crash, at this wall clock; `life` is another each time.
    pub(crate) fn restarted(&self, wall_ms: u64, life: u8) -> Self {
        let (number, suites, link_mtu) = (self.number, self.suites, self.link_mtu);
        let shards = self.shards.paths.len() as u8;
        let mut again = Self::on_link(number, suites, shards, link_mtu);
        again.start = Start::after(Some(self.start), wall_ms);
        let start = again.start;
        let config = Config { keys: keys(number), suites, shards, link_mtu, start };
        again.carrier = Carrier::new(config, [life; 32]);
        again.received.clone_from(&self.received);
        again
    }

    pub(crate) fn suite(&self) -> Option<Suite> {
        self.shards.suite
    }

    pub(crate) fn path(&self) -> Path {
        self.shards.path
    }

    /// How many sessions there were.
    pub(crate) fn sessions(&self) -> usize {
        self.shards.installed
    }

    pub(crate) fn open_sessions(&self) -> usize {
        self.shards.open.len()
    }

    /// Says something to the peer in a small packet, by one shard after the other.
    pub(crate) fn send(&mut self, now: Now, said: &[u8]) {
        self.next_shard = (self.next_shard + 1) % self.shards.paths.len();
        self.send_by(now, self.next_shard, &OffloadHeader::default(), &packet(said));
    }

    /// Sends a packet of the device, by the first shard.
    pub(crate) fn send_cut(
        &mut self,
        now: Now,
        header: &OffloadHeader,
        packet: &[u8],
    ) -> Result<(), DropReason> {
        self.shards.outbox.dropped.clear();
        self.send_by(now, 0, header, packet);
        self.shards.outbox.dropped.pop().map_or(Ok(()), |(_, reason)| Err(reason))
    }

    fn send_by(&mut self, now: Now, shard: usize, header: &OffloadHeader, packet: &[u8]) {
        let route = Route { lease: LEASE, peer: self.peer.unwrap() };
        let AllShards { paths, outbox, .. } = &mut self.shards;
        paths[shard].send(now.mono_ms, route, header, packet, outbox);
        self.settle(now);
    }

    /// How large packets to the peer may be.
    pub(crate) fn room(&self) -> Room {
        self.shards.paths[0].shard().room(self.peer.unwrap())
    }

    /// What senders over IPv4 were told of how large their packets may be.
    pub(crate) fn told(&self) -> Vec<usize> {
        let most = |told: &[u8]| usize::from(u16::from_be_bytes([told[26], told[27]]));
        self.shards.outbox.told.iter().map(|(_, told)| most(told)).collect()
    }

    pub(crate) fn receive(&mut self, now: Now, from: SocketAddr, mut datagram: Vec<u8>) {
        if datagram.first() == Some(&DATA) {
            self.open(now, from, &mut datagram);
        } else {
            self.carrier.take_datagram(from.into(), &datagram);
            self.shards.mono_ms = now.mono_ms;
            self.carrier.handle_datagrams(now, &mut self.shards);
        }
        self.settle(now);
    }

    fn open(&mut self, now: Now, from: SocketAddr, datagram: &mut [u8]) {
        // As the kernel steers it: by the index's low bits.
        let paths = &mut self.shards.paths;
        let index = datagram.get(4).map_or(0, |low| usize::from(*low));
        let path = index % limits::SHARDS % paths.len();
        let Ok((opened, _)) = paths[path].open(now.mono_ms, from.into(), datagram) else { return };
        match opened.packet.get(12..20) {
            Some(talkers) if talkers == TALKERS => {
                self.received.push(opened.packet[HEADERS..].to_vec());
            }
            Some(_) => self.received.push(opened.packet.to_vec()),
            None => {}
        }
    }

    /// A lease with the gateway of this number is in force for so long from now on.
    pub(crate) fn lease(&mut self, now: Now, number: u8, left: Duration) {
        let (cluster, role) = (ClusterId([number; 32]), Role::Consumer);
        let active = keys(number).public();
        self.change(
            now,
            vec![
                Change::Link { cluster, gateways: Vec::new(), active },
                Change::Lease { lease: LEASE, cluster, role, left },
            ],
        );
    }

    pub(crate) fn end_lease(&mut self, now: Now) {
        self.change(now, vec![Change::RemoveLease(LEASE)]);
    }

    fn change(&mut self, now: Now, changes: Vec<Change>) {
        self.shards.mono_ms = now.mono_ms;
        assert_eq!(self.carrier.apply(now, changes, &mut self.shards), []);
        self.settle(now);
    }

    /// What is known of the peer.
    pub(crate) fn state(&self, now: Now) -> PeerState {
        self.carrier.peers(now).pop().unwrap()
    }

    /// How many initiations were looked at with the private key.
    pub(crate) fn examined(&self) -> u64 {
        self.carrier.examined_initiations()
    }

    pub(crate) fn wakeup_ms(&self) -> Option<u64> {
        self.carrier.wakeup_ms()
    }

    pub(crate) fn wake(&mut self, now: Now) {
        self.settle(now);
    }

    /// Carries what the shards saw to the endpoint, until that wants nothing more of them.
    fn settle(&mut self, now: Now) {
        self.shards.mono_ms = now.mono_ms;
        loop {
            for (peer, activity) in self.shards.paths.iter_mut().flat_map(DataPath::activities) {
                self.carrier.note(now, peer, activity);
            }
            if !self.carrier.carry(now, &mut self.shards) {
                return;
            }
        }
    }
}

impl AllShards {
    fn new(shards: u8) -> Self {
        Self {
            mono_ms: 0,
            paths: (0..shards).map(DataPath::new).collect(),
            outbox: Outbox::default(),
            ignored: Vec::new(),
            links: Vec::new(),
            owners: Vec::new(),
            path: Path::default(),
            installed: 0,
            open: BTreeSet::new(),
            suite: None,
        }
    }

    fn note(&mut self, order: &Order) {
        match order {
            Order::Install(_, keys) => {
                self.installed += 1;
                self.suite = Some(keys.suite());
                self.open.insert(keys.own_index());
            }
            Order::RemoveSession(index) => drop(self.open.remove(index)),
            Order::Path(_, path) => self.path = *path,
            Order::SealWith(..) | Order::Address(..) | Order::RemovePeer(_) | Order::Table(_) => {}
        }
    }
}

impl Shards for AllShards {
    fn order(&mut self, order: Order) {
        self.note(&order);
        for path in &mut self.paths {
            path.obey(self.mono_ms, order.clone(), &mut self.outbox);
        }
    }

    fn say(&mut self, say: Say) {
        self.paths[0].say(self.mono_ms, say, &mut self.outbox);
    }

    fn link(&mut self, _: PeerIndex, link: Link, cluster: ClusterId) {
        self.links.push(link);
        self.owners.push(cluster);
    }

    fn ignored(&mut self, _: Via, why: Ignored) {
        self.ignored.push(why);
    }
}
