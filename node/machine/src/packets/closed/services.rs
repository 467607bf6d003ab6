//! Services have other addresses here than those that a pod knows: both are written for each other in
//! what it sends and gets. Nothing is remembered, so that it must know none by its address here.

use std::net::{IpAddr, Ipv4Addr};

use super::way::Way;
use crate::closed::Closed;
use crate::packets::expression::Rewritten;
use crate::packets::frames::{AddressMap, FrameTable};
use crate::packets::table::Side;

/// Of Services, by what the pod calls them and by what they have here.
const HERE: &str = "services_here";
const CALLED: &str = "services_called";

const WAYS: [Way; 2] = [
    Way {
        chain: "to_services",
        side: Side::Out,
        map: HERE,
        address: Rewritten::Destination,
        in_error: Rewritten::ErrorSource,
        in_arp: None,
        whose: "a Service",
    },
    Way {
        chain: "from_services",
        side: Side::In,
        map: CALLED,
        address: Rewritten::Source,
        in_error: Rewritten::ErrorDestination,
        in_arp: None,
        whose: "a Service",
    },
];

/// Adds to a table in a pod's own namespace, at its device, what does so.
pub(super) fn translate(table: &mut FrameTable, wanted: &Closed, device: &str) {
    // What is the same in both needs nothing. Who answers the node, asks for names, or is asked itself,
    // must mean those: home's addresses may be theirs.
    let is_another = |address: &Ipv4Addr| {
        let address = IpAddr::from(*address);
        let others = wanted.node.iter().chain(&wanted.own).chain(&wanted.names).copied();
        others.chain(wanted.called.map(IpAddr::from)).all(|other| other != address)
    };
    let all = wanted.services.iter();
    let all = all.filter(|(called, here)| called != here && is_another(called));
    let here: AddressMap = all.map(|(called, here)| (*called, *here)).collect();
    if here.is_empty() {
        return;
    }
    let called = here.iter().map(|(called, here)| (*here, *called)).collect();
    table.maps.extend([(HERE.to_owned(), here), (CALLED.to_owned(), called)]);
    for way in WAYS {
        way.add_to(table, device);
    }
}
