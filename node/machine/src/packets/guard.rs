//! Our rules. What they keep: a pod of this node that is mapped keeps its source, everybody else
//! has the node's; from other clusters nothing reaches the machine but pods that are mapped, and
//! answers; nothing to another cluster leaves by another device, or comes from one.
//!
//! The device to other clusters is the gateway's on its machine, and that of the overlay on other
//! nodes. Each family has a table of its own: the same one, but for what IPv6 does in other ways,
//! or one that lets nothing through, where this machine has no address of a pool of that family.

use std::collections::BTreeMap;

use super::api;
use super::between;
use super::bounds;
use super::errors;
use super::expression::{
    Expression, Verdict, address, by, from, has_no_mark, is_established, is_related, is_reply,
    keep, leads_nowhere_back, not_by, not_from, to_everybody, within,
};
use super::guests;
use super::homes;
use super::outward::{self, Outwards};
use super::overlay;
use super::rule::{drop_of, rule, said};
use super::scope::Scope;
use super::table::{Base, Chain, Hook, PacketRule, Table};
use crate::family::Family;
use crate::overlay::Way;
use crate::wanted::Wanted;

/// Before conntrack, so that what is forged leaves no trace there (`NF_IP_PRI_RAW`).
const RAW: i32 = -300;
/// Before what others filter: our drops hold whatever they accept, and theirs whatever we do.
const BEFORE_FILTERS: i32 = -10;
/// Before the masquerade of every pod network (`NF_IP_PRI_NAT_SRC` is 100): the first chain of
/// this hook that binds a connection to a source is the last that is asked.
const BEFORE_MASQUERADE: i32 = 90;
/// What kube-proxy marks it masquerades: replies have to come back by this node
/// (`--iptables-masquerade-bit`, 14 unless told otherwise).
const KUBE_PROXY_MARK: u32 = 0x4000;
/// What the node says to itself.
const LOOPBACK: &str = "lo";
// Our chains, by their names.
const ARRIVING: &str = "arriving";
const INPUT: &str = "input";
const FORWARD: &str = "forward";
const FROM_DEVICE: &str = "from_device";
const FROM_HOME: &str = "from_home";
const LEAVING: &str = "leaving";
const SOURCES: &str = "sources";
const TOLD: &str = "told";

/// The table of a family that should be in force. Datagrams of the overlay are taken by the device
/// `network` alone, if there is one.
pub fn guard(wanted: &Wanted, family: Family, network: Option<&str>) -> Table {
    let (mut sets, mut nets, mut tallies) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut rules = match wanted.place(family) {
        Some(place) => {
            let scope = Scope { wanted, place, family };
            let pods = wanted.pods.iter().copied().filter(|pod| Family::of(*pod) == family);
            sets.insert(Table::PODS.to_owned(), pods.collect());
            nets.insert(Table::HOMES.to_owned(), homes::set(&scope));
            let meeting = between::is_there(&scope).then(|| between::set(&scope));
            nets.extend(meeting.map(|meeting| (Table::MEETING.to_owned(), meeting)));
            sets.extend(api::sets(&scope));
            sets.extend(guests::names(&scope));
            sets.extend(overlay::sets(&scope));
            tallies = bounds::tallies();
            with_place(&scope)
        }
        None => without_place(wanted, family),
    };
    if let Some(outwards) = Outwards::of(wanted, family) {
        sets.extend(outwards.sets());
        nets.extend(outwards.nets());
        tallies.extend(bounds::tallies());
        rules.entry(FORWARD).or_default().insert(0, outwards.forward());
        let forward = rules.entry(FORWARD).or_default();
        // The last one says that guests are called from other clusters alone.
        let last = forward.len().saturating_sub(1);
        forward.splice(last..last, outwards.back());
        rules.insert(outward::OUTWARD, outwards.chain());
        rules.entry(SOURCES).or_default().splice(..0, outwards.sources());
    }
    sets.insert(Table::GUESTS.to_owned(), guests::set(wanted, family));
    let asks = rules.contains_key(TOLD);
    rules.insert(guests::FROM_GUEST, guests::from_guest(family, asks));
    if let Some(overlay) = wanted.overlay.as_ref().filter(|overlay| overlay.family() == family) {
        sets.insert(Table::MACHINES.to_owned(), overlay.nodes.values().copied().collect());
        // Before whatever else is asked of a packet there.
        rules.entry(INPUT).or_default().splice(..0, overlay::input(overlay, network));
        rules.entry(FORWARD).or_default().splice(..0, [overlay::forward(overlay)]);
    }
    let chain = |(name, rules): (&str, _)| (name.to_owned(), Chain { base: base(name), rules });
    let chains = rules.into_iter().map(chain).collect();
    Table { family, name: Table::NAME.to_owned(), chains, sets, nets, tallies }
}

/// Where packets come into a chain, if they do by itself.
fn base(chain: &str) -> Option<Base> {
    let filter = |hook, priority| Base { kind: "filter".to_owned(), hook, priority, accepts: true };
    match chain {
        ARRIVING => Some(filter(Hook::Prerouting, RAW)),
        INPUT => Some(filter(Hook::Input, BEFORE_FILTERS)),
        FORWARD => Some(filter(Hook::Forward, BEFORE_FILTERS)),
        TOLD => Some(filter(Hook::Output, RAW)),
        LEAVING => Some(filter(Hook::Postrouting, BEFORE_FILTERS)),
        SOURCES => {
            let kind = "nat".to_owned();
            let (hook, priority) = (Hook::Postrouting, BEFORE_MASQUERADE);
            Some(Base { kind, hook, priority, accepts: true })
        }
        _ => None,
    }
}

fn with_place(scope: &Scope<'_>) -> BTreeMap<&'static str, Vec<PacketRule>> {
    let chains = [
        (ARRIVING, arriving(scope)),
        (INPUT, input(scope)),
        (FORWARD, forward(scope)),
        (FROM_DEVICE, from_device(scope)),
        (FROM_HOME, from_home(scope)),
        (LEAVING, leaving(scope)),
        (SOURCES, sources(scope)),
    ];
    let told = scope.names().map(|_| (TOLD, guests::told(scope.family)));
    let from_overlay = (overlay::FROM_OVERLAY, overlay::from_overlay(scope.wanted));
    let between = between::is_there(scope).then(|| between::chains(scope));
    let chains = chains.into_iter().chain(told).chain(between.into_iter().flatten());
    chains.chain(scope.is_gateway_of_nodes().then_some(from_overlay)).collect()
}

/// Where this machine has no address of a pool of the family, none of it goes by our devices.
fn without_place(wanted: &Wanted, family: Family) -> BTreeMap<&'static str, Vec<PacketRule>> {
    let devices = [&wanted.marks.device, &wanted.marks.overlay];
    let comment = format!("nobody has {family} here");
    let mut arriving = devices.map(|device| drop_of(&comment, from(device))).to_vec();
    arriving.push(guests::arriving(family));
    let leaving = devices.map(|device| drop_of(&comment, by(device))).to_vec();
    let mut forward = guests::from(family, None);
    forward.push(guests::to(family));
    // Whose address is of the family that this machine has.
    let input = guests::input(family, false);
    [(ARRIVING, arriving), (INPUT, input), (FORWARD, forward), (LEAVING, leaving)].into()
}

fn arriving(scope: &Scope<'_>) -> Vec<PacketRule> {
    let ours = scope.devices().into_iter().chain([LOOPBACK]);
    let elsewhere = ours.flat_map(not_from);
    // Dropped here and not when it is forwarded: the kernel would have sent a redirect by then.
    let nodes = [scope.destination(), Expression::LookupInv(Table::NODES.to_owned())];
    let not_nodes = scope.is_gateway_of_nodes().then_some(nodes);
    let back = from(scope.way()).into_iter().chain(scope.to_other_of_pool());
    let back = back.chain(not_nodes.into_iter().flatten());
    let mut rules = vec![
        drop_of(
            "source of another cluster from elsewhere",
            scope.source_of_pool().chain(elsewhere),
        ),
        to_and_fro(scope, "from another cluster to another cluster", back),
    ];
    rules.extend(scope.wanted.overlay.is_some().then(|| overlay::arriving(scope)));
    match scope.family {
        // The kernel looks (`rp_filter`).
        Family::V4 => {}
        Family::V6 => {
            let lost = from(scope.way()).into_iter().chain(leads_nowhere_back());
            rules.push(drop_of("from where no way leads back", lost));
        }
    }
    rules.push(guests::arriving(scope.family));
    rules
}

/// What goes back where it came from: nothing does, but where guests may meet so.
fn to_and_fro(
    scope: &Scope<'_>,
    comment: &str,
    conditions: impl IntoIterator<Item = Expression>,
) -> PacketRule {
    if between::is_there(scope) {
        rule(comment, conditions, Verdict::Goto(between::BETWEEN.to_owned()))
    } else {
        drop_of(comment, conditions)
    }
}

/// What IPv6 asks and says of neighbours and routers belongs to no connection, and is dropped with
/// the rest: who is there is told, and not learned.
fn input(scope: &Scope<'_>) -> Vec<PacketRule> {
    let called = [
        (scope.way(), "the node is not called from other clusters"),
        (&scope.wanted.marks.overlay, "the node is not called by the overlay"),
    ];
    let of_pool = called.into_iter().take(scope.devices().len()).flat_map(|(device, comment)| {
        let answers = from(device).into_iter().chain(is_established());
        let (errors, to_pool) = ("errors about what the node sent there", within(scope.place.pool));
        [
            rule("answers to the node", answers, Verdict::Accept),
            errors::let_in(scope.family, errors, from(device), to_pool),
            drop_of(comment, from(device)),
        ]
    });
    let mut rules = guests::input(scope.family, scope.names().is_some());
    rules.extend(api::called(scope));
    rules.extend(of_pool);
    rules.extend(api::otherwise(scope));
    rules
}

fn forward(scope: &Scope<'_>) -> Vec<PacketRule> {
    let goto = |chain: &str| Verdict::Goto(chain.to_owned());
    let mut rules = guests::from(scope.family, Some(scope.way()));
    rules.extend(bounds::of(&scope.source(), &guests::of_guest(scope.family)));
    rules.push(rule("from other clusters", from(scope.way()), goto(FROM_DEVICE)));
    if scope.is_gateway_of_nodes() {
        let from_node = from(&scope.wanted.marks.overlay);
        rules.push(rule("from other nodes", from_node, goto(overlay::FROM_OVERLAY)));
    }
    rules.push(guests::to(scope.family));
    rules
}

/// The last rule drops, and each before it accepts, but where a packet goes elsewhere: where conntrack
/// knows nothing of a packet, a condition about connections is not met.
///
/// Homes call guests, and are bounded by whom they call; whoever else calls is a guest elsewhere.
fn from_device(scope: &Scope<'_>) -> Vec<PacketRule> {
    // Whoever has called with the node's address: a pod that is not mapped, a client of a NodePort.
    let node = Expression::CmpEq(address(scope.place.node));
    let answers = is_reply().into_iter().chain([Expression::CtReplyDst(scope.family), node]);
    let mut rules = vec![
        to_and_fro(scope, "from the device to the device", by(scope.way())),
        rule("answers to what left with the node's address", answers, Verdict::Accept),
    ];
    match scope.wanted.way {
        Way::Device { .. } => {}
        // Whose answers and errors are about what left with this node's address.
        Way::Through(_) => {
            let nodes = [scope.source(), Expression::Lookup(Table::NODES.to_owned())];
            match scope.family {
                // By the network of the nodes.
                Family::V4 => {}
                Family::V6 => {
                    let errors = nodes.iter().cloned().chain(to_pods(scope)).chain(is_related());
                    let comment = "errors of the gateway about what mapped pods have sent";
                    rules.push(rule(comment, errors, Verdict::Accept));
                }
            }
            rules.push(drop_of("nodes of this cluster call nobody by the overlay", nodes));
        }
    }
    let from_home = Verdict::Goto(FROM_HOME.to_owned());
    rules.push(rule("from a home of guests", homes::from(scope), from_home));
    rules.extend(to_mapped(scope, |words| bounds::of_elsewhere(scope.family, words)));
    rules
}

fn from_home(scope: &Scope<'_>) -> Vec<PacketRule> {
    to_mapped(scope, |words| bounds::of(&scope.destination(), words))
}

/// To pods that are mapped and to nobody else, with bounds before each rule that lets in what is new.
fn to_mapped(
    scope: &Scope<'_>,
    bounds: impl Fn(&[Expression]) -> Vec<PacketRule>,
) -> Vec<PacketRule> {
    let mut rules = Vec::new();
    let mut accept = |comment, words: Vec<Expression>| {
        rules.extend(bounds(&words));
        rules.push(rule(comment, words, Verdict::Accept));
    };
    if scope.is_gateway_of_nodes() {
        accept("to pods of other nodes that are mapped", overlay::to_pods(scope));
    }
    accept("to pods that are mapped", to_pods(scope).into());
    rules.extend(scope.is_gateway_of_nodes().then(|| overlay::answers(scope)));
    rules.push(drop_of("to nobody who is mapped", []));
    rules
}

/// Pods of this node that are mapped.
fn to_pods(scope: &Scope<'_>) -> [Expression; 2] {
    [scope.destination(), Expression::Lookup(Table::PODS.to_owned())]
}

/// After routing, and not in the hooks before it: what kube-proxy gives another destination in the
/// output hook is still said there to leave by the device of the first one.
fn leaving(scope: &Scope<'_>) -> Vec<PacketRule> {
    let elsewhere = scope.devices().into_iter().flat_map(not_by);
    let in_clear = scope.to_other_of_pool().chain(elsewhere);
    let mut rules = vec![drop_of("to another cluster in clear", in_clear)];
    rules.push(homes::leaving(scope));
    rules.extend(between::is_there(scope).then(|| between::leaving(scope)).flatten());
    match scope.family {
        Family::V4 => {}
        // The kernel tells neighbours that it is there, by each device that it routes for.
        Family::V6 => rules.extend(scope.devices().into_iter().map(|device| {
            let to_all = by(device).into_iter().chain(to_everybody());
            drop_of("to everybody by a device of ours", to_all)
        })),
    }
    rules
}

fn sources(scope: &Scope<'_>) -> Vec<PacketRule> {
    let pods = || Expression::Lookup(Table::PODS.to_owned());
    let by = || by(scope.way()).into_iter();
    let own = [scope.source(), pods()].into_iter().chain(has_no_mark(KUBE_PROXY_MARK));
    let others = [Expression::Immediate(address(scope.place.node)), Expression::Snat(scope.family)];
    let to_pods = [scope.destination(), pods()].into_iter().chain(has_no_mark(KUBE_PROXY_MARK));
    // An accept would end this chain alone, and the pod network's would masquerade all the same.
    let keep = || keep(scope.family);
    let at_gateway = scope.is_gateway_of_nodes().then(|| overlay::sources(scope));
    let mut rules = at_gateway.unwrap_or_default();
    rules.extend(between::is_there(scope).then(|| between::sources(scope)));
    rules.extend([
        said("pods that are mapped keep their address", by().chain(own).chain(keep())),
        said("everybody else has the node's", by().chain(others)),
        said(
            "other clusters' pods keep theirs",
            scope.source_of_pool().chain(to_pods).chain(keep()),
        ),
    ]);
    rules
}
