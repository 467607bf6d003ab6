//! Guests of one lease in one cluster, which call each other as home knows them.

use super::*;
use crate::too_big::too_big;

const HERE: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 42, 0, 5), Ipv4Addr::new(10, 42, 0, 6)];
const AT_HOME: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 9, 1), Ipv4Addr::new(10, 99, 9, 2)];
const CALLED: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 200, 9, 1), Ipv4Addr::new(10, 200, 9, 2)];
const OF_ANOTHER: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 7);

/// A provider with two guests of one lease, and one of another.
fn provider() -> Vec<Change<PeerIndex>> {
    let guests = [0, 1].map(|nth| Change::AddLocal(entry(0, HERE[nth], AT_HOME[nth])));
    let other = Change::AddLocal(entry(1, OF_ANOTHER, Ipv4Addr::new(10, 99, 9, 3)));
    let leases = [leased(0, 0, Role::Provider), leased(1, 1, Role::Provider)].concat();
    [&leases[..], &guests, &[other]].concat()
}

/// The same where home's addresses are called otherwise.
fn translating() -> AddressTable {
    let [local, inner] = ["10.200.0.0/16", "10.99.0.0/16"].map(|net| net.parse().unwrap());
    let range = Change::AddRemoteRange(RangeEntry { lease: contract(0), local, inner });
    table(&[provider(), vec![range]].concat())
}

fn back(table: &AddressTable, from: Ipv4Addr, to: Ipv4Addr) -> Result<[Ipv4Addr; 2], DropReason> {
    let mut packet = udp(from, to);
    let way = table.outbound(0, &mut packet, Checksum::Complete)?;
    assert_eq!(way, Outbound::Back(contract(0)));
    Ok(ends(&packet))
}

#[test]
fn guests_call_each_other_and_themselves() {
    for (table, called) in [(table(&provider()), AT_HOME), (translating(), CALLED)] {
        assert_eq!(back(&table, HERE[0], called[1]), Ok([called[0], HERE[1]]));
        assert_eq!(back(&table, HERE[1], called[0]), Ok([called[1], HERE[0]]), "the answer");
        assert_eq!(back(&table, HERE[0], called[0]), Ok([called[0], HERE[0]]));
        assert_eq!(back(&table, OF_ANOTHER, called[0]), Err(DropReason::Destination));
        let late = table.outbound(7_200_000, &mut udp(HERE[0], called[1]), Checksum::Complete);
        assert_eq!(late, Err(DropReason::Ended));
    }
    // What is at home under an address of that range goes there.
    let elsewhere = Ipv4Addr::new(10, 200, 3, 4);
    assert!(out(&translating(), HERE[0], elsewhere).is_ok());
}

#[test]
fn nobody_speaks_through_the_tunnel_in_the_name_of_a_guest_here() {
    let table = translating();
    let came = arrive(&table, gateway(0), AT_HOME[1], AT_HOME[0]);
    assert_eq!(came.err(), Some(DropReason::Source));
    assert!(arrive(&table, gateway(0), Ipv4Addr::new(10, 99, 3, 4), AT_HOME[0]).is_ok());
}

#[test]
fn an_error_among_guests_quotes_what_was_sent() {
    let table = translating();
    let quote = |source, destination| {
        let mut error = too_big(&udp(source, destination), 1_280).unwrap();
        error[12..16].copy_from_slice(&HERE[1].octets());
        error[16..20].copy_from_slice(&CALLED[0].octets());
        table.outbound(0, &mut error, Checksum::Complete).map(|_| error)
    };
    let error = quote(CALLED[0], HERE[1]).unwrap();
    assert_eq!(ends(&error), [CALLED[1], HERE[0]]);
    assert_eq!(ends(&error[28..]), [HERE[0], CALLED[1]]);
    assert_eq!(quote(CALLED[0], OF_ANOTHER), Err(DropReason::Quotation));
}
