//! What the guests of this node may do, by its rules: send by the way to other clusters, be called by
//! it, and answer this node. What conntrack knows nothing of meets no condition about connections,
//! so that such conditions only ever accept.
//!
//! A pod's own namespace has rules of its own for the same (`closed.rs`): either of them is enough.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::bounds;
use super::errors;
use super::expression::{
    Expression, Verdict, destination, is_established, is_protocol, is_reply, leads_nowhere_back,
    not_by, source,
};
use super::protocols::DESTINATION_PORT;
use super::rule::{drop_of, refusal_of, rule};
use super::scope::Scope;
use super::table::{PacketRule, Table};
use crate::family::Family;
use crate::wanted::Wanted;

pub(super) const FROM_GUEST: &str = "from_guest";

const TCP: u8 = 6;
const UDP: u8 = 17;
/// The port of name servers, and where the ports stand that a packet goes to and comes from.
const NAMES: u16 = 53;
const SOURCE_PORT: Expression = Expression::PayloadTransport { offset: 0, len: 2 };
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Of ICMPv6, who has an address, and that somebody has it (RFC 4861, section 4.3 and 4.4).
const ABOUT_NEIGHBOURS: [u8; 2] = [135, 136];
const ICMPV6_TYPE: Expression = Expression::PayloadTransport { offset: 0, len: 1 };

/// Who they are, of a family.
pub(super) fn set(wanted: &Wanted, family: Family) -> BTreeSet<IpAddr> {
    wanted.guests.iter().copied().filter(|guest| Family::of(*guest) == family).collect()
}

/// To be told names: at the port of name servers, of where they are told, by UDP and TCP.
fn questions(family: Family) -> [Vec<Expression>; 2] {
    let there = [destination(family), Expression::Lookup(Table::NAMES.to_owned())];
    let port = [DESTINATION_PORT, Expression::CmpEq(NAMES.to_be_bytes().to_vec())];
    [UDP, TCP].map(|protocol| {
        let words = of_guest(family).into_iter().chain(there.iter().cloned());
        words.chain(port.iter().cloned()).chain(is_protocol(protocol)).collect()
    })
}

/// Where they ask for names, if anywhere: nowhere, until somebody of ours listens there.
pub(super) fn names(scope: &Scope<'_>) -> BTreeMap<String, BTreeSet<IpAddr>> {
    let Some(names) = scope.names() else { return BTreeMap::new() };
    let address = Some(names.address).filter(|_| names.listens);
    [(Table::NAMES.to_owned(), address.into_iter().collect())].into()
}

/// The last of its chain: what it accepts has no other rule to pass.
pub(super) fn arriving(family: Family) -> PacketRule {
    rule("from guests", of_guest(family), Verdict::Goto(FROM_GUEST.to_owned()))
}

/// Before conntrack, by their devices, and of few protocols. Where they ask for names at this node (`asks`),
/// conntrack passes that by: each question from another port would be a connection for half a minute, and
/// a few dozen a second all that a guest may have.
pub(super) fn from_guest(family: Family, asks: bool) -> Vec<PacketRule> {
    let icmp = match family {
        Family::V4 => ICMP,
        Family::V6 => ICMPV6,
    };
    let mut rules = vec![drop_of("source of a guest from elsewhere", leads_nowhere_back())];
    if asks {
        rules.extend(questions(family).map(|words| {
            let words = words.into_iter().chain([Expression::Notrack]);
            rule("guests ask for names, untracked", words, Verdict::Accept)
        }));
    }
    rules.extend([TCP, UDP, icmp].map(|protocol| {
        rule("of a protocol that guests have", is_protocol(protocol), Verdict::Accept)
    }));
    rules.push(drop_of("of a protocol that guests have not", []));
    rules
}

/// What they are told, before conntrack: nothing was noted about the question.
pub(super) fn told(family: Family) -> Vec<PacketRule> {
    [UDP, TCP]
        .map(|protocol| {
            let from = [source(family), Expression::Lookup(Table::NAMES.to_owned())];
            let port = [SOURCE_PORT, Expression::CmpEq(NAMES.to_be_bytes().to_vec())];
            let words = from.into_iter().chain(to_guest(family)).chain(port);
            let words = words.chain(is_protocol(protocol)).chain([Expression::Notrack]);
            rule("names that guests are told, untracked", words, Verdict::Accept)
        })
        .into()
}

/// Guests answer this node, whichever address it has, and say errors about what it has sent to guests: the
/// rules of their own see that it was to themselves. Over IPv6, who is there is asked and said in
/// packets as well.
///
/// Where it is said that they ask it for names, they do so at that one address, at the port of name servers.
/// There is no connection by conntrack then, and packets are counted.
pub(super) fn input(family: Family, asks: bool) -> Vec<PacketRule> {
    let replies: Vec<_> = of_guest(family).into_iter().chain(is_reply()).collect();
    let answers = replies.iter().cloned().chain(is_established());
    let mut rules = vec![rule("answers of guests", answers, Verdict::Accept)];
    let to_guests = [Expression::Lookup(Table::GUESTS.to_owned())];
    let comment = "errors about what guests were sent";
    rules.push(errors::let_in(family, comment, replies, to_guests));
    if asks {
        rules.extend(questions(family).into_iter().flat_map(|words| {
            [
                bounds::of_packets("guests ask for names too often", source(family), &words),
                rule("guests ask for names", words, Verdict::Accept),
            ]
        }));
    }
    if family == Family::V6 {
        rules.extend(ABOUT_NEIGHBOURS.map(|kind| {
            let is = [ICMPV6_TYPE, Expression::CmpEq(vec![kind])];
            let words = of_guest(family).into_iter().chain(is_protocol(ICMPV6)).chain(is);
            rule("guests as neighbours", words, Verdict::Accept)
        }));
    }
    rules.push(drop_of("guests call this node", of_guest(family)));
    rules
}

/// Before any other rule about what is forwarded. Who is not mapped yet, or no more, would be known by
/// the node's address for as long as a connection lasts.
///
/// What a guest's own rules let through to elsewhere is for a Service of which nobody is behind that port:
/// it is told so, as kube-proxy would.
pub(super) fn from(family: Family, way: Option<&str>) -> Vec<PacketRule> {
    let Some(way) = way else { return vec![drop_of("guests call nobody", of_guest(family))] };
    let unmapped = [source(family), Expression::LookupInv(Table::PODS.to_owned())];
    vec![
        drop_of("a guest that is not mapped", of_guest(family).into_iter().chain(unmapped)),
        refusal_of(
            "guests call other clusters alone",
            of_guest(family).into_iter().chain(not_by(way)),
            family,
        ),
    ]
}

/// After what comes from other clusters has gone elsewhere. What this node itself sends is not
/// forwarded.
pub(super) fn to(family: Family) -> PacketRule {
    drop_of("guests are called from other clusters alone", to_guest(family))
}

pub(super) fn to_guest(family: Family) -> [Expression; 2] {
    [destination(family), Expression::Lookup(Table::GUESTS.to_owned())]
}

pub(super) fn of_guest(family: Family) -> [Expression; 2] {
    [source(family), Expression::Lookup(Table::GUESTS.to_owned())]
}
