//! The homes of guests that run here are called by these guests alone, once they are mapped. A pod
//! whose address is not known yet would call with the node's, which is nobody's there, and its
//! connection would keep that source for as long as it tries: what is dropped before it has one
//! comes again, with the right source.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::expression::{Expression, address, by};
use super::rule::drop_of;
use super::scope::Scope;
use super::table::{PacketRule, Table};
use crate::family::Family;

/// The first addresses of these ranges, in a set for each length of their prefix.
pub(super) fn sets(scope: &Scope<'_>) -> BTreeMap<String, BTreeSet<IpAddr>> {
    let mut sets: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    for home in of_family(scope) {
        sets.entry(set(home.prefix_len())).or_default().insert(home.network());
    }
    sets
}

/// After routing, and before anything has given the packet a source.
pub(super) fn leaving(scope: &Scope<'_>) -> Vec<PacketRule> {
    let nets: BTreeMap<u8, IpNet> =
        of_family(scope).map(|home| (home.prefix_len(), home)).collect();
    let elsewhere = scope.is_gateway_of_nodes().then_some(Table::ELSEWHERE);
    let known: Vec<_> = [Table::PODS].into_iter().chain(elsewhere).collect();
    let rule = |(length, net): (u8, IpNet)| {
        let mask = Expression::Mask(address(net.netmask()));
        let to_home = [scope.destination(), mask, Expression::In(set(length))];
        let of_nobody =
            known.iter().flat_map(|set| [scope.source(), Expression::NotIn((*set).to_owned())]);
        let words = by(scope.way()).into_iter().chain(to_home).chain(of_nobody);
        drop_of("to the home of guests, of nobody who is mapped", words)
    };
    nets.into_iter().map(rule).collect()
}

/// What a home of guests has sent: conditions, for each length of their prefix.
pub(super) fn from(scope: &Scope<'_>) -> Vec<[Expression; 3]> {
    let by_length: BTreeMap<u8, IpNet> =
        of_family(scope).map(|home| (home.prefix_len(), home)).collect();
    let one = |(length, net): (u8, IpNet)| {
        [scope.source(), Expression::Mask(address(net.netmask())), Expression::In(set(length))]
    };
    by_length.into_iter().map(one).collect()
}

fn of_family(scope: &Scope<'_>) -> impl Iterator<Item = IpNet> {
    let homes = scope.wanted.homes.iter().copied();
    let family = scope.family;
    homes.filter(move |home| Family::of_net(*home) == family)
}

fn set(length: u8) -> String {
    format!("homes{length}")
}
