//! Guests that run in other clusters reach each other through the gateway of their home: what comes
//! by its device from the range of one lease goes out by it again to that of another. Which of them
//! know each other is the session's to say, before and after; nothing else comes and goes so.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::bounds;
use super::expression::{Expression, Verdict, by, from, is_protocol, keep};
use super::rule::{drop_of, rule, said};
use super::scope::{Scope, apart};
use super::table::{PacketRule, Table};
use crate::family::Family;
use crate::overlay::Way;

pub(super) const BETWEEN: &str = "between";
pub(super) const BETWEEN_TO: &str = "between_to";

const ICMP: u8 = 1;
/// "There is a shorter way" (RFC 792).
const REDIRECT: u8 = 5;
const ICMP_TYPE: Expression = Expression::PayloadTransport { offset: 0, len: 1 };

/// Whether guests may meet here: at the gateway alone, whoever is known there.
pub(super) fn is_there(scope: &Scope<'_>) -> bool {
    matches!(scope.wanted.way, Way::Device { .. })
}

/// The ranges in which guests of this cluster are known, where there are two that may meet: not the homes
/// of guests that run here. Rules do not depend on which these are.
pub(super) fn set(scope: &Scope<'_>) -> BTreeSet<IpNet> {
    let homes = &scope.wanted.homes;
    let ranges = scope.of_family(&scope.wanted.ranges).filter(|range| !homes.contains(range));
    let ranges: Vec<_> = ranges.collect();
    if ranges.len() < 2 { BTreeSet::new() } else { apart(ranges) }
}

/// From guests of ours that run elsewhere, to such guests, and nothing else.
pub(super) fn chains(scope: &Scope<'_>) -> [(&'static str, Vec<PacketRule>); 2] {
    let of_range = |loaded| [loaded, Expression::Lookup(Table::MEETING.to_owned())];
    let goto = Verdict::Goto(BETWEEN_TO.to_owned());
    let from = vec![
        rule("from a guest that runs there", of_range(scope.source()), goto),
        drop_of("from another cluster's own to another cluster", []),
    ];
    // Before conntrack nobody is counted there; it is asked again where packets are forwarded.
    let mut to = bounds::of_elsewhere(scope.family, &[]);
    let to_guest = of_range(scope.destination());
    to.push(rule("to a guest that runs there", to_guest, Verdict::Accept));
    to.push(drop_of("from a guest to another cluster's own", []));
    [(BETWEEN, from), (BETWEEN_TO, to)]
}

/// Guests keep their addresses, as pods do.
pub(super) fn sources(scope: &Scope<'_>) -> PacketRule {
    let through = by(scope.way()).into_iter().chain(from(scope.way()));
    said("guests keep theirs on the way through home", through.chain(keep(scope.family)))
}

/// The kernel tells a sender that it could do without this machine, which it could not. Over IPv6 it
/// needs an address of the link to say so, and has none.
pub(super) fn leaving(scope: &Scope<'_>) -> Option<PacketRule> {
    let redirect = [ICMP_TYPE, Expression::CmpEq(vec![REDIRECT])];
    let words = by(scope.way()).into_iter().chain(is_protocol(ICMP)).chain(redirect);
    (scope.family == Family::V4).then(|| drop_of("there is no shorter way", words))
}
