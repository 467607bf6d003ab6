//! What rules ask that is neither in them nor in the packet.

use std::net::IpAddr;

/// The kernel's state about one packet, as an argument.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The device that the packet came by; empty: this machine has made it.
    pub iifname: &'a str,
    /// The device that it leaves by; empty: it is for this machine, or was not routed yet.
    pub oifname: &'a str,
    /// The mark of the packet.
    pub mark: u32,
    /// What conntrack says of the packet, once it was asked.
    pub conntrack: Conntrack,
    /// Whether a route leads to the source by the device that the packet came by.
    pub leads_back: bool,
    /// Whether a bound is used up already, so that this packet is over it.
    pub used_up: &'a dyn Fn(&BoundOf<'_>) -> bool,
}

/// One bound of a table, as a packet comes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundOf<'a> {
    /// The table that has the rule.
    pub table: &'a str,
    /// The chain that has the rule.
    pub chain: &'a str,
    /// What the rule says of itself.
    pub comment: &'a str,
    /// By what it is counted, as it stands in the register; empty: all packets together.
    pub key: &'a [u8],
}

/// What conntrack has to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conntrack {
    /// It belongs to no connection, and begins none (`ct state invalid`).
    Invalid,
    /// Conntrack has passed it by (`notrack`).
    Untracked,
    /// It belongs to a connection, or begins one.
    Connection(Connection),
}

/// A connection of conntrack's, as one of its packets has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// What the packet is to it.
    pub state: ConnectionState,
    /// The bits of its status (`IPS_...`).
    pub status: u32,
    /// Whether the packet goes the other way than the first one.
    pub is_reply: bool,
    /// Where replies of the connection go to.
    pub reply_dst: IpAddr,
}

/// What a packet is to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// No reply was seen yet.
    New,
    /// Packets were seen both ways.
    Established,
    /// It is about the connection, as an error is.
    Related,
}

impl Connection {
    /// Conntrack has it in its table (`IPS_CONFIRMED`).
    pub const IPS_CONFIRMED: u32 = 1 << 3;
    /// Its source was settled already (`IPS_SRC_NAT_DONE`).
    pub const IPS_SRC_NAT_DONE: u32 = 1 << 7;

    /// One that a packet begins, whose replies go to that address.
    pub fn begins(reply_dst: IpAddr) -> Self {
        Self { state: ConnectionState::New, status: 0, is_reply: false, reply_dst }
    }

    /// Whether chains of NAT are asked about its source: of the first packet alone.
    pub(super) fn has_no_source(&self) -> bool {
        self.state == ConnectionState::New
            && self.status & (Self::IPS_CONFIRMED | Self::IPS_SRC_NAT_DONE) == 0
    }
}

impl Conntrack {
    /// What `ct state` loads (`NF_CT_STATE_BIT`).
    pub(super) fn state(&self) -> u32 {
        match self {
            Self::Invalid => 1,
            Self::Untracked => 1 << 6,
            Self::Connection(connection) => match connection.state {
                ConnectionState::Established => 1 << 1,
                ConnectionState::Related => 1 << 2,
                ConnectionState::New => 1 << 3,
            },
        }
    }

    pub(super) fn connection(&self) -> Option<&Connection> {
        match self {
            Self::Connection(connection) => Some(connection),
            Self::Invalid | Self::Untracked => None,
        }
    }
}
