//! Ranges of the other side's addresses, for guests of two homes that have equal ones.

use proptest::prelude::*;

use super::*;

const LOCAL: &str = "10.200.0.0/16";
const INNER: &str = "10.99.0.0/16";

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn range(lease: u8, local: &str, inner: &str) -> RangeEntry {
    RangeEntry { lease: contract(lease), local: net(local), inner: net(inner) }
}

/// A provider with a guest of each of two homes; the one's pods have these ranges, and the other's
/// the same inner one under another local name.
fn two_homes_with_ranges() -> AddressTable {
    let of = |home: usize, local| {
        let lease = home as u8;
        let [link, leased] = leased(home, lease, Role::Provider);
        let guest = Change::AddLocal(entry(lease, GUESTS[home], GUESTS_INNER[0]));
        [link, leased, guest, Change::AddRemoteRange(range(lease, local, INNER))]
    };
    table(&[of(0, LOCAL), of(1, "10.201.0.0/16")].concat())
}

fn refused(table: &mut AddressTable, change: Change<PeerIndex>) -> Option<Refused> {
    table.apply(0, &[change]).pop().map(|(_, why)| why)
}

#[test]
fn two_homes_with_equal_ranges_are_told_apart_by_the_guest() {
    let mut table = two_homes_with_ranges();
    let same = Change::AddRemoteRange(range(1, LOCAL, "10.98.0.0/16"));
    assert_eq!(refused(&mut table, same), None, "of another lease");
    let (dialed, inner) = (Ipv4Addr::new(10, 200, 3, 4), Ipv4Addr::new(10, 99, 3, 4));
    let of_other = Ipv4Addr::new(10, 98, 3, 4);
    for (home, inner, name) in [(0, inner, dialed), (1, of_other, dialed)] {
        let (ends, route) = out(&table, GUESTS[home], dialed).unwrap();
        assert_eq!(ends, [GUESTS_INNER[0], inner]);
        let expected = Route { lease: contract(home as u8), peer: gateway(home as u32) };
        assert_eq!(route, expected);
        let back = arrive(&table, gateway(home as u32), inner, GUESTS_INNER[0]);
        assert_eq!(back, Ok(([name, GUESTS[home]], contract(home as u8))));
    }
    let alike = arrive(&table, gateway(1), inner, GUESTS_INNER[0]).unwrap();
    assert_eq!(alike.0, [Ipv4Addr::new(10, 201, 3, 4), GUESTS[1]], "as the other lease says");
    assert_eq!(arrive(&table, gateway(0), of_other, GUESTS_INNER[0]), Err(DropReason::Source));
    assert_eq!(out(&table, POD, dialed), Err(DropReason::Destination), "no guest");
}

#[test]
fn a_range_goes_alone_or_with_its_lease() {
    let (dialed, inner) = (Ipv4Addr::new(10, 200, 3, 4), Ipv4Addr::new(10, 99, 3, 4));
    let remove = |local| Change::RemoveRemoteRange { lease: contract(0), local: net(local) };
    let mut table = two_homes_with_ranges();
    assert_eq!(refused(&mut table, remove("10.200.3.0/24")), None);
    assert!(out(&table, GUESTS[0], dialed).is_ok(), "a part of it is no range");
    assert_eq!(refused(&mut table, remove(LOCAL)), None);
    assert_eq!(out(&table, GUESTS[0], dialed), Err(DropReason::Destination));
    assert_eq!(arrive(&table, gateway(0), inner, GUESTS_INNER[0]), Err(DropReason::Source));
    // A lease that takes the place of another has none of its ranges.
    let mut table = two_homes_with_ranges();
    assert_eq!(refused(&mut table, Change::RemoveLease(contract(0))), None);
    let unknown = Some(Refused::UnknownLease(contract(0)));
    assert_eq!(refused(&mut table, remove(LOCAL)), unknown);
    let again = Change::AddRemoteRange(range(0, LOCAL, INNER));
    assert_eq!(refused(&mut table, again), unknown);
    let [_, leased] = leased(0, 7, Role::Provider);
    let guest = Change::AddLocal(entry(7, GUESTS[0], GUESTS_INNER[0]));
    assert_eq!(table.apply(0, &[leased, guest]), []);
    assert_eq!(out(&table, GUESTS[0], dialed), Err(DropReason::Destination));
}

#[test]
fn nothing_passes_by_a_range_after_the_end_of_its_lease() {
    let table = two_homes_with_ranges();
    let (dialed, inner) = (Ipv4Addr::new(10, 200, 3, 4), Ipv4Addr::new(10, 99, 3, 4));
    let end_ms = HOURS.as_millis() as u64;
    for (mono_ms, expected) in [(end_ms - 1, None), (end_ms, Some(DropReason::Ended))] {
        let mut packet = udp(GUESTS[0], dialed);
        let sent = table.outbound(mono_ms, &mut packet, Checksum::Complete);
        assert_eq!(sent.err(), expected);
        let mut packet = udp(inner, GUESTS_INNER[0]);
        let came = table.inbound(mono_ms, gateway(0), &mut packet, Checksum::Complete);
        assert_eq!(came.err(), expected);
    }
}

#[test]
fn guests_are_no_range() {
    let [link, leased] = leased(0, 0, Role::Consumer);
    let mut table = table(&[link, leased]);
    let guests = Change::AddRemoteRange(range(0, LOCAL, INNER));
    assert_eq!(refused(&mut table, guests), Some(Refused::RangeOfGuests(contract(0))));
}

#[test]
fn single_addresses_and_ranges_do_not_contradict_each_other() {
    let mut table = two_homes_with_ranges();
    let [in_local, in_inner] = [[10, 200, 3, 4], [10, 99, 3, 4]].map(Ipv4Addr::from);
    let as_by_range = Change::AddRemote(entry(0, in_local, in_inner));
    assert_eq!(refused(&mut table, as_by_range), None);
    let otherwise = Change::AddRemote(entry(0, Ipv4Addr::new(10, 200, 3, 5), POD));
    let taken = Refused::Taken(Ipv4Addr::new(10, 200, 3, 5).into());
    assert_eq!(refused(&mut table, otherwise), Some(taken));
    // An alias is dialed; what comes has the name that the range gives.
    assert_eq!(refused(&mut table, Change::AddRemote(entry(0, POD, in_inner))), None);
    assert_eq!(out(&table, GUESTS[0], POD).unwrap().0[1], in_inner);
    let came = arrive(&table, gateway(0), in_inner, GUESTS_INNER[0]).unwrap();
    assert_eq!(came.0[0], in_local);
    // What is there by its own name stays, whatever range comes.
    let around = Change::AddRemoteRange(range(0, "10.42.0.0/24", "10.97.0.0/24"));
    assert_eq!(refused(&mut table, around), Some(Refused::Taken(POD.into())));
    assert_eq!(out(&table, GUESTS[0], POD).unwrap().0[1], in_inner);
}

/// Up to eight ranges without host bits, which may overlap.
fn ranges() -> impl Strategy<Value = Vec<RangeEntry>> {
    let one = (any::<[u8; 2]>(), 10..=32_u8).prop_map(|(numbers, length)| {
        let net = |first: u8, number: u8| {
            let address = Ipv4Addr::new(first, number, number, 0x80 ^ number);
            IpNet::new(address.into(), length).unwrap().trunc()
        };
        let [local, inner] = [net(10, numbers[0]), net(11, numbers[1])];
        RangeEntry { lease: contract(0), local, inner }
    });
    proptest::collection::vec(one, 1..=limits::RANGES)
}

fn place_in(range: IpNet, place: u32) -> Ipv4Addr {
    let IpNet::V4(range) = range else { panic!("of version 4") };
    Ipv4Addr::from_bits(range.addr().to_bits() | (place & range.hostmask().to_bits()))
}

proptest! {
    #[test]
    fn what_passes_is_in_a_range_and_has_the_same_place_there(
        wanted in ranges(),
        place in any::<u32>(),
        // Anywhere in and around them.
        any_numbers in any::<[u8; 3]>(),
        removed in any::<proptest::sample::Index>(),
    ) {
        let [link, leased] = leased(0, 0, Role::Provider);
        let guest = Change::AddLocal(entry(0, GUESTS[0], GUESTS_INNER[0]));
        let mut table = table(&[link, leased, guest]);
        let mut made = Vec::new();
        for range in wanted {
            match refused(&mut table, Change::AddRemoteRange(range)) {
                None => made.push(range),
                Some(Refused::Overlap { .. }) => {}
                Some(why) => prop_assert!(false, "{}", why),
            }
        }
        for first in [10, 11] {
            let [one, two, three] = any_numbers;
            let address = Ipv4Addr::new(first, one, two, three);
            let of = |pick: fn(&RangeEntry) -> IpNet| {
                made.iter().any(|range| pick(range).contains(&IpAddr::from(address)))
            };
            let sent = out(&table, GUESTS[0], address);
            prop_assert_eq!(sent.is_ok(), of(|range| range.local), "{:?}", sent);
            let came = arrive(&table, gateway(0), address, GUESTS_INNER[0]);
            prop_assert_eq!(came.is_ok(), of(|range| range.inner), "{:?}", came);
        }
        for range in &made {
            let [local, inner] = [range.local, range.inner].map(|net| place_in(net, place));
            let (ends, _) = out(&table, GUESTS[0], local).unwrap();
            prop_assert_eq!(ends, [GUESTS_INNER[0], inner]);
            let (ends, _) = arrive(&table, gateway(0), inner, GUESTS_INNER[0]).unwrap();
            prop_assert_eq!(ends, [local, GUESTS[0]]);
        }
        let gone = *removed.get(&made);
        let remove = Change::RemoveRemoteRange { lease: gone.lease, local: gone.local };
        prop_assert_eq!(refused(&mut table, remove), None);
        for range in &made {
            let [local, inner] = [range.local, range.inner].map(|net| place_in(net, place));
            prop_assert_eq!(out(&table, GUESTS[0], local).is_ok(), *range != gone);
            let came = arrive(&table, gateway(0), inner, GUESTS_INNER[0]);
            prop_assert_eq!(came.is_ok(), *range != gone);
        }
    }
}
