//! What a pod may ask and say of neighbours by ARP: as who it is, and not too often.

use crate::limits;
use crate::packets::expression::{Expression, Verdict, is_kind};
use crate::packets::rule::{drop_of, rule};
use crate::packets::table::PacketRule;

/// Of which kind its frames are.
pub(super) const ARP: u16 = 0x0806;
/// What it is about: addresses of Ethernet and of IPv4 (RFC 826), and then a question or an answer of
/// whom, by both his addresses.
const HEAD: Expression = Expression::PayloadNetwork { offset: 0, len: 6 };
const ETHERNET_AND_IPV4: [u8; 6] = [0, 1, 0x08, 0, 6, 4];
const SENDER_MAC: Expression = Expression::PayloadNetwork { offset: 8, len: 6 };
pub(super) const SENDER: Expression = Expression::PayloadNetwork { offset: 14, len: 4 };

/// What is asked and said of neighbours goes to all of them.
pub(super) const OFTEN: Expression =
    Expression::Limit { rate: limits::OF_NEIGHBOURS_A_SECOND, burst: limits::OF_NEIGHBOURS };

/// It is about addresses of Ethernet and of IPv4.
pub(super) fn of_ipv4() -> [Expression; 2] {
    [HEAD, Expression::CmpEq(ETHERNET_AND_IPV4.to_vec())]
}

/// From the device of this address, as one whose [`SENDER`] is its own.
pub(super) fn leaving(mac: &[u8], is_own: [Expression; 2]) -> [PacketRule; 2] {
    let sender = [SENDER_MAC, Expression::CmpEq(mac.to_vec())];
    let own = is_kind(ARP).into_iter().chain(of_ipv4()).chain(sender).chain(is_own);
    [
        drop_of("asks neighbours too often", is_kind(ARP).into_iter().chain([OFTEN])),
        rule("asks neighbours, as who it is", own, Verdict::Accept),
    ]
}
