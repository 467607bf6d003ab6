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
/// The port of mail (RFC 5321, section 4.5.4.2).
pub(super) const MAIL: u16 = 25;
/// Of TCP and UDP, where the port stands that a packet goes to.
pub(super) const DESTINATION_PORT: Expression = Expression::PayloadTransport { offset: 2, len: 2 };
/// Of TCP, where its flags stand, and those that begin a connection: SYN without ACK (RFC 9293).
pub(super) const TCP_FLAGS: Expression = Expression::PayloadTransport { offset: 13, len: 1 };
pub(super) const SYN_AND_ACK: u8 = 0x12;
pub(super) const SYN: u8 = 0x02;
pub(super) const ICMP_TYPE: Expression = Expression::PayloadTransport { offset: 0, len: 1 };
