//! ICMP errors: whoever gets one believes it of any packet that it may have sent, and so of its way to
//! anybody. Each is let in by whom the packet went to that it is about.

use super::expression::{Expression, Rewritten, Verdict, is_protocol, is_related};
use super::protocols::{ICMP, ICMP_TYPE, ICMPV6};
use super::rule::rule;
use super::table::PacketRule;
use crate::family::Family;

/// Of IPv4: unreachable, time exceeded, parameter problem (RFC 792).
pub(super) const KINDS_V4: [u8; 3] = [3, 11, 12];
/// That another router is nearer.
const REDIRECT_V4: u8 = 5;
/// Of IPv6, with "packet too big" (RFC 4443).
const KINDS_V6: [u8; 4] = [1, 2, 3, 4];
/// Of IPv6, whom the packet went to: the whole of it begins after 8 bytes.
const ABOUT_V6: Expression = Expression::PayloadTransport { offset: 8 + 24, len: 16 };

/// Those of a family, by their types.
pub(super) fn kinds(family: Family) -> &'static [u8] {
    match family {
        Family::V4 => &KINDS_V4,
        Family::V6 => &KINDS_V6,
    }
}

/// Loads of an error whom the packet went to that it is about.
pub(super) fn about(family: Family) -> Expression {
    match family {
        Family::V4 => Rewritten::ErrorDestination.load(),
        Family::V6 => ABOUT_V6,
    }
}

/// Lets in errors about connections that there are, of whoever meets these conditions, where [`about`] meets
/// those. Of ICMP, conntrack relates errors alone to a connection, and over IPv4 redirects.
pub(super) fn let_in(
    family: Family,
    comment: &str,
    whose: impl IntoIterator<Item = Expression>,
    is: impl IntoIterator<Item = Expression>,
) -> PacketRule {
    let (protocol, no_redirect) = match family {
        Family::V4 => (ICMP, Some([ICMP_TYPE, Expression::CmpNeq(vec![REDIRECT_V4])])),
        Family::V6 => (ICMPV6, None),
    };
    let errors = is_related().into_iter().chain(is_protocol(protocol));
    let words = whose.into_iter().chain(errors).chain(no_redirect.into_iter().flatten());
    rule(comment, words.chain([about(family)]).chain(is), Verdict::Accept)
}
