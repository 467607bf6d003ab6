//! ICMP errors through the address table: those about packets between the two sides of a lease
//! pass, and no others, for whoever gets one believes it of any of its connections.
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use std::net::Ipv4Addr;
use std::time::Duration;

use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::time::Now;
use mercato_session::{
    AddressTable, Carrier, Change, Checksum, Claim, Config, DropReason, Entry, KeyPair, PeerConfig,
    PeerIndex, Role, SharedSecret, Start, Suites, too_big,
};

const LEASES: [ContractId; 2] = [ContractId([1; 16]), ContractId([2; 16])];
const CLUSTER: ClusterId = ClusterId([5; 32]);
const POD: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const POD_INNER: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
const GUEST: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 1);
const GUEST_INNER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// Of another lease with the same peer.
const OTHER_INNER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

fn peer() -> PeerIndex {
    let keys = KeyPair::from_secret(&[1; 32]);
    let (suites, start) = (Suites::new([]), Start::from_ms(0));
    let config = Config { keys: keys.clone(), suites, shards: 1, link_mtu: 1_500, start };
    let secret = SharedSecret::new([2; 32]);
    let claims = vec![Claim { cluster: CLUSTER, secret, addresses: Vec::new() }];
    let peer = PeerConfig { key: keys.public(), claims };
    let now = Now { mono_ms: 0, wall_ms: 0 };
    Carrier::new(config, [3; 32]).add_peer(now, peer).unwrap()
}

fn table() -> AddressTable {
    let (cluster, role, left) = (CLUSTER, Role::Consumer, Duration::MAX);
    let entry = |lease, local: Ipv4Addr, inner: Ipv4Addr| {
        let (local, inner) = (local.into(), inner.into());
        Entry { lease, local, inner }
    };
    let [lease, other] = LEASES;
    let mut table = AddressTable::new([4; 16]);
    let refused = table.apply(
        0,
        &[
            Change::Link { cluster, gateways: Vec::new(), active: peer() },
            Change::Lease { lease, cluster, role, left },
            Change::Lease { lease: other, cluster, role, left },
            Change::AddLocal(entry(lease, POD, POD_INNER)),
            Change::AddRemote(entry(lease, GUEST, GUEST_INNER)),
            Change::AddRemote(entry(other, Ipv4Addr::new(10, 2, 0, 2), OTHER_INNER)),
        ],
    );
    assert_eq!(refused, []);
    table
}

/// A UDP packet without a checksum.
fn udp(source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let mut packet = vec![0; 60];
    packet[..10].copy_from_slice(&[0x45, 0, 0, 60, 0, 7, 0x40, 0, 64, 17]);
    packet[12..16].copy_from_slice(&source.octets());
    packet[16..20].copy_from_slice(&destination.octets());
    packet
}

/// What a peer's gateway sends, in the name of its pod, about a packet between these two.
fn error(about: (Ipv4Addr, Ipv4Addr)) -> Vec<u8> {
    let mut error = too_big(&udp(about.0, about.1), 1_280).unwrap();
    error[12..16].copy_from_slice(&GUEST_INNER.octets());
    error[16..20].copy_from_slice(&POD_INNER.octets());
    error
}

#[test]
fn an_error_about_our_own_packet_passes_with_our_names() {
    let mut packet = error((POD_INNER, GUEST_INNER));
    table().inbound(0, peer(), &mut packet, Checksum::Complete).unwrap();
    assert_eq!(packet[12..20], [GUEST.octets(), POD.octets()].concat());
    assert_eq!(packet[40..48], [POD.octets(), GUEST.octets()].concat());
}

#[test]
fn an_error_about_a_connection_to_somebody_else_does_not() {
    let about = [
        (POD_INNER, ELSEWHERE),
        (POD, ELSEWHERE),
        (POD_INNER, OTHER_INNER),
        (GUEST_INNER, POD_INNER),
        (ELSEWHERE, GUEST_INNER),
    ];
    for about in about {
        let (table, packet) = (table(), error(about));
        let mut changed = packet.clone();
        let refused = table.inbound(0, peer(), &mut changed, Checksum::Complete);
        assert_eq!(refused, Err(DropReason::Quotation), "{about:?}");
        assert_eq!(changed, packet);
    }
}

#[test]
fn what_we_say_about_a_packet_of_the_peer_passes_with_the_names_between_gateways() {
    let outbound = |about: (Ipv4Addr, Ipv4Addr)| {
        let mut packet = too_big(&udp(about.0, about.1), 1_280).unwrap();
        packet[12..16].copy_from_slice(&POD.octets());
        packet[16..20].copy_from_slice(&GUEST.octets());
        table().outbound(0, &mut packet, Checksum::Complete).map(|_| packet)
    };
    let packet = outbound((GUEST, POD)).unwrap();
    assert_eq!(packet[40..48], [GUEST_INNER.octets(), POD_INNER.octets()].concat());
    assert_eq!(outbound((GUEST, ELSEWHERE)), Err(DropReason::Quotation));
    assert_eq!(outbound((POD, GUEST)), Err(DropReason::Quotation));
}

#[test]
fn an_error_in_fragments_and_a_tunnel_of_the_pods_own_are_counted_apart() {
    let mut fragment = error((POD_INNER, GUEST_INNER));
    fragment[6] |= 0x20;
    let mut tunnelled = udp(GUEST_INNER, POD_INNER);
    tunnelled[9] = 4;
    for (packet, reason) in [(fragment, DropReason::Quotation), (tunnelled, DropReason::Protocol)] {
        let (table, mut changed) = (table(), packet.clone());
        assert_eq!(table.inbound(0, peer(), &mut changed, Checksum::Complete), Err(reason));
        assert_eq!(changed, packet);
    }
}
