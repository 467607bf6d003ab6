//! The words that rules are made of: one variant for each that we use, over one register.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::family::Family;
use crate::wanted::NAME_BYTES;

/// One word of a rule. What loads puts a value into the register, what compares looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// `NFT_META_IIFNAME`: loads the name of the device that it came by.
    MetaIifname,
    /// `NFT_META_OIFNAME`: loads the name of the device that it leaves by.
    MetaOifname,
    /// `NFT_META_MARK`: loads the mark of the packet.
    MetaMark,
    /// `NFT_CT_STATE`: loads what conntrack calls it.
    CtState,
    /// `NFT_CT_STATUS`: loads what conntrack has noted about its connection.
    CtStatus,
    /// `NFT_CT_DIRECTION`: loads whether it goes the way of its connection's first packet (0) or back (1).
    CtDirection,
    /// `NFT_CT_DST_IP` or `NFT_CT_DST_IP6` of `IP_CT_DIR_REPLY`: loads where replies of its
    /// connection go to.
    CtReplyDst(Family),
    /// `NFT_FIB_RESULT_OIF` with `NFTA_FIB_F_SADDR`, `_IIF` and `_PRESENT`: loads whether there is a
    /// route to its source by the device that it came by.
    FibSaddrIifPresent,
    /// `NFT_META_L4PROTO`: loads what the IP packet has in it, such as UDP, behind whatever headers.
    MetaL4Proto,
    /// `NFT_META_PROTOCOL`: loads what is in the frame, as the kernel was told: whoever sends it may
    /// say anything.
    MetaProtocol,
    /// `NFT_PAYLOAD_LL_HEADER`: loads bytes of the frame, from its beginning.
    PayloadLl {
        /// Where the first one stands.
        offset: u32,
        /// How many there are, up to 16.
        len: u32,
    },
    /// `NFT_PAYLOAD_NETWORK_HEADER`: loads bytes of the IP header.
    PayloadNetwork {
        /// Where the first one stands.
        offset: u32,
        /// How many there are, up to 16.
        len: u32,
    },
    /// `NFT_PAYLOAD_TRANSPORT_HEADER`: loads bytes of what the IP packet has in it, from its beginning.
    PayloadTransport {
        /// Where the first one stands.
        offset: u32,
        /// How many there are, up to 16.
        len: u32,
    },
    /// `immediate`: loads a value of ours.
    Immediate(Vec<u8>),
    /// `bitwise` with this mask: keeps these bits of the register.
    Bitwise(Vec<u8>),
    /// `NFT_CMP_EQ`: goes on if the register has this value.
    CmpEq(Vec<u8>),
    /// `NFT_CMP_NEQ`: goes on if it has another one.
    CmpNeq(Vec<u8>),
    /// `lookup`: goes on if it is in this set.
    Lookup(String),
    /// `lookup` with `NFT_LOOKUP_F_INV`: goes on if it is not in this set.
    LookupInv(String),
    /// `lookup` with `NFTA_LOOKUP_DREG`: goes on if it is in this map, with what it stands for there.
    LookupDreg(String),
    /// `payload` with `NFTA_PAYLOAD_SREG`: writes the IPv4 address in the register into the packet, and
    /// makes its sums right, if it has any.
    PayloadSet(Rewritten),
    /// `dynset`: goes on if there is more than this of the address in the register, which has a count
    /// of its own in this tally.
    Dynset(String, Bound),
    /// `limit` with `NFT_LIMIT_F_INV`: goes on if more packets come so far than this.
    Limit {
        /// How many there may be in a second.
        rate: u32,
        /// How many there may be at once, where there were fewer before.
        burst: u32,
    },
    /// `counter`: counts those that come so far. What was counted is no part of the rule.
    Counter,
    /// `notrack`: conntrack passes it by.
    Notrack,
    /// `masq`: gives the connection the source that the device has by which the packet leaves.
    Masquerade,
    /// `NFT_NAT_SNAT`: gives the connection the source in the register.
    Snat(Family),
    /// Says what becomes of the packet.
    Verdict(Verdict),
    /// Something that we do not use.
    Other(String),
}

/// An address in a packet that is written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewritten {
    /// The address that it is from.
    Source,
    /// The address that it goes to.
    Destination,
    /// Of an ICMP error, whom the packet was from that it is about.
    ErrorSource,
    /// Of an ICMP error, whom the packet went to that it is about.
    ErrorDestination,
    /// Of ARP, who asks or answers.
    ArpSender,
    /// Of ARP, whom it asks for, or is answered.
    ArpTarget,
}

/// How much there may be of one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// `connlimit`: so many connections at a time, by conntrack. Those that are over count no more.
    Connlimit(u32),
    /// `limit`: so many packets a second, and so many at once.
    Limit {
        /// How many there may be in a second.
        rate: u32,
        /// How many there may be at once, where there were fewer before.
        burst: u32,
    },
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on to the next chain of its hook.
    Accept,
    /// It is gone, without a word.
    Drop,
    /// `reject`: it is gone, and its sender is told that nobody has the port, whatever it was: of this
    /// family.
    Reject(Family),
    /// It goes on in that chain, and does not come back.
    Goto(String),
}

/// The bits of `ct state` for replies, and for what belongs to a connection otherwise, such as
/// errors about it (`NF_CT_STATE_BIT`).
const ESTABLISHED: u32 = 2;
const RELATED: u32 = 4;
const IP_CT_DIR_REPLY: u8 = 1;
/// The bit of `ct status` for what conntrack has taken into its table.
const IPS_CONFIRMED: u32 = 8;

/// Where the source stands in a header, and where the destination (RFC 791, section 3.1; RFC 8200,
/// section 3).
const SOURCE_V4: u32 = 12;
const DESTINATION_V4: u32 = 16;
pub(super) const BYTES_V4: u32 = 4;
const SOURCE_V6: u32 = 8;
const DESTINATION_V6: u32 = 24;
pub(super) const BYTES_V6: u32 = 16;
/// Of IPv6, where it stands what follows.
const NEXT_V6: u32 = 6;
/// Of a frame, where it stands what is in it (IEEE 802.3).
const FRAME_KIND: u32 = 12;
/// Of UDP, where the port stands that it goes to (RFC 768).
const UDP_DESTINATION: u32 = 2;
const UDP: u8 = 17;

/// Of an ICMP error, where the packet begins that it is about (RFC 792).
const ABOUT: u32 = 8;

/// Of ARP about Ethernet and IPv4, where both addresses stand (RFC 826).
const ARP_SENDER: u32 = 14;
const ARP_TARGET: u32 = 24;

impl Rewritten {
    /// Each of these addresses, once.
    pub const ALL: [Self; 6] = [
        Self::Source,
        Self::Destination,
        Self::ErrorSource,
        Self::ErrorDestination,
        Self::ArpSender,
        Self::ArpTarget,
    ];

    /// Loads the address as it is.
    pub(super) fn load(self) -> Expression {
        match self {
            Self::Source => source(Family::V4),
            Self::Destination => destination(Family::V4),
            Self::ErrorSource | Self::ErrorDestination => {
                Expression::PayloadTransport { offset: self.offset(), len: BYTES_V4 }
            }
            Self::ArpSender | Self::ArpTarget => {
                Expression::PayloadNetwork { offset: self.offset(), len: BYTES_V4 }
            }
        }
    }

    /// Where it stands: in the header, or behind it.
    pub fn offset(self) -> u32 {
        match self {
            Self::Source => SOURCE_V4,
            Self::Destination => DESTINATION_V4,
            Self::ErrorSource => ABOUT + SOURCE_V4,
            Self::ErrorDestination => ABOUT + DESTINATION_V4,
            Self::ArpSender => ARP_SENDER,
            Self::ArpTarget => ARP_TARGET,
        }
    }
}

/// Loads the source of a packet of this family.
pub fn source(family: Family) -> Expression {
    match family {
        Family::V4 => Expression::PayloadNetwork { offset: SOURCE_V4, len: BYTES_V4 },
        Family::V6 => Expression::PayloadNetwork { offset: SOURCE_V6, len: BYTES_V6 },
    }
}

pub(super) fn destination(family: Family) -> Expression {
    match family {
        Family::V4 => Expression::PayloadNetwork { offset: DESTINATION_V4, len: BYTES_V4 },
        Family::V6 => Expression::PayloadNetwork { offset: DESTINATION_V6, len: BYTES_V6 },
    }
}

/// Its source is kept by the connection.
pub(super) fn keep(family: Family) -> [Expression; 2] {
    [source(family), Expression::Snat(family)]
}

fn name(device: &str) -> Vec<u8> {
    let mut bytes = device.as_bytes().to_vec();
    bytes.resize(NAME_BYTES, 0);
    bytes
}

/// The bytes of an address, as they stand in a packet.
pub fn address(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// What is loaded is within this network.
pub(super) fn within(net: IpNet) -> [Expression; 2] {
    [Expression::Bitwise(address(net.netmask())), Expression::CmpEq(address(net.network()))]
}

/// What is loaded is not within this network.
pub(super) fn outside(net: IpNet) -> [Expression; 2] {
    [Expression::Bitwise(address(net.netmask())), Expression::CmpNeq(address(net.network()))]
}

/// It is a UDP datagram to this port.
pub(super) fn is_udp_to(port: u16) -> [Expression; 4] {
    [
        Expression::MetaL4Proto,
        Expression::CmpEq(vec![UDP]),
        Expression::PayloadTransport { offset: UDP_DESTINATION, len: 2 },
        Expression::CmpEq(port.to_be_bytes().to_vec()),
    ]
}

/// What is in it is of this protocol, behind whatever headers.
pub(super) fn is_protocol(protocol: u8) -> [Expression; 2] {
    [Expression::MetaL4Proto, Expression::CmpEq(vec![protocol])]
}

/// Of IPv6, what follows the first header is of this protocol: it is no part of a larger one, and
/// says no way.
pub(super) fn lacks_more_headers(protocol: u8) -> [Expression; 2] {
    [Expression::PayloadNetwork { offset: NEXT_V6, len: 1 }, Expression::CmpEq(vec![protocol])]
}

/// This is in the frame, by what the kernel was told and by what the frame says. A frame of a VLAN
/// says that it is one.
pub(super) fn is_kind(kind: u16) -> [Expression; 4] {
    let is = || Expression::CmpEq(kind.to_be_bytes().to_vec());
    [Expression::MetaProtocol, is(), Expression::PayloadLl { offset: FRAME_KIND, len: 2 }, is()]
}

/// It came by this device.
pub(super) fn from(device: &str) -> [Expression; 2] {
    [Expression::MetaIifname, Expression::CmpEq(name(device))]
}

/// It came by another one.
pub(super) fn not_from(device: &str) -> [Expression; 2] {
    [Expression::MetaIifname, Expression::CmpNeq(name(device))]
}

/// It leaves by this device.
pub(super) fn by(device: &str) -> [Expression; 2] {
    [Expression::MetaOifname, Expression::CmpEq(name(device))]
}

/// It leaves by another one.
pub(super) fn not_by(device: &str) -> [Expression; 2] {
    [Expression::MetaOifname, Expression::CmpNeq(name(device))]
}

pub(super) fn is_established_or_related() -> [Expression; 3] {
    is_one_of(ESTABLISHED | RELATED)
}

/// It goes on with a connection, and is no error about it.
pub(super) fn is_established() -> [Expression; 3] {
    is_one_of(ESTABLISHED)
}

/// It is an error about a connection, or belongs to it otherwise.
pub(super) fn is_related() -> [Expression; 3] {
    is_one_of(RELATED)
}

fn is_one_of(states: u32) -> [Expression; 3] {
    let bits = states.to_ne_bytes().to_vec();
    [Expression::CtState, Expression::Bitwise(bits), Expression::CmpNeq(vec![0; 4])]
}

/// Conntrack is about to take up a connection with it.
pub(super) fn begins() -> [Expression; 3] {
    let bits = IPS_CONFIRMED.to_ne_bytes().to_vec();
    [Expression::CtStatus, Expression::Bitwise(bits), Expression::CmpEq(vec![0; 4])]
}

/// It goes to whoever listens on the link or beyond (RFC 4291, section 2.7).
pub(super) fn to_everybody() -> [Expression; 3] {
    let mut mask = vec![0; BYTES_V6 as usize];
    mask[0] = 0xff;
    [destination(Family::V6), Expression::Bitwise(mask.clone()), Expression::CmpEq(mask)]
}

/// No route leads to its source by the device that it came by.
pub(super) fn leads_nowhere_back() -> [Expression; 2] {
    [Expression::FibSaddrIifPresent, Expression::CmpEq(vec![0; 4])]
}

pub(super) fn is_reply() -> [Expression; 2] {
    [Expression::CtDirection, Expression::CmpEq(vec![IP_CT_DIR_REPLY])]
}

/// None of these bits is set in its mark.
pub(super) fn has_no_mark(bits: u32) -> [Expression; 3] {
    let mask = Expression::Bitwise(bits.to_ne_bytes().to_vec());
    [Expression::MetaMark, mask, Expression::CmpEq(vec![0; 4])]
}
