//! One lane without a device or a gateway.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::time::Now;
use mercato_session::{
    AddressTable, Carrier, Change, Claim, Config, DropReason, Entry, KeyPair, Opened, Outbox,
    PeerConfig, Role, SharedSecret, Start, Suites,
};

use super::*;
use crate::offloads::{OffloadState, Offloads};
use crate::order;
use crate::sockets::Sockets;

/// One of three lanes, and the mail of all.
fn lane() -> (Lane, Vec<LaneMail>) {
    let offloads = OffloadState::new(Offloads::NONE);
    let any = "127.0.0.1:0".parse().unwrap();
    let socket = Sockets::bind(any, 1, &offloads).unwrap().shards.remove(0);
    let (device, _) = UnixDatagram::pair().unwrap();
    device.set_nonblocking(true).unwrap();
    let device = Device::of_file(File::from(OwnedFd::from(device)));
    let (lanes, mut inboxes): (Vec<_>, Vec<_>) =
        (0..3).map(|_| order::lane_mail().unwrap()).unzip();
    let inbox = inboxes.swap_remove(0);
    let parts = LaneParts { number: 0, device, socket, inbox, lanes: lanes.clone() };
    (Lane::new(parts), lanes)
}

/// A sealed packet of no session, for this shard.
fn of_no_session(shard: u8) -> Vec<u8> {
    [&[4, 0, 0, 0, shard][..], &[7; 59]].concat()
}

#[test]
fn what_came_by_another_lane_is_opened_in_its_turn_alone() {
    let (mut lane, lanes) = lane();
    let via = Via::from(std::net::SocketAddr::from(([192, 0, 2, 1], 7475)));
    for _ in 0..limits::ORDERS {
        let astray = Astray { via, each: 64, datagrams: of_no_session(0) };
        // Of more than there is room for, some are lost.
        let _ = lanes[0].astray.try_send(astray);
    }
    assert!(
        lanes[0].orders.try_send(Order::Carry(mercato_session::Order::RemoveSession(16))).is_ok(),
        "orders have room"
    );
    // On a thread with the least stack that any has.
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let turned = small.spawn(move || {
        while lane.turn(0).unwrap() {}
        let dropped = lane.traffic().outer.dropped(OuterReason::Session);
        (lane.inbox.astray.try_take().is_none(), dropped)
    });
    let dropped = limits::ASTRAY as u64;
    assert_eq!(turned.unwrap().join().unwrap(), (true, dropped), "all were looked at");
}

#[test]
fn what_nobody_looks_at_is_counted() {
    // Of the other lanes nobody takes anything out.
    let (mut lane, _) = lane();
    let via = Via::from(std::net::SocketAddr::from(([192, 0, 2, 1], 7475)));
    let mut datagrams = [of_no_session(1), of_no_session(1)].concat();
    for _ in 0..3 {
        let received = Received { via, bytes: datagrams.len(), each: 64 };
        lane.open(0, received, &mut datagrams);
    }
    assert_eq!(lane.traffic().outer.dropped(OuterReason::Crowd), 2 * 3);
    let mut handshakes = vec![1; 64 * (limits::HANDSHAKES_AT_ONCE + 5)];
    let received = Received { via, bytes: handshakes.len(), each: 64 };
    lane.open(0, received, &mut handshakes);
    assert_eq!(lane.traffic().outer.dropped(OuterReason::Crowd), 2 * 3 + 5);
}

#[test]
fn what_the_device_does_not_take_is_no_packet_that_passed() {
    let (keys, start) = (KeyPair::from_secret(&[1; 32]), Start::from_ms(0));
    let config = Config { keys, suites: Suites::new([]), shards: 1, link_mtu: 1_500, start };
    let (key, secret) = (KeyPair::from_secret(&[2; 32]).public(), SharedSecret::new([3; 32]));
    let (cluster, lease) = (ClusterId([1; 32]), ContractId([1; 16]));
    let claims = vec![Claim { cluster, secret, addresses: Vec::new() }];
    let now = Now { mono_ms: 0, wall_ms: 0 };
    let peer = Carrier::new(config, [1; 32]).add_peer(now, PeerConfig { key, claims }).unwrap();
    let [home, guest] = [[10, 1, 0, 1], [10, 2, 0, 1]].map(std::net::IpAddr::from);
    let entry = |address| Entry { lease, local: address, inner: address };
    let mut table = AddressTable::new([1; 16]);
    let changes = [
        Change::Link { cluster, gateways: Vec::new(), active: peer },
        Change::Lease { lease, cluster, role: Role::Provider, left: Duration::MAX },
        Change::AddLocal(entry(guest)),
        Change::AddRemote(entry(home)),
    ];
    assert_eq!(table.apply(0, &changes), []);
    let mut path = DataPath::new(0);
    let table = mercato_session::Order::Table(std::sync::Arc::new(table));
    path.obey(0, table, &mut Outbox::default());
    let room = path.shard().room(peer);

    let (file, other) = UnixDatagram::pair().unwrap();
    let mut device = Device::of_file(File::from(OwnedFd::from(file)));
    let (mut leases, mut incoming) = (Leases::default(), Incoming::default());
    let mut deliver = |device: &mut Device| {
        let mut packet = vec![0; 28];
        packet[..10].copy_from_slice(&[0x45, 0, 0, 28, 0, 7, 0x40, 0, 64, 17]);
        packet[12..20].copy_from_slice(&[10, 1, 0, 1, 10, 2, 0, 1]);
        packet[24..26].copy_from_slice(&[0, 8]);
        let addresses = path.addresses();
        let mut inwards = Inwards { mono_ms: 0, device, addresses, leases: &mut leases };
        incoming.push(Opened { peer, packet: &mut packet, room }, &mut inwards);
        incoming.finish(&mut inwards);
        let inbound = leases.counters()[&lease].inbound;
        [inbound.passed.packets, inbound.dropped(DropReason::Device).packets]
    };
    assert_eq!(deliver(&mut device), [1, 0]);
    drop(other);
    assert_eq!(deliver(&mut device), [1, 1]);
}

#[test]
fn whoever_sends_to_a_guest_that_is_gone_is_told_so() {
    let (keys, start) = (KeyPair::from_secret(&[1; 32]), Start::from_ms(0));
    let config = Config { keys, suites: Suites::new([]), shards: 1, link_mtu: 1_500, start };
    let (key, secret) = (KeyPair::from_secret(&[2; 32]).public(), SharedSecret::new([3; 32]));
    let (cluster, lease) = (ClusterId([1; 32]), ContractId([1; 16]));
    let claims = vec![Claim { cluster, secret, addresses: Vec::new() }];
    let now = Now { mono_ms: 0, wall_ms: 0 };
    let peer = Carrier::new(config, [1; 32]).add_peer(now, PeerConfig { key, claims }).unwrap();
    let [home, guest, gone] =
        [[10, 1, 0, 1], [10, 2, 0, 1], [10, 1, 9, 9]].map(std::net::IpAddr::from);
    let entry = |address| Entry { lease, local: address, inner: address };
    let mut table = AddressTable::new([1; 16]);
    let changes = [
        Change::Link { cluster, gateways: Vec::new(), active: peer },
        Change::Lease { lease, cluster, role: Role::Provider, left: Duration::MAX },
        Change::AddLocal(entry(guest)),
        Change::AddRemote(entry(home)),
        Change::AddGone(entry(gone)),
    ];
    assert_eq!(table.apply(0, &changes), []);
    let (mut lane, _) = lane();
    let table = mercato_session::Order::Table(std::sync::Arc::new(table));
    lane.obey(0, Order::Carry(table));
    let udp = |from: [u8; 4]| {
        let mut packet = vec![0; 28];
        packet[..10].copy_from_slice(&[0x45, 0, 0, 28, 0, 7, 0x40, 0, 64, 17]);
        packet[12..20].copy_from_slice(&[&from[..], &[10, 1, 9, 9]].concat());
        packet[24..26].copy_from_slice(&[0, 8]);
        packet
    };
    let room = lane.path.shard().room(peer);
    let Lane { device, path, leases, incoming, outgoing, socket, .. } = &mut lane;
    let mut packet = udp([10, 1, 0, 1]);
    let addresses = path.addresses();
    let mut inwards = Inwards { mono_ms: 0, device, addresses, leases };
    incoming.push(Opened { peer, packet: &mut packet, room }, &mut inwards);
    incoming.finish(&mut inwards);
    let [(route, answer)] = &incoming.take_answers()[..] else { panic!("home is told") };
    assert_eq!((route.lease, route.peer), (lease, peer));
    assert_eq!(answer[12..20], [10, 1, 9, 9, 10, 1, 0, 1]);
    let mut read = [vec![0; mercato_session::OFFLOAD_HEADER_BYTES], udp([10, 2, 0, 1])].concat();
    let mut through = Through { mono_ms: 0, path, leases, socket };
    assert!(outgoing.take(&mut read, &mut through).is_none());
    let [answer] = &outgoing.take_answers()[..] else { panic!("another guest is told") };
    assert_eq!(answer[12..20], [10, 1, 9, 9, 10, 2, 0, 1]);
    let counted = leases.counters()[&lease];
    let dropped = |counters: mercato_session::Counters| counters.dropped(DropReason::Gone).packets;
    assert_eq!((dropped(counted.inbound), dropped(counted.outbound)), (1, 1));
}
