//! The homes of guests that run here are called by these guests alone, once they are mapped. A pod
//! whose address is not known yet would call with the node's, which is nobody's there, and its
//! connection would keep that source for as long as it tries: what is dropped before it has one
//! comes again, with the right source.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::expression::{Expression, by};
use super::rule::drop_of;
use super::scope::{Scope, apart};
use super::table::{PacketRule, Table};

/// Where they are. Rules do not depend on it: homes say other ranges, of other lengths, as they like.
pub(super) fn set(scope: &Scope<'_>) -> BTreeSet<IpNet> {
    apart(scope.of_family(&scope.wanted.homes).collect())
}

/// After routing, and before anything has given the packet a source.
pub(super) fn leaving(scope: &Scope<'_>) -> PacketRule {
    let elsewhere = scope.is_gateway_of_nodes().then_some(Table::ELSEWHERE);
    let known = [Table::PODS].into_iter().chain(elsewhere);
    let to_home = [scope.destination(), Expression::Lookup(Table::HOMES.to_owned())];
    let of_nobody = known.flat_map(|set| [scope.source(), Expression::LookupInv(set.to_owned())]);
    let words = by(scope.way()).into_iter().chain(to_home).chain(of_nobody);
    drop_of("to the home of guests, of nobody who is mapped", words)
}

/// A home of guests has sent it.
pub(super) fn from(scope: &Scope<'_>) -> [Expression; 2] {
    [scope.source(), Expression::Lookup(Table::HOMES.to_owned())]
}
