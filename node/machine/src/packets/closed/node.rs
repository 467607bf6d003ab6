//! What a pod may send to its own node, which is reached by whatever listens there: answers, questions for
//! names, and to whoever has closed it in.

use super::scope::Scope;
use crate::family::Family;
use crate::limits;
use crate::packets::errors;
use crate::packets::expression::{Expression, Verdict, address, destination, is_protocol};
use crate::packets::protocols::{
    DESTINATION_PORT, ICMP_TYPE, SYN, SYN_AND_ACK, TCP, TCP_FLAGS, UDP,
};
use crate::packets::rule::{drop_of, rule};
use crate::packets::table::PacketRule;

/// The port of name servers (RFC 1035, section 4.2).
const NAMES: u16 = 53;
/// Whoever is called at the node itself has work for each of them.
const OF_NAMES: Expression =
    Expression::Limit { rate: limits::OF_NAMES_A_SECOND, burst: limits::OF_NAMES };
const OF_NAMES_BEGIN: Expression =
    Expression::Limit { rate: limits::OF_NAMES_BEGIN_A_SECOND, burst: limits::OF_NAMES_BEGIN };
const OF_NAMES_BY_TCP: Expression =
    Expression::Limit { rate: limits::OF_NAMES_BY_TCP_A_SECOND, burst: limits::OF_NAMES_BY_TCP };
const OF_GATE: Expression =
    Expression::Limit { rate: limits::OF_GATE_A_SECOND, burst: limits::OF_GATE };
/// The answer to an echo, of either family.
const ECHOED_V4: u8 = 0;
const ECHOED_V6: u8 = 129;

/// To where names are asked for. The address is the node's: so this comes before all else of it.
pub(super) fn to_names(scope: &Scope<'_>) -> Vec<PacketRule> {
    let names = scope.wanted.names.filter(|names| Family::of(*names) == scope.family);
    let Some(names) = names else { return Vec::new() };
    let there = [destination(scope.family), Expression::CmpEq(address(names))];
    let port = [DESTINATION_PORT, Expression::CmpEq(NAMES.to_be_bytes().to_vec())];
    let words: Vec<_> = there.into_iter().chain(port).collect();
    let of = |protocol| words.iter().cloned().chain(is_protocol(protocol));
    let flags = [TCP_FLAGS, Expression::Bitwise(vec![SYN_AND_ACK]), Expression::CmpEq(vec![SYN])];
    let mut rules = vec![
        drop_of("asks for names too often", of(UDP).chain([OF_NAMES])),
        drop_of("begins too often to ask for names", of(TCP).chain(flags).chain([OF_NAMES_BEGIN])),
        drop_of("asks for names too often by TCP", of(TCP).chain([OF_NAMES_BY_TCP])),
    ];
    rules.extend([UDP, TCP].map(|protocol| {
        let words = scope.whole(protocol).into_iter().chain(words.clone());
        rule("to ask for names", words, Verdict::Accept)
    }));
    rules
}

/// Answers, by what they are, whole: nothing is put together of them there.
pub(super) fn to_node(scope: &Scope<'_>) -> Vec<PacketRule> {
    let whole = |protocol| scope.whole(protocol);
    let bits = Expression::Bitwise(vec![SYN_AND_ACK]);
    let goes_on = [TCP_FLAGS, bits, Expression::CmpNeq(vec![SYN])];
    let tcp = whole(TCP).into_iter().chain(goes_on);
    let mut rules = vec![rule("connections that the node began", tcp, Verdict::Accept)];
    if scope.wanted.gate != 0 {
        let port = Expression::CmpEq(scope.wanted.gate.to_be_bytes().to_vec());
        let to_gate = whole(TCP).into_iter().chain([DESTINATION_PORT, port]);
        let often = to_gate.clone().chain([OF_GATE]);
        rules.push(drop_of("asks whoever has closed it in too often", often));
        rules.push(rule("to whoever has closed it in", to_gate, Verdict::Accept));
    }
    let echoed = match scope.family {
        Family::V4 => ECHOED_V4,
        Family::V6 => ECHOED_V6,
    };
    let is = |kind: u8| {
        whole(scope.icmp()).into_iter().chain([ICMP_TYPE, Expression::CmpEq(vec![kind])])
    };
    rules.push(rule("answers to echoes", is(echoed), Verdict::Accept));
    rules.extend(errors::kinds(scope.family).iter().map(|kind| {
        let words = is(*kind).chain(scope.is_in(errors::about(scope.family), "own"));
        rule("errors about what was sent to it", words, Verdict::Accept)
    }));
    rules.push(drop_of("to the node, and no answer", []));
    rules
}
