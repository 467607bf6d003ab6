//! Guests of two providers that reach each other through their home.

use super::*;
use crate::packet::ICMP;

const SHOP: Group = Group([1; 16]);
const BANK: Group = Group([2; 16]);
/// A guest at the other provider in another group.
const BANKER: Ipv4Addr = Ipv4Addr::new(10, 200, 1, 9);

fn member(lease: u8, guest: Ipv4Addr, group: Group) -> [Change<PeerIndex>; 2] {
    let entry = entry(lease, guest, guest);
    [Change::AddRemote(entry), Change::AddMember { entry, group }]
}

fn has(lease: u8, group: Group) -> Change<PeerIndex> {
    Change::AddGroup { lease: contract(lease), group }
}

/// A home with a guest at each of two providers, and one more at the second.
fn home() -> AddressTable {
    let mut changes = Vec::new();
    for lease in 0..2 {
        changes.extend(leased(lease as usize, lease, Role::Consumer));
        changes.extend(member(lease, GUESTS_INNER[lease as usize], SHOP));
        changes.push(has(lease, SHOP));
        changes.push(Change::AddLocal(entry(lease, POD, POOL)));
    }
    changes.extend(member(1, BANKER, BANK));
    changes.push(has(1, BANK));
    table(&changes)
}

/// What becomes of a packet that comes from the provider of the first lease or of the second, and
/// goes out again.
fn through(
    table: &AddressTable,
    from: u32,
    [source, destination]: [Ipv4Addr; 2],
) -> Result<([Ipv4Addr; 2], Route), DropReason> {
    let ([source, destination], _) = arrive(table, gateway(from), source, destination)?;
    out(table, source, destination)
}

#[test]
fn guests_of_two_providers_reach_each_other_through_home() {
    let table = home();
    let [one, other] = GUESTS_INNER;
    for (from, to, ends) in [(0, 1, [one, other]), (1, 0, [other, one])] {
        let route = Route { lease: contract(to), peer: gateway(to.into()) };
        assert_eq!(through(&table, from, ends), Ok((ends, route)));
        assert_eq!(through(&table, to.into(), ends), Err(DropReason::Source), "it is another's");
    }
    assert_eq!(out(&table, POD, other).unwrap().0, [POOL, other], "home's own call as ever");
}

#[test]
fn guests_meet_those_alone_whose_groups_their_lease_has() {
    let mut table = home();
    let [one, other] = GUESTS_INNER;
    assert_eq!(through(&table, 0, [one, BANKER]), Err(DropReason::Destination));
    let answer = through(&table, 1, [BANKER, one]);
    assert_eq!(answer, Err(DropReason::Source), "in the lease of the one there is no bank");
    assert_eq!(table.apply(0, &[has(0, BANK)]), []);
    assert!(through(&table, 0, [one, BANKER]).is_ok() && through(&table, 1, [BANKER, one]).is_ok());
    let moved = Change::AddMember { entry: entry(1, other, other), group: BANK };
    let gone = Change::RemoveGroup { lease: contract(0), group: BANK };
    assert_eq!(table.apply(0, &[moved, gone]), []);
    assert!(
        through(&table, 0, [one, other]).is_err() && through(&table, 0, [one, BANKER]).is_err()
    );
}

#[test]
fn a_provider_speaks_for_its_own_guests_alone() {
    let table = home();
    let [one, other] = GUESTS_INNER;
    for forged in [POOL, other, BANKER, POD, GUESTS[0]] {
        let said = arrive(&table, gateway(0), forged, one);
        assert_eq!(said, Err(DropReason::Source), "{forged}");
        assert_eq!(arrive(&table, gateway(0), forged, other), Err(DropReason::Source), "{forged}");
    }
}

#[test]
fn errors_about_what_was_sent_go_back_through_home() {
    let table = home();
    let [one, other] = GUESTS_INNER;
    let mut error = udp(other, one);
    error.truncate(20);
    (error[3], error[9]) = (56, ICMP);
    let quoted = udp(one, other);
    let message = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
    error.extend(message);
    assert!(table.inbound(0, gateway(1), &mut error, Checksum::Complete).is_ok());
    let way = table.outbound(0, &mut error, Checksum::Complete).unwrap();
    assert_eq!(way.through().unwrap().lease, contract(0));
    assert_eq!((ends(&error), ends(&error[28..])), ([other, one], [one, other]));
    // About a packet to somebody else, whom the one does not reach.
    error[44..48].copy_from_slice(&BANKER.octets());
    let refused = table.outbound(0, &mut error, Checksum::Complete);
    assert_eq!(refused.map(|_| ()), Err(DropReason::Quotation));
    // And about one that the other's own neighbour has sent.
    error[40..44].copy_from_slice(&BANKER.octets());
    let refused = table.inbound(0, gateway(1), &mut error, Checksum::Complete);
    assert_eq!(refused.map(|_| ()), Err(DropReason::Quotation));
}

#[test]
fn nobody_meets_a_guest_of_a_lease_that_is_over() {
    let [one, other] = GUESTS_INNER;
    for over in [Change::RemoveLease(contract(1)), Change::RemoveLink(CLUSTERS[1])] {
        let mut table = home();
        assert_eq!(table.apply(0, &[over]), []);
        assert_eq!(through(&table, 0, [one, other]), Err(DropReason::Destination));
        // Another lease gets its number, and nothing else of it.
        assert_eq!(table.apply(0, &leased(1, 7, Role::Consumer)), []);
        assert_eq!(table.apply(0, &member(7, other, BANK)), []);
        assert_eq!(through(&table, 0, [one, other]), Err(DropReason::Destination));
        assert_eq!(through(&table, 1, [other, one]), Err(DropReason::Destination));
    }
    let table = home();
    let mut late = udp(one, other);
    let end_ms = HOURS.as_millis() as u64;
    let at = |ms, packet: &mut Vec<u8>| table.outbound(ms, packet, Checksum::Complete).map(|_| ());
    assert_eq!(at(end_ms, &mut late), Err(DropReason::Ended));
    assert_eq!(at(end_ms - 1, &mut late), Ok(()));
}

#[test]
fn a_guest_that_cannot_be_a_member_is_refused() {
    let mut table = home();
    let [one, other] = GUESTS_INNER;
    let add = |lease, local, inner| {
        [Change::AddMember { entry: entry(lease, local, inner), group: SHOP }]
    };
    assert_eq!(table.apply(0, &add(1, one, POD)), [(0, Refused::Taken(one.into()))]);
    assert_eq!(table.apply(0, &add(1, POD, one)), [(0, Refused::Taken(one.into()))]);
    assert_eq!(table.apply(0, &add(9, POD, POD)), [(0, Refused::UnknownLease(contract(9)))]);
    assert_eq!(table.apply(0, &leased(0, 5, Role::Provider)), []);
    let not_home = Refused::NotHome(contract(5));
    assert_eq!(table.apply(0, &add(5, POD, POD)), [(0, not_home)]);
    assert_eq!(table.apply(0, &[has(5, SHOP)]), [(0, not_home)]);
    let remove = |lease| Change::RemoveMember { lease: contract(lease), local: other.into() };
    assert_eq!(table.apply(0, &[remove(0)]), []);
    assert!(through(&table, 0, [one, other]).is_ok(), "it is of another lease");
    assert_eq!(table.apply(0, &[remove(1)]), []);
    assert!(through(&table, 0, [one, other]).is_err());
}
