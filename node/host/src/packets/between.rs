//! Guests that run in other clusters reach each other through the gateway of their home: what comes
//! by its device from the range of one lease goes out by it again to that of another. Which of them
//! know each other is the session's to say, before and after; nothing else comes and goes so.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::bounds;
use super::expression::{Expression, Verdict, address, by, from, is_protocol, keep};
use super::rule::{drop_of, rule, said};
use super::scope::Scope;
use super::table::PacketRule;
use crate::family::Family;
use crate::overlay::Way;

pub(super) const BETWEEN: &str = "between";
pub(super) const BETWEEN_TO: &str = "between_to";

const ICMP: u8 = 1;
/// "There is a shorter way" (RFC 792).
const REDIRECT: u8 = 5;
const ICMP_TYPE: Expression = Expression::Transport { offset: 0, bytes: 1 };

/// Whether there are two whose guests may meet.
pub(super) fn is_there(scope: &Scope<'_>) -> bool {
    let at_gateway = matches!(scope.wanted.way, Way::Device { .. });
    at_gateway && ranges(scope).nth(1).is_some()
}

/// The first addresses of their ranges, in a set for each length of their prefix.
pub(super) fn sets(scope: &Scope<'_>) -> BTreeMap<String, BTreeSet<IpAddr>> {
    let mut sets: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    for range in ranges(scope).filter(|_| is_there(scope)) {
        sets.entry(set(range.prefix_len())).or_default().insert(range.network());
    }
    sets
}

/// From guests of ours that run elsewhere, to such guests, and nothing else.
pub(super) fn chains(scope: &Scope<'_>) -> [(&'static str, Vec<PacketRule>); 2] {
    let mut from = of_ranges(scope, scope.source(), |of_range| {
        rule("from a guest that runs there", of_range, Verdict::Goto(BETWEEN_TO.to_owned()))
    });
    from.push(drop_of("from another cluster's own to another cluster", []));
    // Before conntrack nobody is counted there; it is asked again where packets are forwarded.
    let mut to = bounds::of_elsewhere(scope.family, &[]);
    to.extend(of_ranges(scope, scope.destination(), |of_range| {
        rule("to a guest that runs there", of_range, Verdict::Accept)
    }));
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
    let redirect = [ICMP_TYPE, Expression::Is(vec![REDIRECT])];
    let words = by(scope.way()).into_iter().chain(is_protocol(ICMP)).chain(redirect);
    (scope.family == Family::V4).then(|| drop_of("there is no shorter way", words))
}

/// A rule for each length of a prefix, for what is loaded.
fn of_ranges(
    scope: &Scope<'_>,
    loaded: Expression,
    rule: impl Fn([Expression; 3]) -> PacketRule,
) -> Vec<PacketRule> {
    let nets: BTreeMap<u8, IpNet> = ranges(scope).map(|net| (net.prefix_len(), net)).collect();
    let of_length = |(length, net): (u8, IpNet)| {
        let mask = Expression::Mask(address(net.netmask()));
        rule([loaded.clone(), mask, Expression::In(set(length))])
    };
    nets.into_iter().map(of_length).collect()
}

/// Those in which guests of this cluster are known: not the homes of guests that run here.
fn ranges(scope: &Scope<'_>) -> impl Iterator<Item = IpNet> {
    let (family, homes) = (scope.family, &scope.wanted.homes);
    let ranges = scope.wanted.ranges.iter().copied();
    ranges.filter(move |range| Family::of_net(*range) == family && !homes.contains(range))
}

fn set(length: u8) -> String {
    format!("meeting{length}")
}
