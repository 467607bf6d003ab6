//! What a closed pod may send to the world beyond clusters, and what may come from there. What it never
//! reaches is dropped first: a network that it has bought may have that in it.

use std::collections::BTreeSet;

use ipnet::{IpNet, Ipv6Net};

use super::scope::Scope;
use crate::egress::Egress;
use crate::family::Family;
use crate::packets::errors;
use crate::packets::expression::{
    Expression, Rewritten, Verdict, destination, is_protocol, source, within,
};
use crate::packets::frames::FrameTable;
use crate::packets::protocols::{
    DESTINATION_PORT, ICMP_TYPE, ICMPV6, MAIL, SYN, SYN_AND_ACK, TCP, TCP_FLAGS, UDP,
};
use crate::packets::rule::{drop_of, rule};
use crate::packets::scope::apart;
use crate::packets::table::PacketRule;

/// The sets of networks that it never reaches, and of those that are named.
const NEVER: &str = "never";
const NAMED: &str = "named";
/// A header of IPv4 without options, in words of four bytes (RFC 791, section 3.1).
const PLAIN_V4: u8 = 5;
/// Of IPv6, whom an error is about: the source of the packet that stands behind 8 bytes.
const ABOUT_ITSELF_V6: Expression = Expression::PayloadTransport { offset: 8 + 8, len: 16 };

/// The Internet of IPv6: all unicast that is handed out (RFC 4291, section 2.4).
pub(in crate::packets) fn internet_v6() -> IpNet {
    Ipv6Net::new_assert(std::net::Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3).into()
}

/// What it sends, after all that is nearer. Later parts of a packet are let through by where they go: the
/// node puts them together before it looks.
pub(super) fn leaving(scope: &Scope<'_>) -> Vec<PacketRule> {
    if !goes_out(scope) {
        return Vec::new();
    }
    let to = destination(scope.family);
    let mail = [DESTINATION_PORT, Expression::CmpEq(MAIL.to_be_bytes().to_vec())];
    let mut rules = never(scope, &to, "to whom no guest goes");
    rules.push(drop_of("with options or further headers", further_headers(scope.family)));
    rules.push(drop_of("mail", is_protocol(TCP).into_iter().chain(mail)));
    rules.push(rule("to the world", outside(scope, to), Verdict::Accept));
    rules
}

/// What comes to it, after all that is nearer: errors about what it has sent itself, by whatever router, and
/// nobody who calls it.
pub(super) fn arriving(scope: &Scope<'_>) -> Vec<PacketRule> {
    if !goes_out(scope) {
        return Vec::new();
    }
    let from = source(scope.family);
    let itself = match scope.family {
        Family::V4 => Rewritten::ErrorSource.load(),
        Family::V6 => ABOUT_ITSELF_V6,
    };
    let error = |kind: &u8| {
        let is = [ICMP_TYPE, Expression::CmpEq(vec![*kind])];
        let words = is_protocol(scope.icmp()).into_iter().chain(is);
        let words = words.chain(scope.is_in(itself.clone(), "own"));
        rule("errors about what it has sent", words, Verdict::Accept)
    };
    let mut rules: Vec<_> = errors::kinds(scope.family).iter().map(error).collect();
    rules.extend(never(scope, &from, "from whom no guest calls"));
    let flags = [TCP_FLAGS, Expression::Bitwise(vec![SYN_AND_ACK]), Expression::CmpEq(vec![SYN])];
    rules.push(drop_of("begins in the world", is_protocol(TCP).into_iter().chain(flags)));
    rules.push(rule("from the world", outside(scope, from), Verdict::Accept));
    rules
}

/// Adds the networks that these rules ask for.
pub(super) fn name(table: &mut FrameTable, scope: &Scope<'_>) {
    if goes_out(scope) {
        let sets = [(NEVER, nets(scope, &scope.wanted.never)), (NAMED, named(scope))];
        let sets = sets.into_iter().filter(|(_, nets)| !nets.is_empty());
        table.nets.extend(sets.map(|(what, nets)| (scope.name(what), nets)));
    }
}

/// What is in the packet does not follow its own header.
fn further_headers(family: Family) -> Vec<Expression> {
    match family {
        Family::V4 => {
            let length = Expression::PayloadNetwork { offset: 0, len: 1 };
            vec![length, Expression::Bitwise(vec![0x0f]), Expression::CmpNeq(vec![PLAIN_V4])]
        }
        Family::V6 => {
            let next = Expression::PayloadNetwork { offset: 6, len: 1 };
            let none = [TCP, UDP, ICMPV6].map(|protocol| Expression::CmpNeq(vec![protocol]));
            [next].into_iter().chain(none).collect()
        }
    }
}

/// Whether it reaches anybody of this family beyond clusters.
fn goes_out(scope: &Scope<'_>) -> bool {
    match &scope.wanted.egress {
        Egress::None => false,
        Egress::Named(_) => !named(scope).is_empty(),
        Egress::Internet => true,
    }
}

fn named(scope: &Scope<'_>) -> BTreeSet<IpNet> {
    match &scope.wanted.egress {
        Egress::None | Egress::Internet => BTreeSet::new(),
        Egress::Named(named) => nets(scope, named),
    }
}

fn nets(scope: &Scope<'_>, nets: &BTreeSet<IpNet>) -> BTreeSet<IpNet> {
    let is_here = |net: &&IpNet| Family::of_net(**net) == scope.family;
    apart(nets.iter().filter(is_here).copied().collect())
}

fn never(scope: &Scope<'_>, loaded: &Expression, comment: &str) -> Vec<PacketRule> {
    let is_there = !nets(scope, &scope.wanted.never).is_empty();
    let never = is_there.then(|| drop_of(comment, scope.is_in(loaded.clone(), NEVER)));
    never.into_iter().collect()
}

/// What is loaded is of the Internet, and of what it may reach there.
fn outside(scope: &Scope<'_>, loaded: Expression) -> Vec<Expression> {
    let mut words = match scope.family {
        Family::V4 => Vec::new(),
        Family::V6 => {
            let internet = within(internet_v6());
            [loaded.clone()].into_iter().chain(internet).collect()
        }
    };
    match scope.wanted.egress {
        Egress::Named(_) => words.extend(scope.is_in(loaded, NAMED)),
        Egress::None | Egress::Internet => {}
    }
    words
}
