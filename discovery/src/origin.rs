//! From where somebody comes: who has one address, or one network, can have any number of keys
//! and connections. What each of them may have is for its listeners to say.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A group of addresses that count as one. Private, link-local and loopback addresses count each
/// by itself: many clusters may be behind one, and a network of them is all of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// One address that is not of the public network.
    Private(IpAddr),
    /// One address of the public network.
    V4(Ipv4Addr),
    /// The first 24 bits of public addresses.
    V4Net24(u32),
    /// The first 56 bits of public addresses, the least that a site is given; see also [`Origin::network`].
    V6Net56(u128),
}

impl Origin {
    /// The smallest that this address is in.
    pub fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            ip if is_private(ip) => Self::Private(ip),
            IpAddr::V4(ip) => Self::V4(ip),
            IpAddr::V6(ip) => Self::V6Net56(net56(ip)),
        }
    }

    /// All that one machine may give itself addresses of, where it has this one: of IPv6, also in a
    /// private network and on the link, a whole /56. Whole sites may be in one: who counts by it
    /// has to share among the addresses in it, too.
    pub fn network(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V6(ip) if !ip.is_loopback() => Self::V6Net56(net56(ip)),
            ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => Self::of(ip),
        }
    }

    /// That and all larger ones that the address is in.
    pub fn all(ip: IpAddr) -> Vec<Self> {
        let smallest = Self::of(ip);
        match smallest {
            Self::V4(ip) => vec![smallest, Self::V4Net24(net24(ip))],
            Self::Private(_) | Self::V4Net24(_) | Self::V6Net56(_) => vec![smallest],
        }
    }

    /// Whether the address is in it.
    pub fn has(self, ip: IpAddr) -> bool {
        Self::all(ip).contains(&self)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(ip: &str) -> Origin {
        Origin::of(ip.parse().unwrap())
    }

    #[test]
    fn a_site_is_one_and_private_addresses_are_each() {
        assert_eq!(origin("2001:db8:0:1::1"), origin("2001:db8:0:ff:2::1"));
        assert_ne!(origin("2001:db8:0:1::1"), origin("2001:db8:0:100::1"));
        assert_ne!(origin("203.0.113.1"), origin("203.0.113.2"));
        for (one, other) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2"), ("::1", "fe80::1")] {
            assert_ne!(origin(one), origin(other));
        }
        assert_eq!(origin("::ffff:203.0.113.1"), origin("203.0.113.1"));
    }

    #[test]
    fn of_ipv6_a_machine_has_a_network_wherever_it_is() {
        let network = |ip: &str| Origin::network(ip.parse().unwrap());
        for (one, other) in [("fd00::1", "fd00:0:0:ff::2"), ("fe80::1", "fe80::2:1")] {
            assert_eq!(network(one), network(other));
        }
        assert_ne!(network("fd00::1"), network("fd00:0:0:100::1"));
        for same in ["2001:db8::1", "203.0.113.1", "10.0.0.1", "::1", "::ffff:10.0.0.1"] {
            assert_eq!(network(same), origin(same));
        }
    }

    #[test]
    fn a_network_has_its_addresses() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let all = Origin::all(ip("203.0.113.1"));
        assert_eq!(all.len(), 2);
        assert!(all[1].has(ip("203.0.113.200")) && !all[0].has(ip("203.0.113.200")));
        assert!(!all[1].has(ip("203.0.114.1")) && !all[1].has(ip("10.0.113.1")));
        assert!(Origin::all(ip("10.0.0.1")) == [Origin::Private(ip("10.0.0.1"))]);
    }
}
