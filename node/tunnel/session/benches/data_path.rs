//! What one packet costs on the data path: sealing, opening, and the address table with many
//! entries. The benchmark of whole tunnels is `mercato bench tunnel`.
#![allow(clippy::unwrap_used, reason = "a bench may")]
#![allow(missing_docs, reason = "criterion makes the functions")]

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mercato_protocol::id::{ClusterId, NegotiationId};
use mercato_protocol::time::Now;
use mercato_session::{
    AddressTable, Change, Checksum, Config, Control, Effect, Endpoint, Entry, KeyPair, PeerConfig,
    PeerIndex, Role, Shard, SharedSecret, Start, Suite, Suites, limits,
};

const NOW: Now = Now { mono_ms: 1_000, wall_ms: 1_800_000_000_000 };
/// Inner packets: a small one, and a whole one of a link of 1,500.
const PACKETS: [usize; 2] = [92, 1_440];
/// Opened in a row, each sealed anew.
const IN_A_ROW: usize = 256;
/// Pods of each side.
const PODS: u32 = 10_000;

struct End {
    endpoint: Endpoint,
    shard: Shard,
    peer: PeerIndex,
    address: SocketAddr,
}

impl End {
    fn new(own: u8, other: u8) -> Self {
        let keys = |number| KeyPair::from_secret(&[number; 32]);
        let at = |number| SocketAddr::from(([192, 0, 2, number], 7475));
        let start = Start::after(None, NOW.wall_ms);
        let suites = Suites::new(Suite::ALL);
        let config = Config { keys: keys(own), suites, shards: 1, link_mtu: 1_500, start };
        let mut endpoint = Endpoint::new(config, [own; 32]);
        let secret = SharedSecret::new([9; 32]);
        let peer = PeerConfig { key: keys(other).public(), secret, addresses: vec![at(other)] };
        let peer = endpoint.add_peer(peer).unwrap();
        Self { endpoint, shard: Shard::new(0), peer, address: at(own) }
    }

    /// Does what is to be done. Gives what is to be sent.
    fn settle(&mut self) -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        while let Some(effect) = self.endpoint.poll_effect() {
            match effect {
                Effect::Send(_, datagram) => sent.push(datagram),
                Effect::Install(peer, keys) => self.shard.install(peer, keys),
                Effect::SealWith(peer, index) => self.shard.seal_with(peer, index),
                Effect::Address(peer, address) => self.shard.set_address(peer, address),
                Effect::Control(peer, Control::Keepalive) => {
                    let sealed = self.shard.seal_control(NOW.mono_ms, peer, Control::Keepalive);
                    sent.push(sealed.unwrap().1);
                }
                Effect::Path(..)
                | Effect::Control(..)
                | Effect::Challenge(..)
                | Effect::RemoveSession(_)
                | Effect::Link(..) => {}
            }
        }
        sent
    }

    fn seal(&mut self, bytes: usize) -> Vec<u8> {
        let mut datagram = vec![0x45; bytes + limits::SEALED_BYTES];
        self.shard.seal(NOW.mono_ms, self.peer, &mut datagram).unwrap();
        datagram
    }
}

/// Two ends with a session, by which the first one seals.
fn pair() -> [End; 2] {
    let mut ends = [End::new(1, 2), End::new(2, 1)];
    ends[0].endpoint.connect(NOW, ends[0].peer);
    for turn in 0..4 {
        let from = ends[turn % 2].address;
        for mut datagram in ends[turn % 2].settle() {
            let to = &mut ends[1 - turn % 2];
            if to.endpoint.handle_datagram(NOW, from, &datagram).is_err() {
                to.shard.open(NOW.mono_ms, from, &mut datagram).unwrap();
            }
        }
    }
    ends
}

fn seal_and_open(criterion: &mut Criterion) {
    let [mut here, mut there] = pair();
    let from = here.address;
    let mut group = criterion.benchmark_group("packet");
    for bytes in PACKETS {
        group.throughput(Throughput::Bytes(bytes as u64));
        let mut datagram = vec![0x45; bytes + limits::SEALED_BYTES];
        group.bench_function(format!("seal {bytes} bytes"), |bencher| {
            bencher.iter(|| here.shard.seal(NOW.mono_ms, here.peer, black_box(&mut datagram)));
        });
        group.throughput(Throughput::Bytes((bytes * IN_A_ROW) as u64));
        group.bench_function(format!("open {IN_A_ROW} of {bytes} bytes"), |bencher| {
            bencher.iter_batched_ref(
                || (0..IN_A_ROW).map(|_| here.seal(bytes)).collect::<Vec<_>>(),
                |datagrams| {
                    for datagram in datagrams {
                        there.shard.open(NOW.mono_ms, from, datagram).unwrap();
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
    let (lease, cluster) = (NegotiationId([1; 16]), ClusterId([1; 32]));
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
    let mut packet = vec![0; PACKETS[1]];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(PACKETS[1] as u16).to_be_bytes());
    packet[9] = 17;
    packet[12..16].copy_from_slice(&pod(1, PODS / 2).octets());
    packet[16..20].copy_from_slice(&pod(2, PODS / 3).octets());
    criterion.bench_function("translate outbound", |bencher| {
        bencher.iter(|| {
            let packet = black_box(&mut packet);
            table.outbound(NOW.mono_ms, packet, Checksum::Partial).unwrap()
        });
    });
}

criterion_group!(benches, seal_and_open, translate);
criterion_main!(benches);
