//! What is offered grants what is asked for if it contains it; and what a reader makes of egress that
//! knows nothing of it.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use mercato_protocol::codec::{CodecError, Fields, Known, Message as _, Reader, Wire as _, Writer};
use mercato_protocol::egress::{Egress, EgressLack, EgressOffer, Outside, OutsideError};
use mercato_protocol::id::Digest;
use mercato_protocol::limits;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{malformed, samples};

/// Ranges of 203.0.128.0/26, so small that all their addresses can be counted.
fn ranges() -> impl Strategy<Value = Vec<IpNet>> {
    let range = (0..64u8, 26..=32u8).prop_map(|(host, length)| {
        IpNet::V4(Ipv4Net::new(Ipv4Addr::new(203, 0, 128, host), length).unwrap().trunc())
    });
    vec(range, 1..6)
}

fn has(ranges: &[IpNet], host: u8) -> bool {
    let address = IpAddr::from([203, 0, 128, host]);
    ranges.iter().any(|range| range.contains(&address))
}

proptest! {
    /// Against each address by itself.
    #[test]
    fn grants_is_containment(own in ranges(), asked in ranges()) {
        let offer = EgressOffer::Named(Outside::of(own.clone()).unwrap());
        let asks = Egress::Named(Outside::of(asked.clone()).unwrap());
        let lacks = (0..64).find(|host| has(&asked, *host) && !has(&own, *host));
        prop_assert_eq!(offer.grants(&asks), lacks.is_none());
        // What lacks is within what was asked for, and is not offered as a whole.
        if let Some(EgressLack::Range(range)) = offer.lack(&asks) {
            prop_assert!((0..64).any(|host| has(&[range], host) && !has(&own, host)));
            prop_assert!((0..64).all(|host| !has(&[range], host) || has(&asked, host)));
        }
        prop_assert!(EgressOffer::Internet.grants(&asks));
        prop_assert!(offer.grants(&Egress::None));
        prop_assert!(!offer.grants(&Egress::Internet));
    }

    /// Whatever they are given in, ranges are in one order, and say the same addresses.
    #[test]
    fn ranges_have_one_form(own in ranges()) {
        let once = Outside::of(own.clone()).unwrap();
        let mut turned = own.clone();
        turned.reverse();
        prop_assert_eq!(&Outside::of(turned).unwrap(), &once);
        prop_assert_eq!(&Outside::of(once.ranges().to_vec()).unwrap(), &once);
        prop_assert!((0..64).all(|host| has(&own, host) == has(once.ranges(), host)));
        let mut to = Writer::default();
        once.encode(&mut to);
        let bytes = to.into_bytes();
        prop_assert_eq!(Outside::decode(&mut Reader::new(&bytes)), Ok(once));
    }
}

#[test]
fn what_is_not_offered_is_named() {
    let lack = |offer: Option<&EgressOffer>, asked: &Egress| {
        EgressOffer::lack_of(offer, asked).map(|lack| lack.to_string())
    };
    let named = |range: &str| Egress::Named(Outside::of([range.parse().unwrap()]).unwrap());
    let offer = EgressOffer::Named(samples::outside());
    assert_eq!(lack(None, &Egress::None), None);
    assert_eq!(lack(None, &Egress::Internet).unwrap(), "offers no egress");
    assert_eq!(lack(Some(&offer), &named("203.0.114.128/25")), None);
    let says = lack(Some(&offer), &named("203.0.115.0/24")).unwrap();
    assert_eq!(says, "does not offer egress to 203.0.115.0/24");
    let says = lack(Some(&offer), &Egress::Internet).unwrap();
    assert_eq!(says, "offers egress to named ranges alone");
    assert_eq!(lack(Some(&EgressOffer::Internet), &Egress::Internet), None);
}

#[test]
fn ranges_that_are_none_of_the_internet_are_refused_by_name() {
    let of = |ranges: &[&str]| {
        let ranges = ranges.iter().map(|range| range.parse().unwrap());
        Outside::of(ranges).map_err(|error| error.to_string())
    };
    assert_eq!(of(&["203.0.113.0/24"]), Err("203.0.113.0/24 is nobody's on the Internet".into()));
    let says = "203.0.114.7/24 has bits behind its prefix";
    assert_eq!(of(&["203.0.114.7/24"]), Err(says.into()));
    assert_eq!(of(&[]), Err(OutsideError::Nothing.to_string()));
    let most = |n: usize| (0..n).map(|n| IpNet::from(IpAddr::from([8, 8, n as u8, 0])));
    assert!(Outside::of(most(limits::EGRESS_RANGES)).is_ok());
    assert_eq!(Outside::of(most(limits::EGRESS_RANGES + 1)), Err(OutsideError::TooMany));
}

/// A release that knows no extension reads a struct so.
fn read_by_an_older_one(bytes: &[u8]) -> Result<(), CodecError> {
    let mut reader = Reader::new(bytes);
    Fields::read_with(&mut reader, |_, _, _| Ok(Known::Unknown)).map(|_| ())
}

#[test]
fn who_does_not_know_egress_refuses_such_terms_and_reads_such_advertisements() {
    for (_, terms) in samples::egress_terms() {
        let bytes = malformed::unchecked(&terms);
        assert_eq!(read_by_an_older_one(&bytes), Err(CodecError::CriticalExtension(3)));
    }
    for (_, body) in samples::egress_bodies() {
        let bytes = body.to_bytes().unwrap();
        assert_eq!(read_by_an_older_one(&bytes), Ok(()));
        // The bytes are those that the header names, read by whomever.
        assert_ne!(Digest::of(&bytes), Digest::of(&samples::small_body().to_bytes().unwrap()));
    }
    // Without, both are the bytes that they were.
    assert_eq!(malformed::unchecked(&samples::terms())[1], 1);
    assert_eq!(samples::small_body().to_bytes().unwrap()[1], 1);
}

#[test]
fn one_that_nobody_knows_is_passed_over_beside_one_that_is_known() {
    let [_, (_, terms)] = samples::egress_terms();
    let mut to = Writer::default();
    to.array(2);
    to.uint(2);
    to.map(0);
    let said = [(3, true, to.into_bytes()), (9, false, vec![1, 2, 3])];
    let bytes = malformed::with_extensions(&malformed::unchecked(&samples::terms()), &said);
    let mut reader = Reader::new(&bytes);
    let read = mercato_protocol::contract::Terms::decode(&mut reader).unwrap();
    assert_eq!(read, terms);
}
