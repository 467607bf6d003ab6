//! Guests that are gone: who sends to one is to be told so, and nobody else.

use super::*;

const AT_HOME: Ipv4Addr = Ipv4Addr::new(10, 99, 9, 1);
const GONE: Ipv4Addr = Ipv4Addr::new(10, 99, 9, 2);
const HERE: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 42, 0, 5), Ipv4Addr::new(10, 42, 0, 6)];

fn gone(lease: u8, local: Ipv4Addr, inner: Ipv4Addr) -> Change<PeerIndex> {
    Change::AddGone(entry(lease, local, inner))
}

#[test]
fn pods_of_home_and_guests_elsewhere_are_told_of_a_guest_that_is_gone() {
    let [one, other] = GUESTS_INNER;
    let mut changes = Vec::new();
    for lease in 0..2 {
        changes.extend(leased(lease as usize, lease, Role::Consumer));
    }
    changes.push(Change::AddLocal(entry(0, POD, POOL)));
    changes.push(Change::AddRemote(entry(0, one, one)));
    let mut table = table(&changes);
    assert_eq!(out(&table, POD, other), Err(DropReason::Destination), "it is not known yet");
    assert_eq!(arrive(&table, gateway(0), one, other), Err(DropReason::Destination));
    assert_eq!(table.apply(0, &[gone(1, other, other)]), []);
    assert_eq!(out(&table, POD, other), Err(DropReason::Gone), "whoever it is who calls");
    assert_eq!(table.lease_of_outbound(&udp(POD, other)), Some(contract(1)));
    assert_eq!(arrive(&table, gateway(0), one, other), Err(DropReason::Gone));
    assert_eq!(arrive(&table, gateway(0), POD, other), Err(DropReason::Source), "no guest calls");
    let late = table.outbound(7_200_000, &mut udp(POD, other), Checksum::Complete);
    assert_eq!(late, Err(DropReason::Ended));
    // Another guest has its address.
    let back = Change::RemoveGone(entry(1, other, other));
    let more = [back, Change::AddRemote(entry(1, other, other))];
    assert_eq!(table.apply(0, &more), []);
    assert_eq!(out(&table, POD, other), Err(DropReason::Source), "it may not call that one");
    assert_eq!(table.apply(0, &[gone(1, AT_HOME, AT_HOME)]), []);
    assert_eq!(table.apply(0, &[Change::RemoveLease(contract(1))]), []);
    assert_eq!(out(&table, POD, AT_HOME), Err(DropReason::Destination), "its lease is over");
}

#[test]
fn home_and_other_guests_are_told_of_a_guest_that_ran_here() {
    let leases = [leased(0, 0, Role::Provider), leased(1, 1, Role::Provider)].concat();
    let guests = [
        Change::AddLocal(entry(0, HERE[0], AT_HOME)),
        // Of another home, which calls it like that one.
        Change::AddLocal(entry(1, HERE[1], GONE)),
    ];
    let [local, inner] = ["10.200.0.0/16", "10.99.0.0/16"].map(|net| net.parse().unwrap());
    let range = |lease| Change::AddRemoteRange(RangeEntry { lease: contract(lease), local, inner });
    let mut table = table(&[&leases[..], &guests, &[range(0), range(1)]].concat());
    let called = Ipv4Addr::new(10, 200, 9, 2);
    let pod_at_home = Ipv4Addr::new(10, 99, 3, 4);
    assert!(out(&table, HERE[0], called).is_ok(), "home knows who that is");
    assert_eq!(arrive(&table, gateway(0), pod_at_home, GONE), Err(DropReason::Source));
    assert_eq!(table.apply(0, &[gone(0, GONE, GONE)]), []);
    assert_eq!(out(&table, HERE[0], called), Err(DropReason::Gone));
    assert_eq!(arrive(&table, gateway(0), pod_at_home, GONE), Err(DropReason::Gone));
    assert_eq!(table.lease_of_inbound(gateway(0), &udp(pod_at_home, GONE)), Some(contract(0)));
    assert!(arrive(&table, gateway(1), pod_at_home, GONE).is_ok(), "the other home's lives");
    assert_eq!(table.apply(0, &[Change::RemoveGone(entry(1, GONE, GONE))]), []);
    assert_eq!(out(&table, HERE[0], called), Err(DropReason::Gone), "it is another lease's");
    assert_eq!(table.apply(0, &[Change::RemoveGone(entry(0, GONE, GONE))]), []);
    assert!(out(&table, HERE[0], called).is_ok());
}
