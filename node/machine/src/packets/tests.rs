//! Whoever is let in by a rule, and may begin something with it that takes room on the node, has a bound
//! before that rule: asked of all rules that there are, by every way that leads to them.

mod names;
mod outward;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::expression::{begins, by, destination, from, not_by, source};
use super::table::Side;
use super::*;
use crate::closed::Closed;
use crate::family::{Family, Place};
use crate::overlay::{Mac, Overlay, Way};
use crate::wanted::{ApiWay, Marks, NamesWay, Wanted};

/// What is loaded, with the bits of it that count, and what it is compared with.
type Condition = (Vec<Expression>, Expression);

/// What keeps somebody from doing without an end what passes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Connections,
    Beginnings,
    Rate,
}

/// A rule, by what it asks.
struct Read {
    conditions: Vec<Condition>,
    bound: Option<Kind>,
    verdict: Option<Verdict>,
}

impl Read {
    fn of(rule: &PacketRule) -> Self {
        let mut read = Self { conditions: Vec::new(), bound: None, verdict: None };
        let mut loaded = Vec::new();
        for word in &rule.expressions {
            match word {
                Expression::Bitwise(_) => loaded.push(word.clone()),
                Expression::CmpEq(_)
                | Expression::CmpNeq(_)
                | Expression::Lookup(_)
                | Expression::LookupInv(_)
                | Expression::LookupDreg(_) => read.conditions.push((loaded.clone(), word.clone())),
                Expression::Dynset(_, bound) => {
                    read.bound = Some(match bound {
                        Bound::Connlimit(_) => Kind::Connections,
                        Bound::Limit { .. } => Kind::Beginnings,
                    });
                }
                Expression::Limit { .. } => read.bound = Some(Kind::Rate),
                Expression::Verdict(verdict) => read.verdict = Some(verdict.clone()),
                Expression::Counter
                | Expression::PayloadSet(_)
                | Expression::Masquerade
                | Expression::Snat(_)
                | Expression::Notrack => {}
                Expression::MetaIifname
                | Expression::MetaOifname
                | Expression::MetaMark
                | Expression::CtState
                | Expression::CtStatus
                | Expression::CtDirection
                | Expression::CtReplyDst(_)
                | Expression::FibSaddrIifPresent
                | Expression::MetaL4Proto
                | Expression::MetaProtocol
                | Expression::PayloadLl { .. }
                | Expression::PayloadNetwork { .. }
                | Expression::PayloadTransport { .. }
                | Expression::Immediate(_)
                | Expression::Other(_) => loaded = vec![word.clone()],
            }
        }
        read
    }
}

/// What is known of a packet where it is, and which bounds it has passed.
#[derive(Clone, Default)]
struct Packet {
    known: Vec<Condition>,
    passed: Vec<(Kind, Vec<Condition>)>,
}

impl Packet {
    fn of(words: impl IntoIterator<Item = Expression>) -> Self {
        let expressions = words.into_iter().collect();
        let known = Read::of(&PacketRule { comment: String::new(), expressions }).conditions;
        Self { known, passed: Vec::new() }
    }

    fn meets(&self, conditions: &[Condition]) -> bool {
        conditions.iter().all(|condition| self.known.contains(condition))
    }

    /// Whether it cannot meet them: the same is known to be something else.
    fn never_meets(&self, conditions: &[Condition]) -> bool {
        let contradicts = |one: &Expression, other: &Expression| match (one, other) {
            (Expression::CmpEq(one), Expression::CmpEq(other)) => one != other,
            (Expression::CmpEq(one), Expression::CmpNeq(other))
            | (Expression::CmpNeq(other), Expression::CmpEq(one)) => one == other,
            (Expression::Lookup(one), Expression::LookupInv(other))
            | (Expression::LookupInv(other), Expression::Lookup(one)) => one == other,
            _ => false,
        };
        conditions.iter().any(|(loaded, is)| {
            self.known.iter().any(|(known, other)| known == loaded && contradicts(is, other))
        })
    }

    fn with(&self, conditions: &[Condition]) -> Self {
        let mut with = self.clone();
        with.known.extend_from_slice(conditions);
        with
    }

    fn has_passed(&self, kinds: &[Kind]) -> bool {
        let has = |kind: &Kind| self.passed.iter().any(|(it, of)| it == kind && self.meets(of));
        kinds.iter().all(has)
    }
}

/// All ways of a packet through the chains of a table.
struct Ways<'a> {
    chains: BTreeMap<&'a str, &'a [PacketRule]>,
    /// Whether it passes where no rule speaks of it.
    accepts: bool,
    needs: &'a [Kind],
    /// What such a packet takes no room with.
    takes_none: fn(&Condition) -> bool,
    /// Who is let in with these bounds, and who without one of them.
    bounded: BTreeSet<String>,
    unbounded: BTreeSet<String>,
}

impl Ways<'_> {
    fn go(&mut self, chain: &str, mut packet: Packet) {
        for rule in self.chains[chain] {
            let Read { conditions, bound, verdict } = Read::of(rule);
            if packet.never_meets(&conditions) {
                continue;
            }
            match (verdict, bound) {
                (Some(Verdict::Drop), Some(kind)) => packet.passed.push((kind, conditions)),
                (Some(Verdict::Drop | Verdict::Reject(_)), None) if packet.meets(&conditions) => {
                    return;
                }
                (Some(Verdict::Drop | Verdict::Reject(_)), None) | (None, _) => {}
                (Some(verdict), _) => {
                    let with = packet.with(&conditions);
                    match verdict {
                        Verdict::Goto(chain) => self.go(&chain, with),
                        Verdict::Accept | Verdict::Drop | Verdict::Reject(_) => {
                            self.let_in(&rule.comment, &with);
                        }
                    }
                    if packet.meets(&conditions) {
                        return;
                    }
                }
            }
        }
        if self.accepts {
            self.let_in(&format!("whoever passes {chain}"), &packet);
        }
    }

    fn let_in(&mut self, comment: &str, packet: &Packet) {
        if packet.known.iter().any(self.takes_none) {
            return;
        }
        let has = packet.has_passed(self.needs);
        let them = if has { &mut self.bounded } else { &mut self.unbounded };
        them.insert(comment.to_owned());
    }
}

fn net<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// A machine that has all that there may be: the gateway's, with other nodes and without, and another one.
fn machines() -> [Wanted; 3] {
    let overlay = Overlay {
        vni: Overlay::VNI,
        port: Overlay::PORT,
        local: net("192.0.2.1"),
        mtu: 1_330,
        nodes: ["10.201.0.2", "fd00:c8::2"].map(|node| (net(node), net("192.0.2.2"))).into(),
    };
    let ranges =
        ["10.201.4.0/24", "10.202.5.0/25", "10.203.6.0/24", "fd00:c8:4::/120", "fd00:c8:5::/121"];
    let api = ApiWay { address: net("10.207.255.253"), callers: [net("10.201.4.7")].into() };
    let gateway = Wanted {
        marks: Marks::default(),
        mtu: 1_380,
        pool: net("10.200.0.0/13"),
        node: net("10.201.0.1"),
        second: Some(Place { pool: net("fd00:c8::/32"), node: net("fd00:c8::1") }),
        names: Some(NamesWay { address: net("10.207.255.254"), listens: true }),
        api: Some(api),
        ranges: ranges.map(net).into(),
        homes: [net("10.203.6.0/24")].into(),
        pods: ["10.42.0.5", "fd42::5"].map(net).into(),
        guests: ["10.42.0.5", "fd42::5"].map(net).into(),
        outward: outward::of_both(),
        way: Way::Device { elsewhere: [(net("10.42.1.5"), net("10.201.0.2"))].into() },
        overlay: Some(overlay),
    };
    let way = Way::Through(net("10.201.0.2"));
    let node = Wanted { way, api: None, ..gateway.clone() };
    let alone = Wanted { way: Way::default(), overlay: None, ..gateway.clone() };
    [gateway, node, alone]
}

/// What conntrack has a connection for already, or never takes one up for.
fn begins_nothing((loaded, is): &Condition) -> bool {
    match (&loaded[..], is) {
        ([Expression::CtState, ..], Expression::CmpNeq(_)) => true,
        ([Expression::CtDirection], Expression::CmpEq(reply)) => reply == &[1],
        // Which it passes by: `questions_for_names_are_bounded_and_untracked`.
        (_, Expression::Lookup(set)) => set == Table::NAMES,
        // Of ICMPv6, of neighbours (`nf_conntrack_proto_icmpv6.c`).
        ([Expression::PayloadTransport { offset: 0, len: 1 }], Expression::CmpEq(kind)) => {
            kind == &[135] || kind == &[136]
        }
        _ => false,
    }
}

/// Who is somebody else's: by where it comes from, and by whom it goes to.
fn of_others(wanted: &Wanted, family: Family) -> [Vec<Expression>; 3] {
    let device = match wanted.way {
        Way::Device { .. } => &wanted.marks.device,
        Way::Through(_) => &wanted.marks.overlay,
    };
    let guests = || Expression::Lookup(Table::GUESTS.to_owned());
    // Who is a guest here is at a device of its own.
    let to_guest = [destination(family), guests()].into_iter().chain(not_by(device));
    [from(device).into(), vec![source(family), guests()], to_guest.collect()]
}

/// Who passes the chains of these hooks of a machine's table, with both bounds and without.
fn let_in(wanted: &Wanted, family: Family) -> [BTreeSet<String>; 2] {
    let table = guard(wanted, family, Some("eth0"));
    let chains: BTreeMap<_, _> =
        table.chains.iter().map(|(name, chain)| (&**name, &*chain.rules)).collect();
    let mut ways = Ways {
        chains,
        accepts: true,
        needs: &[Kind::Beginnings, Kind::Connections],
        takes_none: begins_nothing,
        bounded: BTreeSet::new(),
        unbounded: BTreeSet::new(),
    };
    let hooked = |hook: Hook| {
        let is_there = move |chain: &&Chain| chain.base.as_ref().is_some_and(|it| it.hook == hook);
        table.chains.iter().filter(move |(_, chain)| is_there(chain))
    };
    for words in of_others(wanted, family) {
        let packet = Packet::of(words.into_iter().chain(begins()));
        let drops = |rule: &PacketRule| {
            let Read { conditions, verdict, bound } = Read::of(rule);
            verdict == Some(Verdict::Drop) && bound.is_none() && packet.meets(&conditions)
        };
        if hooked(Hook::Prerouting).any(|(_, chain)| chain.rules.iter().any(drops)) {
            continue;
        }
        for (name, chain) in hooked(Hook::Input).chain(hooked(Hook::Forward)) {
            ways.accepts = chain.base.as_ref().is_some_and(|base| base.accepts);
            // To a guest's own address nothing comes in that is for the machine.
            let is_to_guest = packet.known.iter().any(|(it, _)| it[..] == [destination(family)]);
            if !is_to_guest || name != "input" {
                ways.go(name, packet.clone());
            }
        }
    }
    [ways.bounded, ways.unbounded]
}

#[test]
fn whoever_is_let_in_has_a_bound() {
    let mut bounded = BTreeSet::new();
    for (number, wanted) in machines().iter().enumerate() {
        assert_eq!(wanted.check(), Ok(()));
        for wanted in [wanted.clone(), wanted.first_alone()] {
            for family in Family::ALL {
                let [with, without] = let_in(&wanted, family);
                assert!(without.is_empty(), "machine {number}, {family}, no bound: {without:#?}");
                bounded.extend(with);
            }
        }
    }
    for who in [
        "guests call the API server of their home",
        "to a guest that runs there",
        "to pods of other nodes that are mapped",
        "to pods that are mapped",
        "whoever passes forward",
    ] {
        assert!(bounded.contains(who), "{who} is no rule any more: {bounded:#?}");
    }
}

/// What leads past the node is bounded there; and who answers begins nothing.
fn takes_none_of_the_node((loaded, is): &Condition) -> bool {
    match (&loaded[..], is) {
        (_, Expression::Lookup(set)) => set.starts_with("reached_"),
        ([Expression::PayloadTransport { offset: 13, len: 1 }, _], Expression::CmpNeq(_)) => true,
        ([Expression::PayloadTransport { offset: 0, len: 1 }], Expression::CmpEq(kind)) => {
            // Answers to echoes and errors, of either family.
            matches!(kind[..], [0..=4 | 11 | 12 | 129])
        }
        _ => false,
    }
}

#[test]
fn a_closed_guest_has_a_rate_for_whatever_its_node_takes_from_it() {
    let own: BTreeSet<IpAddr> = ["10.42.0.5", "fd42::5"].map(net).into();
    let node = ["10.42.0.1", "10.207.255.254", "fd42::1"].map(net).into();
    let closed = Closed {
        gate: 7_479,
        names: Some(net("10.207.255.254")),
        services: [(net("10.96.0.7"), net("10.97.0.7"))].into(),
        called: Some(net("10.201.3.7")),
        own,
        reached: ["10.201.4.0/24", "10.202.0.0/25", "fd00:c8:4::/120"].map(net).into(),
        node,
        // That nothing of egress comes to the node is seen by frames (`tests/frames`).
        ..Closed::default()
    };
    let interface = Interface { name: "eth0".to_owned(), mac: Mac([2; 6]), of_link: [].into() };
    let at_node = closed_at_node(&closed, &interface, "mercato-7".to_owned(), "pod0");
    for (table, side) in [(super::closed(&closed, &interface), Side::Out), (at_node, Side::In)] {
        let chains = table.chains.iter().map(|(name, chain)| (&**name, &*chain.rules)).collect();
        let mut ways = Ways {
            chains,
            accepts: false,
            needs: &[Kind::Rate],
            takes_none: takes_none_of_the_node,
            bounded: BTreeSet::new(),
            unbounded: BTreeSet::new(),
        };
        let leaves = |chain: &&FrameChain| {
            chain.base.as_ref().is_some_and(|base| base.side == side && !base.accepts)
        };
        let bases: Vec<_> = table.chains.iter().filter(|(_, chain)| leaves(chain)).collect();
        assert_eq!(bases.len(), 1, "{:?}", table.chains.keys());
        ways.go(bases[0].0, Packet::default());
        assert!(ways.unbounded.is_empty(), "{} has no rate: {:#?}", table.name, ways.unbounded);
        for who in [
            "asks neighbours, as who it is",
            "on the link",
            "to ask for names",
            "to whoever has closed it in",
        ] {
            assert!(ways.bounded.contains(who), "{who}: {:#?}", ways.bounded);
        }
    }
}

/// It is seen, where there is one without.
#[test]
fn a_rule_without_a_bound_is_found() {
    let accepts = |words: &[Expression]| PacketRule {
        comment: "new".to_owned(),
        expressions: words.iter().cloned().chain([Expression::Verdict(Verdict::Accept)]).collect(),
    };
    let to = |family| [destination(family), Expression::Lookup(Table::PODS.to_owned())];
    let family = Family::V4;
    let guest = [source(family), Expression::Lookup(Table::GUESTS.to_owned())];
    // One that speaks of others than the rule does, and one after it, are none.
    let other = bounds::of(&source(family), &to(family));
    let after = bounds::of(&source(family), &guest);
    for (rules, is_bounded) in [
        (vec![accepts(&guest)], false),
        ([other.clone(), vec![accepts(&guest)]].concat(), false),
        ([vec![accepts(&guest)], after.clone()].concat(), false),
        ([vec![after[0].clone()], vec![accepts(&guest)]].concat(), false),
        ([vec![after[1].clone()], vec![accepts(&guest)]].concat(), false),
        ([after.clone(), vec![accepts(&guest)]].concat(), true),
        ([after, vec![accepts(&by("mercato0"))]].concat(), true),
    ] {
        let mut ways = Ways {
            chains: [("input", &*rules)].into(),
            accepts: false,
            needs: &[Kind::Beginnings, Kind::Connections],
            takes_none: begins_nothing,
            bounded: BTreeSet::new(),
            unbounded: BTreeSet::new(),
        };
        ways.go("input", Packet::of(guest.iter().cloned().chain(begins())));
        assert_eq!(ways.unbounded.is_empty(), is_bounded, "{rules:#?}");
    }
}
