//! Tables by hand, of which each asks one thing.

use std::collections::BTreeMap;

use super::*;
use crate::family::Family;
use crate::packets::{
    Base, Chain, Expression, FrameBase, FrameChain, FrameTable, Hook, PacketRule, Rewritten, Side,
    Table, Verdict,
};

fn rule(comment: &str, expressions: &[Expression]) -> PacketRule {
    PacketRule { comment: comment.to_owned(), expressions: expressions.to_vec() }
}

fn drops(comment: &str) -> PacketRule {
    rule(comment, &[Expression::Verdict(Verdict::Drop)])
}

fn facts(conntrack: Conntrack) -> Facts<'static> {
    let used_up = &|_: &BoundOf<'_>| false;
    Facts { iifname: "eth0", oifname: "", mark: 0, conntrack, leads_back: true, used_up }
}

/// A datagram of IPv4 in a frame, whose sums are right.
fn datagram() -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 32, 0, 7, 0, 0, 64, 17, 0, 0, 10, 42, 0, 5, 10, 201, 4, 7];
    packet.extend([0x13, 0x88, 0x13, 0x88, 0, 12, 0, 0, b'?', b'?', b'?', b'?']);
    let sum = !sum_of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let pseudo = [&packet[12..20], &[0, 17, 0, 12], &packet[20..]].concat();
    packet[26..28].copy_from_slice(&(!sum_of(&pseudo)).to_be_bytes());
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 5, 8, 0][..], &packet].concat()
}

fn sum_of(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (folded + (folded >> 16)) as u16
}

fn frames(chains: Vec<(&str, Option<i32>, Vec<PacketRule>)>) -> FrameTable {
    let base = |priority| FrameBase {
        device: "eth0".to_owned(),
        side: Side::Out,
        priority,
        accepts: true,
    };
    let chains = chains.into_iter().map(|(name, priority, rules)| {
        (name.to_owned(), FrameChain { base: priority.map(base), rules })
    });
    FrameTable {
        name: "table".to_owned(),
        chains: chains.collect(),
        sets: BTreeMap::new(),
        nets: BTreeMap::new(),
        maps: [("map".to_owned(), [([10, 42, 0, 5].into(), [10, 1, 2, 3].into())].into())].into(),
    }
}

fn ask(table: &FrameTable) -> Result<Outcome<'_>, InterpretError> {
    let frame = Frame::sent(datagram(), 0x0800);
    at_device(&[table], "eth0", Side::Out, frame, &facts(Conntrack::Invalid))
}

#[test]
fn what_cannot_be_followed_is_an_error() {
    let goto = |chain: &str| rule("", &[Expression::Verdict(Verdict::Goto(chain.to_owned()))]);
    let of = |words: &[Expression]| frames(vec![("a", Some(0), vec![rule("b", words)])]);
    let network = |len| Expression::PayloadNetwork { offset: 12, len };
    let unknown = of(&[Expression::Other("quota".to_owned())]);
    assert!(matches!(ask(&unknown), Err(InterpretError::Unknown { .. })));
    let circle = frames(vec![("a", Some(0), vec![goto("b")]), ("b", None, vec![goto("b")])]);
    assert_eq!(ask(&circle), Err(InterpretError::Loop("b".to_owned())));
    for words in [
        &[Expression::Verdict(Verdict::Goto("nowhere".to_owned()))][..],
        &[network(4), Expression::Lookup("nobody".to_owned())],
        &[network(4), Expression::LookupDreg("nobody".to_owned())],
        &[network(4), Expression::Dynset("none".to_owned(), crate::packets::Bound::Connlimit(1))],
    ] {
        assert!(matches!(ask(&of(words)), Err(InterpretError::Missing { .. })), "{words:?}");
    }
    for words in [
        &[network(4), Expression::CmpEq(vec![0; 16])][..],
        &[network(4), Expression::Bitwise(vec![0; 16])],
        &[network(8), Expression::LookupDreg("map".to_owned())],
        &[network(4), Expression::Snat(Family::V6)],
    ] {
        assert!(matches!(ask(&of(words)), Err(InterpretError::Bytes { .. })), "{words:?}");
    }
}

#[test]
fn chains_are_asked_by_priority_and_each_accept_ends_its_own() {
    let accepts = rule("in", &[Expression::Verdict(Verdict::Accept)]);
    let table = frames(vec![
        ("a", Some(5), vec![drops("out")]),
        ("b", Some(-5), vec![accepts.clone(), drops("never")]),
        ("c", Some(0), vec![]),
    ]);
    let outcome = ask(&table).unwrap();
    let said: Vec<_> = outcome.decisions.iter().map(|it| (it.chain, it.rule, it.comment)).collect();
    assert_eq!(said, [("b", Some(0), "in"), ("c", None, ""), ("a", Some(0), "out")]);
    assert_eq!(outcome.passage, Passage::Dropped);
    // Of one priority, the chain that came last is the first.
    let table = frames(vec![("a", Some(0), vec![drops("a")]), ("b", Some(0), vec![drops("b")])]);
    assert_eq!(ask(&table).unwrap().reason().unwrap().comment, "b");
    // Who sees another device or side is not asked.
    let frame = Frame::received(datagram());
    let other = at_device(&[&table], "eth1", Side::Out, frame.clone(), &facts(Conntrack::Invalid));
    assert!(other.unwrap().decisions.is_empty());
    let other = at_device(&[&table], "eth0", Side::In, frame, &facts(Conntrack::Invalid));
    assert!(other.unwrap().has_passed());
}

#[test]
fn addresses_are_written_with_all_their_sums() {
    let words = [
        Expression::PayloadNetwork { offset: 12, len: 4 },
        Expression::LookupDreg("map".to_owned()),
        Expression::PayloadSet(Rewritten::Source),
    ];
    let table = frames(vec![("a", Some(0), vec![rule("b", &words)])]);
    let outcome = ask(&table).unwrap();
    let packet = &outcome.frame.bytes()[14..];
    assert_eq!(packet[12..16], [10, 1, 2, 3]);
    assert_eq!(sum_of(&packet[..20]), 0xffff);
    let pseudo = [&packet[12..20], &[0, 17, 0, 12], &packet[20..]].concat();
    assert_eq!(sum_of(&pseudo), 0xffff);
}

#[test]
fn frames_of_a_vlan_are_read_behind_its_tag() {
    let (plain, mut tagged) = (datagram(), datagram());
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let [plain, tagged] = [plain, tagged].map(Frame::received);
    assert_eq!(tagged.family(), Some(Family::V4));
    assert_eq!(tagged.without_link(), plain.without_link());
    assert_eq!(tagged.bytes()[12..14], [0x81, 0]);
}

#[test]
fn conntrack_is_known_behind_its_hook_and_passed_by_from_there() {
    let state = |bits: u32| [Expression::CtState, Expression::CmpEq(bits.to_ne_bytes().to_vec())];
    let goes = |words: &[Expression], last| {
        let words = words.iter().cloned().chain([Expression::Verdict(last)]);
        rule("of a state", &words.collect::<Vec<_>>())
    };
    let source = crate::packets::source(Family::V4);
    let early = [&state(1)[..], &[Expression::Notrack]].concat();
    let chain = |kind: &str, hook, priority, rules| {
        let base = Base { kind: kind.to_owned(), hook, priority, accepts: true };
        Chain { base: Some(base), rules }
    };
    let table = |notracks: bool| Table {
        family: Family::V4,
        name: "table".to_owned(),
        chains: [
            (
                "a",
                chain(
                    "filter",
                    Hook::Prerouting,
                    -300,
                    vec![rule("", if notracks { &early } else { &[] })],
                ),
            ),
            ("b", chain("filter", Hook::Prerouting, 0, vec![goes(&state(1 << 6), Verdict::Drop)])),
            (
                "c",
                chain(
                    "nat",
                    Hook::Postrouting,
                    0,
                    vec![rule("own", &[source.clone(), Expression::Snat(Family::V4)])],
                ),
            ),
            ("d", chain("nat", Hook::Postrouting, 1, vec![drops("never")])),
        ]
        .map(|(name, chain)| (name.to_owned(), chain))
        .into(),
        sets: BTreeMap::new(),
        nets: BTreeMap::new(),
        tallies: BTreeMap::new(),
    };
    let packet = || Frame::received(datagram()).without_link();
    let begins = Connection::begins([10, 42, 0, 5].into());
    let connection = facts(Conntrack::Connection(begins));
    let (tracked, passed_by) = (table(false), table(true));
    assert!(at_hook(&[&tracked], Hook::Prerouting, packet(), &connection).unwrap().has_passed());
    let outcome = at_hook(&[&passed_by], Hook::Prerouting, packet(), &connection).unwrap();
    assert_eq!((outcome.notrack, outcome.passage), (true, Passage::Dropped));
    let leaves = at_hook(&[&tracked], Hook::Postrouting, packet(), &connection).unwrap();
    assert_eq!((leaves.snat, leaves.passage), (Some([10, 42, 0, 5].into()), Passage::Passed));
    // Of a connection that has a source, and of none, such chains are not asked.
    let goes_on = Connection { status: Connection::IPS_CONFIRMED, ..begins };
    for conntrack in [Conntrack::Connection(goes_on), Conntrack::Untracked] {
        let leaves = at_hook(&[&tracked], Hook::Postrouting, packet(), &facts(conntrack)).unwrap();
        assert_eq!((leaves.snat, leaves.decisions.len()), (None, 0));
    }
}
