//! What one packet costs on the data path: sealing with what is around it, opening, and the address
//! table with many entries. The benchmark of whole tunnels is `mercato bench tunnel`.
#![allow(clippy::unwrap_used, reason = "a bench may")]
#![allow(missing_docs, reason = "criterion makes the functions")]

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ipnet::IpNet;
use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::time::Now;
use mercato_session::{
    AddressTable, Carrier, Change, Checksum, Claim, Config, Count, DataPath, DropReason, Entry,
    Ignored, KeyPair, Link, OffloadHeader, Order, Outbox, Outlet, Path, PeerConfig, PeerIndex,
    RangeEntry, Role, Route, Say, Shards, SharedSecret, Start, Suite, Suites, Via, limits,
};

const NOW: Now = Now { mono_ms: 1_000, wall_ms: 1_800_000_000_000 };
/// Inner packets: a small one, and a whole one of a link of 1,500.
const PACKETS: [usize; 2] = [92, 1_440];
/// Opened in a row, each sealed anew.
const IN_A_ROW: usize = 256;
const LINK_MTU: usize = 1_500;
/// Sealed packets begin with it.
const DATA: u8 = 4;
/// Pods of each side.
const PODS: u32 = 10_000;
const LEASE: ContractId = ContractId([1; 16]);

struct End {
    carrier: Carrier,
    only: OnlyShard,
    peer: PeerIndex,
    address: SocketAddr,
}

struct OnlyShard {
    path: DataPath,
    outbox: Outbox,
}

impl Shards for OnlyShard {
    fn order(&mut self, order: Order) {
        self.path.obey(NOW.mono_ms, order, &mut self.outbox);
    }

    fn say(&mut self, say: Say) {
        self.path.say(NOW.mono_ms, say, &mut self.outbox);
    }

    fn link(&mut self, _: PeerIndex, _: Link, _: ClusterId) {}

    fn ignored(&mut self, _: Via, why: Ignored) {
        panic!("{why}");
    }
}

/// A way out in which each datagram takes the place of the last one.
struct Overwritten([u8; LINK_MTU]);

impl Outlet for Overwritten {
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.0.get_mut(..bytes)
    }

    fn push(&mut self, _: Via, bytes: usize) {
        black_box(&self.0[..bytes]);
    }

    fn push_alone(&mut self, _: Via, datagram: &[u8]) {
        black_box(datagram);
    }

    fn passed(&mut self, _: Route, _: Count) {}

    fn dropped(&mut self, _: Route, reason: DropReason, _: Count) {
        panic!("{reason}");
    }

    fn told(&mut self, _: PeerIndex, _: Vec<u8>) {}
}

impl End {
    fn new(own: u8, other: u8) -> Self {
        let keys = |number| KeyPair::from_secret(&[number; 32]);
        let at = |number| SocketAddr::from(([192, 0, 2, number], 7475));
        let start = Start::after(None, NOW.wall_ms);
        let suites = Suites::new(Suite::ALL);
        let config = Config { keys: keys(own), suites, shards: 1, link_mtu: LINK_MTU, start };
        let mut carrier = Carrier::new(config, [own; 32]);
        let secret = SharedSecret::new([9; 32]);
        let cluster = ClusterId([other; 32]);
        let claims = vec![Claim { cluster, secret, addresses: vec![at(other)] }];
        let peer = PeerConfig { key: keys(other).public(), claims };
        let peer = carrier.add_peer(NOW, peer).unwrap();
        let only = OnlyShard { path: DataPath::new(0), outbox: Outbox::default() };
        Self { carrier, only, peer, address: at(own) }
    }

    fn take(&mut self, from: SocketAddr, mut datagram: Vec<u8>) {
        if datagram[0] == DATA {
            self.only.path.open(NOW.mono_ms, from.into(), &mut datagram).unwrap();
        } else {
            self.carrier.take_datagram(from.into(), &datagram);
            self.carrier.handle_datagrams(NOW, &mut self.only);
        }
    }

    fn send(&mut self, packet: &[u8], outlet: &mut impl Outlet) {
        let route = Route { lease: LEASE, peer: self.peer };
        self.only.path.send(NOW.mono_ms, route, &OffloadHeader::default(), packet, outlet);
    }

    fn sealed(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut outbox = Outbox::default();
        self.send(packet, &mut outbox);
        outbox.sent.pop().unwrap().1
    }
}

/// Two ends with a session, by which the first one seals.
fn pair() -> [End; 2] {
    let [mut here, mut there] = [End::new(1, 2), End::new(2, 1)];
    here.carrier.connect(NOW, here.peer, &mut here.only);
    for _ in 0..2 {
        for (_, datagram) in std::mem::take(&mut here.only.outbox.sent) {
            there.take(here.address, datagram);
        }
        for (_, datagram) in std::mem::take(&mut there.only.outbox.sent) {
            here.take(there.address, datagram);
        }
    }
    let path = Path { outer_bytes: LINK_MTU, is_settled: true };
    here.only.order(Order::Path(here.peer, path));
    [here, there]
}

/// A UDP packet over IPv4 of so many bytes.
fn packet(bytes: usize) -> Vec<u8> {
    let mut packet = vec![0; bytes];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    packet[9] = 17;
    packet[12..16].copy_from_slice(&pod(1, PODS / 2).octets());
    packet[16..20].copy_from_slice(&pod(2, PODS / 3).octets());
    packet
}

fn seal_and_open(criterion: &mut Criterion) {
    let [mut here, mut there] = pair();
    let from = here.address;
    let mut group = criterion.benchmark_group("packet");
    for bytes in PACKETS {
        group.throughput(Throughput::Bytes(bytes as u64));
        let (packet, mut way) = (packet(bytes), Overwritten([0; LINK_MTU]));
        group.bench_function(format!("seal {bytes} bytes"), |bencher| {
            bencher.iter(|| here.send(black_box(&packet), &mut way));
        });
        group.throughput(Throughput::Bytes((bytes * IN_A_ROW) as u64));
        group.bench_function(format!("open {IN_A_ROW} of {bytes} bytes"), |bencher| {
            bencher.iter_batched_ref(
                || (0..IN_A_ROW).map(|_| here.sealed(&packet)).collect::<Vec<_>>(),
                |datagrams| {
                    for datagram in datagrams {
                        there.only.path.open(NOW.mono_ms, from.into(), datagram).unwrap();
                    }
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn pod(side: u8, number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from_be_bytes([10, side, 0, 0]) + number)
}

fn translate(criterion: &mut Criterion) {
    let peer = End::new(1, 2).peer;
    let (lease, cluster) = (LEASE, ClusterId([1; 32]));
    let (role, left) = (Role::Consumer, Duration::MAX);
    let mut changes = vec![
        Change::Link { cluster, gateways: Vec::new(), active: peer },
        Change::Lease { lease, cluster, role, left },
    ];
    for number in 0..PODS {
        // Both names alike, so that a packet may be translated again and again.
        let entry = |side| {
            let address = pod(side, number).into();
            Entry { lease, local: address, inner: address }
        };
        changes.extend([Change::AddLocal(entry(1)), Change::AddRemote(entry(2))]);
    }
    let mut table = AddressTable::new([7; 16]);
    assert_eq!(table.apply(0, &changes), []);
    let mut packet = packet(PACKETS[1]);
    criterion.bench_function("translate outbound", |bencher| {
        bencher.iter(|| {
            let packet = black_box(&mut packet);
            table.outbound(NOW.mono_ms, packet, Checksum::Partial).unwrap()
        });
    });
}

/// To the last of as many ranges as a lease may have, of many leases.
fn translate_by_range(criterion: &mut Criterion) {
    let peer = End::new(1, 2).peer;
    let cluster = ClusterId([1; 32]);
    let mut changes = vec![Change::Link { cluster, gateways: Vec::new(), active: peer }];
    for number in 0..PODS {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        let lease = ContractId(id);
        changes.push(Change::Lease { lease, cluster, role: Role::Provider, left: Duration::MAX });
        let guest = pod(1, number).into();
        changes.push(Change::AddLocal(Entry { lease, local: guest, inner: guest }));
        for nth in 0..limits::RANGES as u8 {
            // The last one is that of the packet, by both names.
            let second = limits::RANGES as u8 + 1 - nth;
            let range = IpNet::new(Ipv4Addr::new(10, second, 0, 0).into(), 16).unwrap();
            changes.push(Change::AddRemoteRange(RangeEntry { lease, local: range, inner: range }));
        }
    }
    let mut table = AddressTable::new([7; 16]);
    assert_eq!(table.apply(0, &changes), []);
    let mut packet = packet(PACKETS[1]);
    criterion.bench_function("translate outbound by the last range", |bencher| {
        bencher.iter(|| {
            let packet = black_box(&mut packet);
            table.outbound(NOW.mono_ms, packet, Checksum::Partial).unwrap()
        });
    });
}

criterion_group!(benches, seal_and_open, translate, translate_by_range);
criterion_main!(benches);
