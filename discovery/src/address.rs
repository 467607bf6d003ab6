//! Where a peer may be dialled. Resolving names and dialling is left to the network layer.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

use crate::limits;

/// A place to dial, written as a multiaddr: `/ip4/192.0.2.1/udp/7474/quic-v1`,
/// `/dns/hub.example/tcp/7474`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The machine, by name or number.
    pub host: Host,
    /// UDP port for QUIC, TCP port otherwise.
    pub port: u16,
    /// How to speak to it.
    pub transport: Transport,
}

/// A machine, by number or by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// An IP address of either version.
    Ip(IpAddr),
    /// A DNS name, resolved at each dial.
    Name(String),
}

/// The protocol that carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// QUIC version 1 over UDP; preferred.
    Quic,
    /// TCP, with Noise and yamux.
    Tcp,
}

/// Why a text is not an [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseAddressError {
    /// Neither of the two forms that we dial.
    #[error("expected /ip4|ip6|dns/HOST/udp/PORT/quic-v1 or /ip4|ip6|dns/HOST/tcp/PORT")]
    Form,
    /// The host is neither an IP address of the announced family nor a DNS name.
    #[error("{0:?} is not a host")]
    Host(String),
    /// The port is not a number from 1 to 65535.
    #[error("{0:?} is not a port from 1 to 65535")]
    Port(String),
}

impl Host {
    /// An IP address if it is one, else a DNS name.
    pub fn parse(text: &str) -> Result<Self, ParseAddressError> {
        match text.parse() {
            Ok(ip) => Ok(Self::Ip(ip)),
            Err(_) => Self::name(text),
        }
    }

    fn name(text: &str) -> Result<Self, ParseAddressError> {
        let name = text.strip_suffix('.').unwrap_or(text);
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        // A last label of digits is an IPv4 address gone wrong, never a name.
        let numeric =
            name.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
        if name.len() > 253 || numeric || !name.split('.').all(label) {
            return Err(ParseAddressError::Host(text.chars().take(253).collect()));
        }
        Ok(Self::Name(name.to_ascii_lowercase()))
    }
}

/// A port to dial: any but 0.
pub(crate) fn parse_port(text: &str) -> Result<u16, ParseAddressError> {
    match text.parse() {
        Ok(port) if port != 0 => Ok(port),
        _ => Err(ParseAddressError::Port(text.chars().take(16).collect())),
    }
}

impl Address {
    /// `host:port` leaves the transport open: both, the preferred one first.
    pub fn both(host: &Host, port: u16) -> [Self; 2] {
        [Transport::Quic, Transport::Tcp].map(|transport| Self {
            host: host.clone(),
            port,
            transport,
        })
    }

    /// `HOST:PORT`, `V4:PORT` or `[V6]:PORT`, as people write it.
    pub fn parse_host_port(text: &str) -> Result<[Self; 2], ParseAddressError> {
        let (host, port) = text.rsplit_once(':').ok_or(ParseAddressError::Port(String::new()))?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let v6 = rest.strip_suffix(']').and_then(|v6| v6.parse::<Ipv6Addr>().ok());
                Host::Ip(v6.ok_or_else(|| ParseAddressError::Host(host.to_owned()))?.into())
            }
            // Without brackets nobody can tell where the port begins.
            None if host.contains(':') => return Err(ParseAddressError::Host(host.to_owned())),
            None => Host::parse(host)?,
        };
        Ok(Self::both(&host, parse_port(port)?))
    }
}

/// Where to dial somebody whom several say to be here and there: every list's first address
/// before any list's second, and those that seldom lead to another machine last. In turn, where
/// they do not fit one dial, so that a flood of false ones delays the true one but no more.
pub(crate) fn choose(lists: &[&[Address]], failures: usize) -> Vec<Address> {
    let mut addresses: Vec<Address> = Vec::new();
    for rank in 0..limits::ADDRESSES_PER_SIGHTING {
        for address in lists.iter().filter_map(|list| list.get(rank)) {
            if !addresses.contains(address) {
                addresses.push(address.clone());
            }
        }
    }
    if addresses.len() > limits::ADDRESSES_PER_DIAL {
        let turn = failures * limits::ADDRESSES_PER_DIAL % addresses.len();
        addresses.rotate_left(turn);
        addresses.truncate(limits::ADDRESSES_PER_DIAL);
    }
    addresses.sort_by_key(|address| address.host.reach());
    addresses
}

/// Where others are told to connect: what the owner has said, otherwise wherever we listen that
/// another machine can reach. Whatever leaves this machine, an offer, a token, a DNS record,
/// names these addresses and no others. Who keeps only the first few keeps the likeliest, and the
/// same ones whenever the same are given.
pub fn published(listening: &[Address], said: &[PublicAddress]) -> Vec<Address> {
    let mut all: Vec<Address> = match said {
        [] => {
            let all = listening.iter().filter(|address| address.is_for_others());
            let mut all: Vec<_> = all.cloned().collect();
            likeliest_first(&mut all);
            all
        }
        said => said.iter().flat_map(|one| one.of(listening)).collect(),
    };
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|address| seen.insert(address.clone()));
    all
}

/// Puts those first that lead to the machine from most places. Of those that do alike the order is
/// their own, so that one which comes back has its place again.
pub fn likeliest_first(addresses: &mut [Address]) {
    addresses.sort_by(|one, other| {
        let from = |address: &Address| (address.host.reach(), address.host.places());
        from(one).cmp(&from(other)).then_with(|| one.cmp(other))
    });
}

/// Where the owner says that this cluster can be reached: `HOST` at the ports where it listens,
/// or `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicAddress {
    host: Host,
    port: Option<u16>,
}

impl PublicAddress {
    fn of(&self, listening: &[Address]) -> Vec<Address> {
        if let Some(port) = self.port {
            return Address::both(&self.host, port).into();
        }
        let here = |at: &Address| Address { host: self.host.clone(), ..at.clone() };
        listening.iter().map(here).collect()
    }
}

impl FromStr for PublicAddress {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        if let Ok(host) = Host::parse(text) {
            return Ok(Self { host, port: None });
        }
        let [Address { host, port, .. }, _] = Address::parse_host_port(text)?;
        Ok(Self { host, port: Some(port) })
    }
}

/// How far a host can be told to others; the farthest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// Wherever one is, or as far as the network goes.
    Network,
    /// As far as one link goes.
    Link,
    /// As far as one machine goes.
    Machine,
}

/// From where a host of a network can be reached; from most places first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Places {
    /// From anywhere, as far as nothing is in between: names, and public addresses.
    All,
    /// From a site, which others may number alike.
    Site,
    /// From behind one carrier's translation (100.64.0.0/10), as overlays use it as well.
    Carrier,
}

impl Address {
    /// Whether another machine can reach it at all.
    pub fn is_for_others(&self) -> bool {
        self.host.reach() == Reach::Network
    }
}

impl Host {
    fn places(&self) -> Places {
        let Self::Ip(ip) = self else { return Places::All };
        match ip.to_canonical() {
            IpAddr::V4(ip) if ip.is_private() || ip.is_link_local() => Places::Site,
            IpAddr::V4(ip) if ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 0x40 => {
                Places::Carrier
            }
            IpAddr::V6(ip) if ip.is_unique_local() => Places::Site,
            IpAddr::V4(_) | IpAddr::V6(_) => Places::All,
        }
    }

    fn reach(&self) -> Reach {
        match self {
            Self::Ip(ip) => match ip.to_canonical() {
                ip if ip.is_loopback() || ip.is_unspecified() => Reach::Machine,
                ip if ip.is_multicast() => Reach::Machine,
                IpAddr::V4(ip) if ip.is_link_local() => Reach::Link,
                IpAddr::V6(ip) if ip.is_unicast_link_local() => Reach::Link,
                IpAddr::V4(_) | IpAddr::V6(_) => Reach::Network,
            },
            Self::Name(name) if name == "localhost" || name.ends_with(".localhost") => {
                Reach::Machine
            }
            Self::Name(_) => Reach::Network,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(IpAddr::V4(ip)) => write!(f, "/ip4/{ip}")?,
            Host::Ip(IpAddr::V6(ip)) => write!(f, "/ip6/{ip}")?,
            Host::Name(name) => write!(f, "/dns/{name}")?,
        }
        match self.transport {
            Transport::Quic => write!(f, "/udp/{}/quic-v1", self.port),
            Transport::Tcp => write!(f, "/tcp/{}", self.port),
        }
    }
}

impl FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        let parts: Vec<&str> = text.split('/').collect();
        let (family, host, transport, port) = match parts[..] {
            ["", family, host, "udp", port, "quic-v1"] => (family, host, Transport::Quic, port),
            ["", family, host, "tcp", port] => (family, host, Transport::Tcp, port),
            _ => return Err(ParseAddressError::Form),
        };
        let bad_host = |_| ParseAddressError::Host(host.to_owned());
        let host = match family {
            "ip4" => Host::Ip(host.parse::<Ipv4Addr>().map_err(bad_host)?.into()),
            "ip6" => Host::Ip(host.parse::<Ipv6Addr>().map_err(bad_host)?.into()),
            "dns" | "dns4" | "dns6" => Host::name(host)?,
            _ => return Err(ParseAddressError::Form),
        };
        Ok(Self { host, port: parse_port(port)?, transport })
    }
}

#[cfg(test)]
mod tests;
