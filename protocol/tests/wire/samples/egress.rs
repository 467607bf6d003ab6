//! Examples with a way out to the Internet.

use mercato_protocol::ad::AdBody;
use mercato_protocol::contract::Terms;
use mercato_protocol::egress::{Egress, EgressOffer, Outside};

use super::{small_body, terms};

/// Ranges of both families.
pub(crate) fn outside() -> Outside {
    let ranges = ["203.0.114.0/24", "2a00:1450::/32"];
    Outside::of(ranges.map(|range| range.parse().unwrap())).unwrap()
}

/// Bodies of clusters that offer one: name and body.
pub(crate) fn egress_bodies() -> [(&'static str, AdBody); 2] {
    let body = |egress| AdBody { egress: Some(egress), ..small_body() };
    [
        ("with egress to named ranges", body(EgressOffer::Named(outside()))),
        ("with egress to the Internet", body(EgressOffer::Internet)),
    ]
}

/// Terms with one: name and terms.
pub(crate) fn egress_terms() -> [(&'static str, Terms); 2] {
    let terms = |egress| Terms { egress, ..terms() };
    [
        ("with egress to named ranges", terms(Egress::Named(outside()))),
        ("with egress to the Internet", terms(Egress::Internet)),
    ]
}
