//! Our rules. What they keep: a pod of this node that is mapped keeps its source, everybody else
//! has the node's; from other clusters nothing reaches the machine but pods that are mapped, and
//! answers; nothing to another cluster leaves by another device, or comes from one.
//!
//! The device to other clusters is the gateway's on its machine, and that of the overlay on other
//! nodes.

use std::collections::BTreeMap;

use super::expression::{
    Expression, Verdict, address, by, destination, from, has_no_mark, is_established_or_related,
    is_reply, not_by, not_from, source, within,
};
use super::overlay;
use super::rule::{drop_of, rule, said};
use super::table::{Base, Chain, Hook, PacketRule, Table};
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
const FROM_DEVICE: &str = "from_device";

/// The table that should be in force. Datagrams of the overlay are taken by the device `network`
/// alone, if there is one.
pub fn guard(wanted: &Wanted, network: Option<&str>) -> Table {
    let mut sets = BTreeMap::from([(Table::PODS.to_owned(), wanted.pods.clone())]);
    if let Some(overlay) = &wanted.overlay {
        sets.extend(overlay::sets(wanted, overlay));
    }
    Table { name: Table::NAME.to_owned(), chains: chains(wanted, network), sets }
}

fn chains(wanted: &Wanted, network: Option<&str>) -> BTreeMap<String, Chain> {
    let filter = |hook, priority| Base { kind: "filter".to_owned(), hook, priority, accepts: true };
    let nat = Base {
        kind: "nat".to_owned(),
        hook: Hook::Postrouting,
        priority: BEFORE_MASQUERADE,
        accepts: true,
    };
    let chains = [
        ("arriving", Some(filter(Hook::Prerouting, RAW)), arriving(wanted)),
        ("input", Some(filter(Hook::Input, BEFORE_FILTERS)), input(wanted, network)),
        ("forward", Some(filter(Hook::Forward, BEFORE_FILTERS)), forward(wanted)),
        (FROM_DEVICE, None, from_device(wanted)),
        ("leaving", Some(filter(Hook::Postrouting, BEFORE_FILTERS)), leaving(wanted)),
        ("sources", Some(nat), sources(wanted)),
    ];
    let from_overlay = (overlay::FROM_OVERLAY, None, overlay::from_overlay(wanted));
    let at_gateway = is_gateway_of_nodes(wanted).then_some(from_overlay);
    let named = |(name, base, rules): (&str, Option<Base>, Vec<PacketRule>)| {
        (name.to_owned(), Chain { base, rules })
    };
    chains.into_iter().chain(at_gateway).map(named).collect()
}

/// The device to other clusters.
fn way(wanted: &Wanted) -> &str {
    match wanted.way {
        Way::Device { .. } => &wanted.marks.device,
        Way::Through(_) => &wanted.marks.overlay,
    }
}

/// Whether other nodes reach other clusters through this one.
fn is_gateway_of_nodes(wanted: &Wanted) -> bool {
    matches!(wanted.way, Way::Device { .. }) && wanted.overlay.is_some()
}

/// All devices that packets with addresses of the pool may take.
fn devices(wanted: &Wanted) -> Vec<&str> {
    let inward = is_gateway_of_nodes(wanted).then_some(&*wanted.marks.overlay);
    [way(wanted)].into_iter().chain(inward).collect()
}

fn arriving(wanted: &Wanted) -> Vec<PacketRule> {
    let forged = [source()].into_iter().chain(within(wanted.pool));
    let ours = devices(wanted).into_iter().chain([LOOPBACK]);
    let elsewhere = ours.flat_map(not_from);
    // Dropped here and not when it is forwarded: the kernel would have sent a redirect by then.
    let to_pool = [destination()].into_iter().chain(within(wanted.pool));
    let not_node = [destination(), Expression::IsNot(address(wanted.node))];
    let nodes = [destination(), Expression::NotIn(Table::NODES.to_owned())];
    let not_nodes = is_gateway_of_nodes(wanted).then_some(nodes);
    let back = from(way(wanted)).into_iter().chain(to_pool).chain(not_node);
    let back = back.chain(not_nodes.into_iter().flatten());
    let mut rules = vec![
        drop_of("source of another cluster from elsewhere", forged.chain(elsewhere)),
        drop_of("from another cluster to another cluster", back),
    ];
    rules.extend(wanted.overlay.is_some().then(|| overlay::arriving(wanted)));
    rules
}

fn input(wanted: &Wanted, network: Option<&str>) -> Vec<PacketRule> {
    let datagrams = wanted.overlay.iter().flat_map(|it| overlay::input(it, network));
    let called = [
        (way(wanted), "the node is not called from other clusters"),
        (&wanted.marks.overlay, "the node is not called by the overlay"),
    ];
    let of_pool = called.into_iter().take(devices(wanted).len()).flat_map(|(device, comment)| {
        let answers = from(device).into_iter().chain(is_established_or_related());
        let accepted = "answers to the node, and errors about what it sent";
        [rule(accepted, answers, Verdict::Accept), drop_of(comment, from(device))]
    });
    datagrams.chain(of_pool).collect()
}

fn forward(wanted: &Wanted) -> Vec<PacketRule> {
    let goto = |chain: &str| Verdict::Goto(chain.to_owned());
    let mut rules: Vec<PacketRule> = wanted.overlay.iter().map(overlay::forward).collect();
    rules.push(rule("from other clusters", from(way(wanted)), goto(FROM_DEVICE)));
    if is_gateway_of_nodes(wanted) {
        let from_node = from(&wanted.marks.overlay);
        rules.push(rule("from other nodes", from_node, goto(overlay::FROM_OVERLAY)));
    }
    rules
}

/// The last rule drops, and each before it accepts, but where a packet goes back: where conntrack
/// knows nothing of a packet, a condition about connections is not met.
fn from_device(wanted: &Wanted) -> Vec<PacketRule> {
    let pods = [destination(), Expression::In(Table::PODS.to_owned())];
    // Whoever has called with the node's address: a pod that is not mapped, a client of a NodePort.
    let node = Expression::Is(address(wanted.node));
    let answers = is_reply().into_iter().chain([Expression::ReplyDestination, node]);
    let mut rules = vec![
        drop_of("from the device to the device", by(way(wanted))),
        rule("answers to what left with the node's address", answers, Verdict::Accept),
    ];
    match wanted.way {
        Way::Device { .. } if wanted.overlay.is_some() => {
            rules.extend(overlay::to_overlay(wanted));
        }
        Way::Device { .. } => {}
        // Whose answers and errors are about what left with this node's address.
        Way::Through(_) => {
            let nodes = [source(), Expression::In(Table::NODES.to_owned())];
            rules.push(drop_of("nodes of this cluster call nobody by the overlay", nodes));
        }
    }
    rules.push(rule("to pods that are mapped", pods, Verdict::Accept));
    rules.push(drop_of("to nobody who is mapped", []));
    rules
}

/// After routing, and not in the hooks before it: what kube-proxy gives another destination in the
/// output hook is still said there to leave by the device of the first one.
fn leaving(wanted: &Wanted) -> Vec<PacketRule> {
    let to_pool = [destination()].into_iter().chain(within(wanted.pool));
    let not_node = [destination(), Expression::IsNot(address(wanted.node))];
    let elsewhere = devices(wanted).into_iter().flat_map(not_by);
    let in_clear = to_pool.chain(not_node).chain(elsewhere);
    vec![drop_of("to another cluster in clear", in_clear)]
}

fn sources(wanted: &Wanted) -> Vec<PacketRule> {
    let pods = || Expression::In(Table::PODS.to_owned());
    let by = || by(way(wanted)).into_iter();
    let own = [source(), pods()].into_iter().chain(has_no_mark(KUBE_PROXY_MARK));
    let others = [Expression::Value(address(wanted.node)), Expression::Snat];
    let from_pool = [source()].into_iter().chain(within(wanted.pool));
    let to_pods = [destination(), pods()].into_iter().chain(has_no_mark(KUBE_PROXY_MARK));
    // An accept would end this chain alone, and the pod network's would masquerade all the same.
    let keep = || [source(), Expression::Snat];
    let at_gateway = is_gateway_of_nodes(wanted).then(|| overlay::sources(wanted));
    let mut rules = at_gateway.unwrap_or_default();
    rules.extend([
        said("pods that are mapped keep their address", by().chain(own).chain(keep())),
        said("everybody else has the node's", by().chain(others)),
        said("other clusters' pods keep theirs", from_pool.chain(to_pods).chain(keep())),
    ]);
    rules
}
