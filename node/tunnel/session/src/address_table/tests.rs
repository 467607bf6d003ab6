//! Leases, links and scopes of the address table. Packets are those of UDP over IPv4.

mod gone;
mod groups;
mod ranges;
mod siblings;

use std::net::Ipv4Addr;
use std::time::Duration;

use mercato_protocol::id::ContractId;

use super::*;

const HOURS: Duration = Duration::from_secs(7_200);
const CLUSTERS: [ClusterId; 2] = [ClusterId([1; 32]), ClusterId([2; 32])];

fn gateway(number: u32) -> PeerIndex {
    PeerIndex::new(number)
}

fn contract(number: u8) -> ContractId {
    ContractId([number; 16])
}

fn entry(lease: u8, local: Ipv4Addr, inner: Ipv4Addr) -> Entry {
    Entry { lease: contract(lease), local: local.into(), inner: inner.into() }
}

/// A link to a cluster behind one gateway, and a lease with it.
fn leased(cluster: usize, lease: u8, role: Role) -> [Change<PeerIndex>; 2] {
    let active = gateway(cluster as u32);
    let cluster = CLUSTERS[cluster];
    [
        Change::Link { cluster, gateways: vec![active], active },
        Change::Lease { lease: contract(lease), cluster, role, left: HOURS },
    ]
}

fn table(changes: &[Change<PeerIndex>]) -> AddressTable {
    let mut table = AddressTable::new([7; 16]);
    assert_eq!(table.apply(0, changes), []);
    table
}

fn udp(source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let mut packet = vec![0; 28];
    packet[..10].copy_from_slice(&[0x45, 0, 0, 28, 0, 7, 0x40, 0, 64, 17]);
    packet[12..16].copy_from_slice(&source.octets());
    packet[16..20].copy_from_slice(&destination.octets());
    packet[24..26].copy_from_slice(&[0, 8]);
    packet
}

fn ends(packet: &[u8]) -> [Ipv4Addr; 2] {
    [12, 16].map(|at| Ipv4Addr::from(*packet[at..].first_chunk::<4>().unwrap()))
}

/// What a packet becomes on its way out, and by which lease it goes.
fn out(
    table: &AddressTable,
    source: Ipv4Addr,
    destination: Ipv4Addr,
) -> Result<([Ipv4Addr; 2], Route), DropReason> {
    let mut packet = udp(source, destination);
    let way = table.outbound(0, &mut packet, Checksum::Complete)?;
    Ok((ends(&packet), way.through().expect("it goes to another cluster")))
}

/// The same on its way in, from this gateway.
fn arrive(
    table: &AddressTable,
    peer: PeerIndex,
    source: Ipv4Addr,
    destination: Ipv4Addr,
) -> Result<([Ipv4Addr; 2], ContractId), DropReason> {
    let mut packet = udp(source, destination);
    let route = table.inbound(0, peer, &mut packet, Checksum::Complete)?;
    Ok((ends(&packet), route.lease))
}

const POD: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 5);
const POOL: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 5);
const GUESTS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 42, 1, 1), Ipv4Addr::new(10, 42, 1, 2)];
const GUESTS_INNER: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 200, 1, 1), Ipv4Addr::new(10, 200, 1, 2)];

/// A provider with a guest of each of two homes, which have equal ranges.
fn two_homes() -> AddressTable {
    let of = |home: usize| {
        let lease = home as u8;
        let [link, leased] = leased(home, lease, Role::Provider);
        let guest = Change::AddLocal(entry(lease, GUESTS[home], GUESTS_INNER[0]));
        [link, leased, guest, Change::AddRemote(entry(lease, POOL, POOL))]
    };
    table(&[of(0), of(1)].concat())
}

#[test]
fn two_homes_with_equal_ranges_are_told_apart_by_their_guests() {
    let table = two_homes();
    for (home, guest) in GUESTS.into_iter().enumerate() {
        let (ends, route) = out(&table, guest, POOL).unwrap();
        assert_eq!(ends, [GUESTS_INNER[0], POOL]);
        let expected = Route { lease: contract(home as u8), peer: gateway(home as u32) };
        assert_eq!(route, expected);
        let back = arrive(&table, gateway(home as u32), POOL, GUESTS_INNER[0]);
        assert_eq!(back, Ok(([POOL, guest], contract(home as u8))));
    }
    assert_eq!(out(&table, POD, POOL), Err(DropReason::Destination), "no guest");
    assert_eq!(out(&table, GUESTS[0], GUESTS[1]), Err(DropReason::Destination));
    assert_eq!(arrive(&table, gateway(9), POOL, GUESTS_INNER[0]), Err(DropReason::Source));
    assert_eq!(arrive(&table, gateway(0), POD, GUESTS_INNER[0]), Err(DropReason::Source));
}

#[test]
fn two_leases_of_one_home_share_its_pods_and_not_their_guests() {
    let of = |lease: u8| {
        let [link, leased] = leased(0, lease, Role::Consumer);
        let (guest, inner) = (GUESTS_INNER[lease as usize], GUESTS_INNER[lease as usize]);
        let own = Change::AddLocal(entry(lease, POD, POOL));
        [link, leased, own, Change::AddRemote(entry(lease, guest, inner))]
    };
    let mut table = table(&[of(0), of(1)].concat());
    for lease in 0..2 {
        let guest = GUESTS_INNER[lease as usize];
        let (ends, route) = out(&table, POD, guest).unwrap();
        assert_eq!((ends, route.lease), ([POOL, guest], contract(lease)));
        let back = arrive(&table, gateway(0), guest, POOL);
        assert_eq!(back, Ok(([guest, POD], contract(lease))));
    }
    let taken = Change::AddRemote(entry(1, GUESTS_INNER[0], GUESTS[0]));
    assert_eq!(table.apply(0, &[taken]), [(0, Refused::Taken(GUESTS_INNER[0].into()))]);
    let taken = Change::AddRemote(entry(1, GUESTS[0], GUESTS_INNER[0]));
    assert_eq!(table.apply(0, &[taken]), [(0, Refused::Taken(GUESTS_INNER[0].into()))]);
}

#[test]
fn another_gateway_takes_over_by_one_change() {
    let mut table = two_homes();
    let cluster = CLUSTERS[0];
    let link = |gateways: &[u32], active| {
        let gateways = gateways.iter().copied().map(gateway).collect();
        Change::Link { cluster, gateways, active: gateway(active) }
    };
    assert_eq!(table.apply(0, &[link(&[0, 5], 5)]), []);
    assert_eq!(out(&table, GUESTS[0], POOL).unwrap().1.peer, gateway(5));
    for number in [0, 5] {
        assert!(arrive(&table, gateway(number), POOL, GUESTS_INNER[0]).is_ok(), "of the link");
    }
    assert_eq!(table.apply(0, &[link(&[], 5)]), []);
    assert!(arrive(&table, gateway(0), POOL, GUESTS_INNER[0]).is_err(), "of the link no more");
    assert_eq!(table.apply(0, &[link(&[1], 5)]), [(0, Refused::GatewayOfOther(cluster))]);
}

#[test]
fn an_address_and_its_alias_are_one_on_the_way() {
    let mut table = two_homes();
    let alias = |lease| Change::AddRemote(entry(lease, POD, POOL));
    assert_eq!(table.apply(0, &[alias(0)]), []);
    for dialed in [POOL, POD] {
        assert_eq!(out(&table, GUESTS[0], dialed).unwrap().0, [GUESTS_INNER[0], POOL]);
    }
    assert!(out(&table, GUESTS[1], POD).is_err(), "in the scope of one guest alone");
    let from =
        |table: &AddressTable| arrive(table, gateway(0), POOL, GUESTS_INNER[0]).unwrap().0[0];
    assert_eq!(from(&table), POOL, "the first name");
    let remove = |local: Ipv4Addr| {
        let (lease, local) = (contract(0), local.into());
        Change::RemoveRemote { lease, local }
    };
    assert_eq!(table.apply(0, &[remove(POOL)]), []);
    assert_eq!(from(&table), POD);
    assert_eq!(table.apply(0, &[remove(POD)]), []);
    assert!(arrive(&table, gateway(0), POOL, GUESTS_INNER[0]).is_err());
}

#[test]
fn what_is_over_has_no_address_and_leaves_room() {
    let mut table = two_homes();
    let left = Duration::from_secs(5);
    let (cluster, role) = (CLUSTERS[0], Role::Provider);
    let again = Change::Lease { lease: contract(0), cluster, role, left };
    assert_eq!(table.apply(1_000, &[again]), []);
    let mut packet = udp(GUESTS[0], POOL);
    let unchanged = packet.clone();
    let late = table.outbound(6_000, &mut packet, Checksum::Complete);
    assert_eq!((late, &packet), (Err(DropReason::Ended), &unchanged));
    assert!(table.outbound(5_999, &mut packet, Checksum::Complete).is_ok());
    // Another lease gets the guest's address.
    let [_, leased] = leased(1, 7, Role::Provider);
    let guest = Change::AddLocal(entry(7, GUESTS[0], GUESTS_INNER[1]));
    let early = table.apply(5_999, &[leased.clone(), guest.clone()]);
    assert_eq!(early, [(1, Refused::Taken(GUESTS[0].into()))]);
    assert_eq!(table.apply(6_000, &[leased, guest]), []);
    assert!(!table.has_lease(contract(0)));
    let gone = Change::AddLocal(entry(0, GUESTS[0], GUESTS_INNER[0]));
    assert_eq!(table.apply(6_000, &[gone]), [(0, Refused::UnknownLease(contract(0)))]);
}

#[test]
fn a_lease_takes_no_guest_from_another() {
    let mut table = two_homes();
    let local = GUESTS[1].into();
    assert_eq!(table.apply(0, &[Change::RemoveLocal { lease: contract(0), local }]), []);
    assert!(out(&table, GUESTS[1], POOL).is_ok(), "it is of the other lease");
    assert!(arrive(&table, gateway(1), POOL, GUESTS_INNER[0]).is_ok());
}

#[test]
fn changes_that_cannot_be_are_refused_one_by_one() {
    let mut table = two_homes();
    let v6 = std::net::Ipv6Addr::LOCALHOST.into();
    let mixed = Entry { lease: contract(0), local: v6, inner: POOL.into() };
    let (lease, left) = (contract(0), HOURS);
    let other = Change::Lease { lease, cluster: CLUSTERS[1], role: Role::Provider, left };
    let unknown = ClusterId([9; 32]);
    let nowhere =
        Change::Lease { lease: contract(9), cluster: unknown, role: Role::Provider, left };
    let good = Change::AddRemote(entry(0, POD, POD));
    let refused = table.apply(0, &[Change::AddRemote(mixed), other, good, nowhere]);
    let expected = [
        (0, Refused::Versions { local: v6, inner: POOL.into() }),
        (1, Refused::OtherLease(lease)),
        (3, Refused::UnknownCluster(unknown)),
    ];
    assert_eq!(refused, expected);
    assert!(out(&table, GUESTS[0], POD).is_ok(), "the others are made");
    assert_eq!(table.apply(0, &[Change::RemoveLink(CLUSTERS[0])]), []);
    assert!(!table.has_lease(lease) && table.has_lease(contract(1)));
    assert!(out(&table, GUESTS[0], POOL).is_err());
}
