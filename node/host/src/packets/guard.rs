//! Our rules. What they keep: a pod of this node that is mapped keeps its source, everybody else
//! has the node's; from other clusters nothing reaches the machine but pods that are mapped, and
//! answers; nothing to another cluster leaves by another device, or comes from one.

use std::collections::BTreeMap;

use super::expression::{
    Expression, Verdict, address, destination, has_no_mark, is_established_or_related, is_reply,
    name, source, within,
};
use super::table::{Base, Chain, Hook, PacketRule, Table};
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

/// The table that should be in force.
pub fn guard(wanted: &Wanted) -> Table {
    Table {
        name: Table::NAME.to_owned(),
        chains: chains(wanted),
        sets: BTreeMap::from([(Table::PODS.to_owned(), wanted.pods.clone())]),
    }
}

fn chains(wanted: &Wanted) -> BTreeMap<String, Chain> {
    let filter = |hook, priority| Base { kind: "filter".to_owned(), hook, priority, accepts: true };
    let nat = Base {
        kind: "nat".to_owned(),
        hook: Hook::Postrouting,
        priority: BEFORE_MASQUERADE,
        accepts: true,
    };
    let chains = [
        ("arriving", Some(filter(Hook::Prerouting, RAW)), arriving(wanted)),
        ("input", Some(filter(Hook::Input, BEFORE_FILTERS)), input(wanted)),
        ("forward", Some(filter(Hook::Forward, BEFORE_FILTERS)), forward(wanted)),
        (FROM_DEVICE, None, from_device(wanted)),
        ("leaving", Some(filter(Hook::Postrouting, BEFORE_FILTERS)), leaving(wanted)),
        ("sources", Some(nat), sources(wanted)),
    ];
    let named = |(name, base, rules): (&str, Option<Base>, Vec<PacketRule>)| {
        (name.to_owned(), Chain { base, rules })
    };
    chains.map(named).into()
}

fn arriving(wanted: &Wanted) -> Vec<PacketRule> {
    let forged = [source()].into_iter().chain(within(wanted.pool));
    let elsewhere = [
        Expression::InputName,
        Expression::IsNot(name(&wanted.marks.device)),
        Expression::InputName,
        Expression::IsNot(name(LOOPBACK)),
    ];
    // Dropped here and not when it is forwarded: the kernel would have sent a redirect by then.
    let back = [from(wanted), vec![destination()], within(wanted.pool).to_vec()].concat();
    let not_node = [destination(), Expression::IsNot(address(wanted.node))];
    vec![
        drop_of("source of another cluster from elsewhere", forged.chain(elsewhere)),
        drop_of("from another cluster to another cluster", back.into_iter().chain(not_node)),
    ]
}

fn input(wanted: &Wanted) -> Vec<PacketRule> {
    let answers = from(wanted).into_iter().chain(is_established_or_related());
    vec![
        rule("answers to the node, and errors about what it sent", answers, Verdict::Accept),
        drop_of("the node is not called from other clusters", from(wanted)),
    ]
}

fn forward(wanted: &Wanted) -> Vec<PacketRule> {
    let goto = Verdict::Goto(FROM_DEVICE.to_owned());
    vec![rule("from other clusters", from(wanted), goto)]
}

/// The last rule drops, and each before it accepts: where conntrack knows nothing of a packet, a
/// condition about connections is not met.
fn from_device(wanted: &Wanted) -> Vec<PacketRule> {
    let pods = [destination(), Expression::In(Table::PODS.to_owned())];
    // Whoever has called with the node's address: a pod that is not mapped, a client of a NodePort.
    let node = Expression::Is(address(wanted.node));
    let answers = is_reply().into_iter().chain([Expression::ReplyDestination, node]);
    vec![
        drop_of("from the device to the device", to(wanted)),
        rule("to pods that are mapped", pods, Verdict::Accept),
        rule("answers to what left with the node's address", answers, Verdict::Accept),
        drop_of("to nobody who is mapped", []),
    ]
}

/// After routing, and not in the hooks before it: what kube-proxy gives another destination in the
/// output hook is still said there to leave by the device of the first one.
fn leaving(wanted: &Wanted) -> Vec<PacketRule> {
    let to_pool = [destination()].into_iter().chain(within(wanted.pool));
    let elsewhere = [
        destination(),
        Expression::IsNot(address(wanted.node)),
        Expression::OutputName,
        Expression::IsNot(name(&wanted.marks.device)),
    ];
    vec![drop_of("to another cluster in clear", to_pool.chain(elsewhere))]
}

fn sources(wanted: &Wanted) -> Vec<PacketRule> {
    let pods = || Expression::In(Table::PODS.to_owned());
    let own = [source(), pods()].into_iter().chain(has_no_mark(KUBE_PROXY_MARK));
    let others = [Expression::Value(address(wanted.node)), Expression::Snat];
    let from_pool = [source()].into_iter().chain(within(wanted.pool));
    let to_pods = [destination(), pods()].into_iter().chain(has_no_mark(KUBE_PROXY_MARK));
    // An accept would end this chain alone, and the pod network's would masquerade all the same.
    let keep = [source(), Expression::Snat];
    let said = |comment: &str, expressions: Vec<Expression>| PacketRule {
        comment: comment.to_owned(),
        expressions,
    };
    vec![
        said(
            "pods that are mapped keep their address",
            to(wanted).into_iter().chain(own).chain(keep.clone()).collect(),
        ),
        said("everybody else has the node's", to(wanted).into_iter().chain(others).collect()),
        said("other clusters' pods keep theirs", from_pool.chain(to_pods).chain(keep).collect()),
    ]
}

fn from(wanted: &Wanted) -> Vec<Expression> {
    vec![Expression::InputName, Expression::Is(name(&wanted.marks.device))]
}

fn to(wanted: &Wanted) -> Vec<Expression> {
    vec![Expression::OutputName, Expression::Is(name(&wanted.marks.device))]
}

fn drop_of(comment: &str, conditions: impl IntoIterator<Item = Expression>) -> PacketRule {
    let counted = conditions.into_iter().chain([Expression::Count]);
    rule(comment, counted, Verdict::Drop)
}

fn rule(
    comment: &str,
    conditions: impl IntoIterator<Item = Expression>,
    verdict: Verdict,
) -> PacketRule {
    let expressions = conditions.into_iter().chain([Expression::Verdict(verdict)]).collect();
    PacketRule { comment: comment.to_owned(), expressions }
}
