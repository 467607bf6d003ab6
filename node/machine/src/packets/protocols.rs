//! Numbers of the protocols that closed pods speak, as they stand in packets.

use super::expression::Expression;

// What frames have in them (IEEE 802's EtherType).
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
// What is in an IP packet.
pub(super) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;
pub(super) const ICMP_TYPE: Expression = Expression::PayloadTransport { offset: 0, len: 1 };
