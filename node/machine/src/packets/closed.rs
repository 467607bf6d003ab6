//! What a pod's own device lets through, where the pod may reach nobody but those that are named.
//!
//! No rule remembers whom: a flood fills no table, and whoever is reached by a changed table
//! goes on as before. What is not known for what it is matches no condition, so that conditions
//! only ever accept, and each chain drops what is left. Whoever sends may tell the kernel that
//! something else is in a frame than its header says: both are compared.

mod arp;
mod node;
pub(super) mod outside;
mod own;
mod scope;
mod services;
mod way;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use self::scope::{REACHED, Scope, scopes};
use super::expression::{
    Expression, Verdict, destination, is_kind, is_protocol, lacks_more_headers, source,
};
use super::frames::{FrameBase, FrameChain, FrameTable};
use super::protocols::{ICMP_TYPE, ICMPV6, TCP, UDP};
use super::rule::{drop_of, rule};
use super::table::{PacketRule, Side, Table};
use crate::closed::Closed;
use crate::family::Family;
use crate::overlay::Mac;

/// Sees what leaves after whoever rewrites it, and what comes before them: so it speaks of what is
/// on the wire.
const LAST: i32 = 10;
const FIRST: i32 = -10;

const LEAVING: &str = "leaving";
const ARRIVING: &str = "arriving";
const TO_NEIGHBOURS: &str = "to_neighbours";

/// Of a frame, where the address of its sender stands.
const SENDER: Expression = Expression::PayloadLl { offset: 6, len: 6 };

/// Who has an address, and that somebody has it: of whom (RFC 4861, section 4.3 and 4.4).
const ASKS: u8 = 135;
const SAYS: u8 = 136;
const ABOUT: Expression = Expression::PayloadTransport { offset: 8, len: 16 };
/// Of ICMPv6, 132 to 139 as two times four: whatever is said of groups, routers and neighbours.
const OF_THE_LINK: [u8; 2] = [0x84, 0x88];
const FOUR_OF_THEM: u8 = 0xfc;

/// The device of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// What it is called where the rules are.
    pub name: String,
    /// The pod's own address in frames.
    pub mac: Mac,
    /// The pod's addresses of the link, of IPv6: neighbours are asked with them, nobody is called.
    pub of_link: BTreeSet<IpAddr>,
}

/// The table in a pod's own namespace.
pub fn closed(wanted: &Closed, interface: &Interface) -> FrameTable {
    let scopes = scopes(wanted);
    let mut chains =
        leaving(&scopes, interface, FrameBase::dropping(&interface.name, Side::Out, LAST));
    chains.extend(arriving(&scopes, interface));
    let mut table = table(wanted, interface, Table::NAME.to_owned(), chains);
    services::translate(&mut table, wanted, &interface.name);
    own::translate(&mut table, wanted, &interface.name);
    table
}

/// The table of this name at the node's end of a pod's device, which is called so there. What comes
/// in by it is what the pod has sent.
pub fn closed_at_node(
    wanted: &Closed,
    interface: &Interface,
    name: String,
    end: &str,
) -> FrameTable {
    let chains = leaving(&scopes(wanted), interface, FrameBase::dropping(end, Side::In, FIRST));
    table(wanted, interface, name, chains)
}

fn table(
    wanted: &Closed,
    interface: &Interface,
    name: String,
    chains: BTreeMap<String, FrameChain>,
) -> FrameTable {
    let mut sets: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    let mut nets = BTreeMap::new();
    for scope in scopes(wanted) {
        let is_of_it = |address: &&IpAddr| Family::of(**address) == scope.family;
        let own = wanted.own.iter().filter(is_of_it);
        let node = wanted.node.iter().filter(is_of_it);
        sets.insert(scope.name("own"), own.copied().collect());
        sets.insert(scope.name("node"), node.copied().collect());
        nets.insert(scope.name(REACHED), scope.reached());
        if scope.family == Family::V6 {
            let own = wanted.own.iter().filter(is_of_it).chain(&interface.of_link);
            sets.insert(scope.name("asking"), own.copied().collect());
        }
    }
    sets.retain(|_, members| !members.is_empty());
    nets.retain(|_, members: &mut BTreeSet<_>| !members.is_empty());
    let mut table = FrameTable { name, chains, sets, nets, maps: BTreeMap::new() };
    scopes(wanted).iter().for_each(|scope| outside::name(&mut table, scope));
    table
}

/// What a pod may send: as seen by its own device or, coming in, by the node's end of it.
fn leaving(
    scopes: &[Scope<'_>],
    interface: &Interface,
    base: FrameBase,
) -> BTreeMap<String, FrameChain> {
    let mac = interface.mac.0.to_vec();
    let mut rules = vec![drop_of(
        "from the device of somebody else",
        [SENDER, Expression::CmpNeq(mac.clone())],
    )];
    let mut chains = BTreeMap::new();
    for scope in scopes {
        if scope.family == Family::V4 {
            rules.extend(arp::leaving(&mac, scope.is_in(arp::SENDER, "own")));
        }
        rules.push(rule("of this family", is_kind(scope.kind()), scope.goto(LEAVING)));
        chains.insert(scope.name(LEAVING), FrameChain::plain(leaving_of(scope)));
        chains.insert(scope.name("to"), FrameChain::plain(to(scope)));
        if scope.family == Family::V6 {
            chains.insert(TO_NEIGHBOURS.to_owned(), FrameChain::plain(to_neighbours(scope)));
        }
        if scope.has_node() {
            chains.insert(scope.name("to_node"), FrameChain::plain(node::to_node(scope)));
        }
    }
    rules.push(drop_of("of no family that it has", []));
    chains.insert(LEAVING.to_owned(), FrameChain { base: Some(base), rules });
    chains
}

fn leaving_of(scope: &Scope<'_>) -> Vec<PacketRule> {
    let mut rules = Vec::new();
    if scope.family == Family::V6 {
        rules.extend(about_neighbours(scope));
    }
    let forged = [source(scope.family), Expression::LookupInv(scope.name("own"))];
    rules.push(drop_of("source of somebody else", forged));
    for protocol in [TCP, UDP, scope.icmp()] {
        rules.push(rule("of a protocol that passes", is_protocol(protocol), scope.goto("to")));
    }
    rules.push(drop_of("of another protocol", []));
    rules
}

/// Who has an address is asked and answered on the link alone, and as who it is; whoever asks
/// without an address asks about his own. All else that is said of the link is dropped, wherever
/// it goes.
fn about_neighbours(scope: &Scope<'_>) -> Vec<PacketRule> {
    let nobody = [source(scope.family), Expression::CmpEq(vec![0; 16])];
    let is = |kind: u8| {
        let plain = lacks_more_headers(ICMPV6).into_iter().chain(is_protocol(ICMPV6));
        plain.chain([ICMP_TYPE, Expression::CmpEq(vec![kind])])
    };
    let asking = || scope.is_in(source(scope.family), "asking");
    let about = || scope.is_in(ABOUT, "asking");
    let goto = || Verdict::Goto(TO_NEIGHBOURS.to_owned());
    let mut rules = vec![
        rule("asks neighbours, as who it is", is(ASKS).chain(asking()), goto()),
        rule("asks whether it may be who it is", is(ASKS).chain(nobody).chain(about()), goto()),
        rule("says who it is", is(SAYS).chain(asking()).chain(about()), goto()),
    ];
    rules.extend(OF_THE_LINK.map(|kinds| {
        let mask = Expression::Bitwise(vec![FOUR_OF_THEM]);
        let is_one = [ICMP_TYPE, mask, Expression::CmpEq(vec![kinds])];
        let words = is_protocol(ICMPV6).into_iter().chain(is_one);
        drop_of("about groups, routers or neighbours", words)
    }));
    rules
}

/// To the link (fe80::/10, ff02::/16; RFC 4291, section 2.5.6 and 2.7) and to the node. Whatever
/// else it goes to is behind a router, who would send it on.
fn to_neighbours(scope: &Scope<'_>) -> Vec<PacketRule> {
    let beginning = Expression::PayloadNetwork { offset: 24, len: 2 };
    let one = |mask: [u8; 2], is: [u8; 2]| {
        let words =
            [beginning.clone(), Expression::Bitwise(mask.into()), Expression::CmpEq(is.into())];
        rule("on the link", words, Verdict::Accept)
    };
    let often = drop_of("about neighbours too often", [arp::OFTEN]);
    let mut rules = vec![often, one([0xff, 0xc0], [0xfe, 0x80]), one([0xff, 0xff], [0xff, 0x02])];
    if scope.has_node() {
        let node = scope.is_in(destination(scope.family), "node");
        rules.push(rule("to the node", node, Verdict::Accept));
    }
    rules.push(drop_of("about neighbours to somebody who is none", []));
    rules
}

/// The node comes first: a range may have its addresses in it.
fn to(scope: &Scope<'_>) -> Vec<PacketRule> {
    let to = destination(scope.family);
    let mut rules = node::to_names(scope);
    if scope.has_node() {
        rules.push(rule("to the node", scope.is_in(to.clone(), "node"), scope.goto("to_node")));
    }
    rules.extend(scope.is_reached(&to, "to whom it may reach"));
    rules.extend(outside::leaving(scope));
    rules.push(drop_of("to nobody whom it may reach", []));
    rules
}

/// What may come to a pod.
fn arriving(scopes: &[Scope<'_>], interface: &Interface) -> BTreeMap<String, FrameChain> {
    let mut rules = Vec::new();
    let mut chains = BTreeMap::new();
    for scope in scopes {
        if scope.family == Family::V4 {
            rules.push(rule("from neighbours", is_kind(arp::ARP), Verdict::Accept));
        }
        rules.push(rule("of this family", is_kind(scope.kind()), scope.goto(ARRIVING)));
        chains.insert(scope.name(ARRIVING), FrameChain::plain(arriving_of(scope)));
    }
    rules.push(drop_of("of no family that it has", []));
    let base = Some(FrameBase::dropping(&interface.name, Side::In, FIRST));
    chains.insert(ARRIVING.to_owned(), FrameChain { base, rules });
    chains
}

fn arriving_of(scope: &Scope<'_>) -> Vec<PacketRule> {
    let mut rules = Vec::new();
    if scope.family == Family::V6 {
        rules.extend([ASKS, SAYS].map(|kind| {
            let is = [ICMP_TYPE, Expression::CmpEq(vec![kind])];
            let plain = lacks_more_headers(ICMPV6).into_iter().chain(is_protocol(ICMPV6));
            rule("from neighbours", plain.chain(is), Verdict::Accept)
        }));
    }
    let other = [destination(scope.family), Expression::LookupInv(scope.name("own"))];
    rules.push(drop_of("to somebody else", other));
    let from = source(scope.family);
    if scope.has_node() {
        let node = scope.is_in(from.clone(), "node");
        rules.push(rule("from the node", node, Verdict::Accept));
    }
    rules.extend(scope.is_reached(&from, "from whom it may reach"));
    rules.extend(outside::arriving(scope));
    rules.push(drop_of("from nobody whom it may reach", []));
    rules
}
