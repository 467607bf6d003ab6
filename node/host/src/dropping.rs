//! What others do with packets that no rule of theirs speaks of: our own rules cannot undo it, since
//! every chain of a hook is asked.

use std::fmt;

use crate::family::Family;

/// A chain of somebody else's through which forwarded packets go, and which drops those that none of
/// its rules accepts: Docker and firewalld make such chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropping {
    /// Of which packets it is asked.
    pub family: PacketFamily,
    /// What its table is called.
    pub table: String,
    /// What it is called itself.
    pub chain: String,
}

/// The family of a table of nf_tables that sees packets of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFamily {
    /// It sees packets of IPv4 alone.
    Ip,
    /// It sees packets of IPv6 alone.
    Ip6,
    /// It sees IPv4 and IPv6.
    Inet,
}

impl PacketFamily {
    /// Whether packets of this family are seen.
    pub fn sees(self, family: Family) -> bool {
        match self {
            Self::Ip => family == Family::V4,
            Self::Ip6 => family == Family::V6,
            Self::Inet => true,
        }
    }
}

impl Dropping {
    /// Commands that let the packets of a device through, one for each direction.
    pub fn cures(&self, device: &str) -> [String; 2] {
        ["iifname", "oifname"].map(|name| format!("nft insert rule {self} {name} {device} accept"))
    }
}

impl fmt::Display for Dropping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            PacketFamily::Ip => "ip",
            PacketFamily::Ip6 => "ip6",
            PacketFamily::Inet => "inet",
        };
        write!(f, "{family} {} {}", self.table, self.chain)
    }
}
