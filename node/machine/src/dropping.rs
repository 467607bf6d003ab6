//! What others do with packets that no rule of theirs speaks of: our own rules cannot undo it, since
//! every chain of a hook is asked.

use std::fmt;

use thiserror::Error;

use crate::family::Family;

/// The names of all our devices, as `nft` has them: of the gateway, of the overlay, and of tries.
const OURS: &str = "mercato*";

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

/// A datagram that pods might have sent has not come through.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct NotForwarded {
    /// The chains of others that drop what none of their rules accepts; none is known: another rule.
    pub chains: Vec<Dropping>,
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
    /// Commands that let the packets of all our devices through, one for each direction.
    pub fn cures(&self) -> [String; 2] {
        let cure = |way: &str| format!("nft insert rule {self} {way} '\"{OURS}\"' accept");
        ["iifname", "oifname"].map(cure)
    }
}

impl fmt::Display for NotForwarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.chains.first() else {
            return f.write_str(
                "this node does not forward what pods send: a rule drops it, or a route leads it \
                 elsewhere; look for it: nft list ruleset; iptables-legacy -S FORWARD; ip rule",
            );
        };
        let [by, to] = first.cures();
        let more = match self.chains.len() {
            1 => "",
            _ => "; then look for others like it: mercato doctor",
        };
        write!(
            f,
            "what pods send is dropped on this node as it is forwarded, by the chain {} of the table \
             {}; let it through: {by}; {to}{more}",
            first.chain, first.table
        )
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
