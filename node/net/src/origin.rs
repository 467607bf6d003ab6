//! From where a connection comes: who has one address, or one network, can have any number of
//! keys.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use libp2p::Multiaddr;
use mercato_discovery::Host;

use crate::address::address;
use crate::limits;

/// A group of addresses that count as one. Private, link-local and loopback addresses count each
/// by itself: many clusters may be behind one, and a network of them is all of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    Private(IpAddr),
    V4(Ipv4Addr),
    V4Net24(u32),
    V6Net56(u128),
}

impl Origin {
    /// The smallest that this address is in.
    pub(crate) fn of(ip: IpAddr) -> Self {
        match ip {
            ip if is_private(ip) => Self::Private(ip),
            IpAddr::V4(ip) => Self::V4(ip),
            IpAddr::V6(ip) => Self::V6Net56(net56(ip)),
        }
    }

    /// All that it is in, with the connections that strangers may have there.
    pub(crate) fn around(ip: IpAddr) -> Vec<(Self, usize)> {
        let smallest = Self::of(ip);
        match smallest {
            Self::Private(_) => vec![(smallest, limits::PER_PRIVATE)],
            Self::V6Net56(_) => vec![(smallest, limits::PER_IPV6_56)],
            Self::V4(ip) => {
                vec![(smallest, limits::PER_IPV4), (Self::V4Net24(net24(ip)), limits::PER_IPV4_24)]
            }
            Self::V4Net24(_) => Vec::new(),
        }
    }

    /// Whether the address is in it.
    pub(crate) fn has(self, ip: IpAddr) -> bool {
        match (self, ip) {
            (Self::V4Net24(net), IpAddr::V4(ip)) => !is_private(ip.into()) && net24(ip) == net,
            _ => Self::of(ip) == self,
        }
    }

    /// Handshakes at a time.
    pub(crate) fn handshakes(self) -> usize {
        match self {
            Self::Private(_) => limits::PRIVATE_HANDSHAKES,
            Self::V4(_) | Self::V4Net24(_) | Self::V6Net56(_) => limits::PUBLIC_HANDSHAKES,
        }
    }

    /// From one handshake to the next, in the long run.
    pub(crate) fn pace(self) -> Duration {
        match self {
            Self::Private(_) => limits::PRIVATE_PACE,
            Self::V4(_) | Self::V4Net24(_) | Self::V6Net56(_) => limits::PUBLIC_PACE,
        }
    }
}

fn net24(ip: Ipv4Addr) -> u32 {
    ip.to_bits() >> 8
}

fn net56(ip: Ipv6Addr) -> u128 {
    ip.to_bits() >> 72
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

/// The address of the other end.
pub(crate) fn ip(remote: &Multiaddr) -> Option<IpAddr> {
    match address(remote)?.host {
        Host::Ip(ip) => Some(ip.to_canonical()),
        Host::Name(_) => None,
    }
}
