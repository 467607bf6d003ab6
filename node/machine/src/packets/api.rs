//! Guests that run elsewhere reach their home's API server at one address of the gateway's machine: by
//! the gateway's device, at one port, and they alone. Who listens there looks again at who it is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::bounds;
use super::expression::{Expression, Verdict, address, from, is_protocol};
use super::rule::{drop_of, rule};
use super::scope::Scope;
use super::table::{PacketRule, Table};

const TCP: u8 = 6;
const HTTPS: u16 = 443;
/// Where the port stands that a packet goes to.
const DESTINATION_PORT: Expression = Expression::PayloadTransport { offset: 2, len: 2 };

/// Who may, if there is somebody to call.
pub(super) fn sets(scope: &Scope<'_>) -> BTreeMap<String, BTreeSet<IpAddr>> {
    let api = scope.wanted.api.as_ref().filter(|_| scope.api().is_some());
    api.map(|api| (Table::CALLERS.to_owned(), api.callers.clone())).into_iter().collect()
}

/// Before the node refuses all calls from other clusters.
pub(super) fn called(scope: &Scope<'_>) -> Vec<PacketRule> {
    let Some(api) = scope.api() else { return Vec::new() };
    let to = [scope.destination(), Expression::CmpEq(address(api))];
    let port = [DESTINATION_PORT, Expression::CmpEq(HTTPS.to_be_bytes().to_vec())];
    let callers = [scope.source(), Expression::Lookup(Table::CALLERS.to_owned())];
    let words = from(scope.way()).into_iter().chain(is_protocol(TCP)).chain(to);
    let words: Vec<_> = words.chain(port).chain(callers).collect();
    let mut rules = bounds::of_elsewhere(scope.family, &words);
    rules.push(rule("guests call the API server of their home", words, Verdict::Accept));
    rules
}

/// After answers and errors: nobody on this machine calls it, or comes by another device.
pub(super) fn otherwise(scope: &Scope<'_>) -> Option<PacketRule> {
    let to = [scope.destination(), Expression::CmpEq(address(scope.api()?))];
    Some(drop_of("the API server's address is called through tunnels alone", to))
}
