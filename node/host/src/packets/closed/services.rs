//! Services have other addresses here than those that a pod knows: both are written for each other in
//! what it sends and gets. Nothing is remembered, so that it must know none by its address here.

use std::net::{IpAddr, Ipv4Addr};

use crate::packets::errors::KINDS_V4;
use crate::packets::expression::{Expression, Rewritten, Verdict, is_kind, is_protocol};
use crate::packets::frames::{AddressMap, FrameBase, FrameChain, FrameTable};
use crate::packets::protocols::{ICMP, ICMP_TYPE, IPV4};
use crate::packets::rule::{rule, said};
use crate::packets::table::{PacketRule, Side};
use crate::reach::Closed;

/// Behind the rules for what comes, and before those for what leaves: these speak of what is on the
/// wire.
const BETWEEN: i32 = 0;

/// Of Services, by what the pod calls them and by what they have here.
const HERE: &str = "services_here";
const CALLED: &str = "services_called";

/// One way by the device, in which one address of a packet is written anew.
struct Way {
    chain: &'static str,
    side: Side,
    /// What the address is looked up in.
    map: &'static str,
    address: Rewritten,
    /// The one that is looked up there as well, of the packet that an error is about.
    in_error: Rewritten,
}

const WAYS: [Way; 2] = [
    Way {
        chain: "to_services",
        side: Side::Out,
        map: HERE,
        address: Rewritten::Destination,
        in_error: Rewritten::ErrorSource,
    },
    Way {
        chain: "from_services",
        side: Side::In,
        map: CALLED,
        address: Rewritten::Source,
        in_error: Rewritten::ErrorDestination,
    },
];

/// Adds to a table in a pod's own namespace, at its device, what does so.
pub(super) fn translate(table: &mut FrameTable, wanted: &Closed, device: &str) {
    // What is the same in both needs nothing. Who answers the node, asks for names, or is asked itself,
    // must mean those: home's addresses may be theirs.
    let is_another = |address: &Ipv4Addr| {
        let address = IpAddr::from(*address);
        let others = wanted.node.iter().chain(&wanted.own).chain(&wanted.names);
        others.into_iter().all(|other| *other != address)
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
        let to_four = Verdict::Goto(format!("{}_four", way.chain));
        let base = FrameBase { accepts: true, ..FrameBase::dropping(device, way.side, BETWEEN) };
        let rules = vec![rule("of this family", is_kind(IPV4), to_four)];
        let chains = [
            (way.chain.to_owned(), FrameChain { base: Some(base), rules }),
            (format!("{}_four", way.chain), FrameChain::plain(way.rules())),
        ];
        table.chains.extend(chains);
    }
}

impl Way {
    /// Of an error, the packet that it is about has its addresses the other way around. That one
    /// comes first, since the rest is not read any more once it is known to be none.
    fn rules(&self) -> Vec<PacketRule> {
        let written = |what: Rewritten| {
            [what.load(), Expression::ByMap(self.map.to_owned()), Expression::Write(what)]
        };
        let of_error = |kind: &u8| {
            let is = [ICMP_TYPE, Expression::Is(vec![*kind])];
            let words = is_protocol(ICMP).into_iter().chain(is).chain(written(self.in_error));
            said("an error about a Service", words)
        };
        let mut rules: Vec<_> = KINDS_V4.iter().map(of_error).collect();
        rules.push(said("an address of a Service", written(self.address)));
        rules
    }
}
