//! Seventeen wrong rules, each as a function on tables that are right.

use std::net::IpAddr;

use ipnet::IpNet;
use mercato_machine::{Expression, Family, FrameTable, PacketRule, Table, Verdict};

use crate::world::{NOT_OPEN, Tables};

type Plants = fn(&mut Tables);

/// Each by what is wrong.
pub(crate) const PLANTED: &[(&str, Plants)] = &[
    ("a bound left out", |tables| {
        for table in both(tables) {
            retain(table, |rule| rule.comment != "asks for names too often");
        }
    }),
    ("a set of the wrong family", |tables| {
        for word in both(tables).into_iter().flat_map(words) {
            if *word == Expression::LookupInv("own_four".to_owned()) {
                *word = Expression::LookupInv("own_six".to_owned());
            }
        }
    }),
    ("an accept before the drop", |tables| {
        for table in both(tables) {
            for chain in table.chains.values_mut() {
                let is_it = |rule: &PacketRule| rule.comment == "to the node, and no answer";
                if let Some(at) = chain.rules.iter().position(is_it) {
                    chain.rules.insert(at, accept(&[]));
                }
            }
        }
    }),
    ("an ICMP error judged by type alone", |tables| {
        for table in both(tables) {
            for rule in table.chains.values_mut().flat_map(|chain| &mut chain.rules) {
                if rule.comment == "errors about what was sent to it" {
                    let last = rule.expressions.len() - 1;
                    rule.expressions.drain(last - 2..last);
                }
            }
        }
    }),
    ("port 53 without a listener", |tables| {
        let [four, _] = &mut tables.node;
        if let Some(names) = four.sets.get_mut(Table::NAMES) {
            names.insert(IpAddr::from([10, 207, 255, 254]));
        }
    }),
    ("a mapped range one bit too wide", |tables| {
        for table in both(tables) {
            for ranges in table.nets.values_mut() {
                let wide = |range: &IpNet| range.supernet().filter(|_| range.prefix_len() > 20);
                if let Some(wide) = ranges.first().and_then(wide) {
                    ranges.retain(|range| !wide.contains(range));
                    ranges.insert(wide);
                }
            }
        }
    }),
    ("a Service of a namespace that is not open", |tables| {
        for table in both(tables) {
            for ranges in table.nets.values_mut() {
                if ranges.first().is_some_and(|range| range.addr().is_ipv4()) {
                    ranges.insert(IpNet::from(IpAddr::from([10, 97, NOT_OPEN, 7])));
                }
            }
        }
    }),
    ("replies accepted by state alone", |tables| {
        for rule in tables.node.iter_mut().flat_map(rules_of) {
            if rule.comment == "answers of guests" {
                let at = rule.expressions.iter().position(|it| *it == Expression::CtDirection);
                let at = at.expect("it asks for the direction");
                rule.expressions.drain(at..at + 2);
            }
        }
    }),
    ("link-local", |tables| {
        let beginning = Expression::PayloadNetwork { offset: 24, len: 2 };
        let link =
            [beginning, Expression::Bitwise(vec![0xff, 0xc0]), Expression::CmpEq(vec![0xfe, 0x80])];
        for table in both(tables) {
            if let Some(chain) = table.chains.get_mut("to_six") {
                chain.rules.insert(0, accept(&link));
            }
        }
    }),
    ("a neighbour's address", |tables| {
        for table in both(tables) {
            if let Some(own) = table.sets.get_mut("own_four") {
                let neighbours = own.iter().filter_map(|own| match own {
                    IpAddr::V4(own) => Some(IpAddr::from((u32::from(*own) ^ 1).to_be_bytes())),
                    IpAddr::V6(_) => None,
                });
                let neighbours: Vec<_> = neighbours.collect();
                own.extend(neighbours);
            }
        }
    }),
    ("what nobody reaches left out", |tables| {
        for table in both(tables) {
            retain(table, |rule| rule.comment != "to whom no guest goes");
        }
    }),
    ("6to4", |tables| {
        for never in both(tables).into_iter().filter_map(|table| table.nets.get_mut("never_six")) {
            never.remove(&"2002::/16".parse().unwrap());
        }
    }),
    ("mail", |tables| {
        for chain in tables.node.iter_mut().flat_map(|table| table.chains.values_mut()) {
            chain.rules.retain(|rule| rule.comment != "mail");
        }
    }),
    ("headers before what is in the packet", |tables| {
        for table in both(tables) {
            retain(table, |rule| rule.comment != "with options or further headers");
        }
    }),
    ("the world begins", |tables| {
        for table in both(tables) {
            retain(table, |rule| rule.comment != "begins in the world");
        }
    }),
    ("what no contract names", |tables| {
        for chain in tables.node.iter_mut().flat_map(|table| table.chains.values_mut()) {
            chain.rules.retain(|rule| rule.comment != "to what no contract names");
        }
    }),
    ("IPv6 forgotten", |tables| {
        for table in tables.node.iter_mut().filter(|table| table.family == Family::V6) {
            table.sets.entry(Table::GUESTS.to_owned()).or_default().clear();
        }
    }),
];

fn both(tables: &mut Tables) -> [&mut FrameTable; 2] {
    [&mut tables.own, &mut tables.at_node]
}

fn retain(table: &mut FrameTable, keeps: impl Fn(&PacketRule) -> bool) {
    for chain in table.chains.values_mut() {
        chain.rules.retain(&keeps);
    }
}

fn words(table: &mut FrameTable) -> impl Iterator<Item = &mut Expression> {
    let rules = table.chains.values_mut().flat_map(|chain| &mut chain.rules);
    rules.flat_map(|rule| &mut rule.expressions)
}

fn rules_of(table: &mut Table) -> impl Iterator<Item = &mut PacketRule> {
    table.chains.values_mut().flat_map(|chain| &mut chain.rules)
}

fn accept(conditions: &[Expression]) -> PacketRule {
    let words = conditions.iter().cloned().chain([Expression::Verdict(Verdict::Accept)]);
    PacketRule { comment: "planted".to_owned(), expressions: words.collect() }
}
