//! What the overlay adds to our rules. Its datagrams are not authenticated: they are taken from
//! nodes alone, by the network of the nodes alone, and what is in them is looked at as if it came
//! from anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::expression::{
    Expression, Verdict, by, destination, from, is_established_or_related, is_udp_to, keep,
    not_from, outside, source,
};
use super::rule::{drop_of, rule, said};
use super::scope::Scope;
use super::table::{PacketRule, Table};
use crate::family::Family;
use crate::overlay::{Overlay, Way};
use crate::wanted::Wanted;

pub(super) const FROM_OVERLAY: &str = "from_overlay";

/// Who the other nodes and their pods are, of a family.
pub(super) fn sets(scope: &Scope<'_>) -> BTreeMap<String, BTreeSet<IpAddr>> {
    let Some(overlay) = &scope.wanted.overlay else { return BTreeMap::new() };
    let of_family = |addresses: &BTreeMap<IpAddr, IpAddr>| {
        let addresses = addresses.keys().copied();
        addresses.filter(|address| Family::of(*address) == scope.family).collect()
    };
    let mut sets = BTreeMap::from([(Table::NODES.to_owned(), of_family(&overlay.nodes))]);
    if let Way::Device { elsewhere } = &scope.wanted.way {
        sets.insert(Table::ELSEWHERE.to_owned(), of_family(elsewhere));
    }
    sets
}

/// What comes by the overlay and cannot have been sent by a node.
pub(super) fn arriving(scope: &Scope<'_>) -> PacketRule {
    let from = from(&scope.wanted.marks.overlay).into_iter();
    match scope.wanted.way {
        Way::Device { .. } => {
            let unknown = [not_in(Table::ELSEWHERE), not_in(Table::NODES)];
            let sources = unknown.into_iter().flat_map(|set| [scope.source(), set]);
            drop_of("from a node, of nobody who is mapped", from.chain(sources))
        }
        Way::Through(_) => {
            let elsewhere = [scope.source()].into_iter().chain(outside(scope.place.pool));
            drop_of("from a node, of no other cluster", from.chain(elsewhere))
        }
    }
}

/// Datagrams to this machine. A pod that has a node's address comes by another device.
pub(super) fn input(overlay: &Overlay, network: Option<&str>) -> Vec<PacketRule> {
    let datagram = || is_udp_to(overlay.port).into_iter();
    let stranger = [source(overlay.family()), not_in(Table::MACHINES)];
    let mut rules = vec![drop_of("overlay from no node", datagram().chain(stranger))];
    rules.extend(network.map(|device| {
        drop_of("overlay by no network of nodes", datagram().chain(not_from(device)))
    }));
    rules
}

/// Datagrams to other nodes: those of this node itself are not forwarded. After kube-proxy, so
/// that no Service leads there either.
pub(super) fn forward(overlay: &Overlay) -> PacketRule {
    let machines = Expression::Lookup(Table::MACHINES.to_owned());
    let machines = [destination(overlay.family()), machines];
    let datagram = is_udp_to(overlay.port).into_iter();
    drop_of("overlay of somebody who is no node", datagram.chain(machines))
}

/// At the gateway: from other nodes to other clusters, and nowhere else.
pub(super) fn from_overlay(wanted: &Wanted) -> Vec<PacketRule> {
    vec![
        rule("to other clusters", by(&wanted.marks.device), Verdict::Accept),
        drop_of("from a node to no other cluster", []),
    ]
}

/// At the gateway: pods of other nodes that are mapped. Where the overlay is not there what is for them
/// would leave by another device.
pub(super) fn to_pods(scope: &Scope<'_>) -> Vec<Expression> {
    let pods = [scope.destination(), Expression::Lookup(Table::ELSEWHERE.to_owned())];
    by(&scope.wanted.marks.overlay).into_iter().chain(pods).collect()
}

/// At the gateway: what other nodes have asked, by their own addresses.
pub(super) fn answers(scope: &Scope<'_>) -> PacketRule {
    let nodes = [scope.destination(), Expression::Lookup(Table::NODES.to_owned())];
    let words = by(&scope.wanted.marks.overlay).into_iter().chain(nodes);
    let words = words.chain(is_established_or_related());
    rule("answers to what other nodes have sent", words, Verdict::Accept)
}

/// At the gateway: each source was given by the node that it came from, or by another cluster.
pub(super) fn sources(scope: &Scope<'_>) -> Vec<PacketRule> {
    let keep = || keep(scope.family);
    let marks = &scope.wanted.marks;
    let from_node = by(&marks.device).into_iter().chain(from(&marks.overlay));
    let to_node = by(&marks.overlay).into_iter().chain(scope.source_of_pool());
    vec![
        said("other nodes have given a source", from_node.chain(keep())),
        said("other clusters' pods keep theirs on the way to nodes", to_node.chain(keep())),
    ]
}

fn not_in(set: &str) -> Expression {
    Expression::LookupInv(set.to_owned())
}
