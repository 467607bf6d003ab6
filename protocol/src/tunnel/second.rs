//! The address of the second family follows from the first one: nothing of IPv6 is allocated, kept
//! on record or told. Whether anything passes by it is each gateway's to say.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv6Net};

/// How long the prefix of a pool of IPv6 is: behind it an address of IPv4 has room, and nothing else.
pub const SECOND_PREFIX: u8 = 96;

/// By addresses of this range pods are known by IPv6 inside tunnels, whatever a cluster calls them
/// itself. It is a unique local prefix (RFC 4193), with "Mercato" in ASCII behind its first byte.
pub const SECOND_POOL: Ipv6Net =
    Ipv6Net::new_assert(Ipv6Addr::new(0xfd4d, 0x6572, 0x6361, 0x746f, 0, 0, 0, 0), SECOND_PREFIX);

/// The address of IPv6 by which a pod or node is known that is known by this one of IPv4: its last
/// four bytes are that. None of IPv6 has another one.
pub fn second(pool: Ipv6Net, first: IpAddr) -> Option<IpAddr> {
    let IpAddr::V4(first) = first else { return None };
    Some(IpAddr::V6(behind(pool, first)))
}

/// The range in which each address of this one of IPv4 has its second one, in the same place.
pub fn second_range(pool: Ipv6Net, first: IpNet) -> Option<IpNet> {
    let IpNet::V4(first) = first else { return None };
    let range = Ipv6Net::new(behind(pool, first.network()), SECOND_PREFIX + first.prefix_len());
    range.ok().map(IpNet::V6)
}

/// Whatever a pool has behind its prefix is not looked at.
fn behind(pool: Ipv6Net, first: Ipv4Addr) -> Ipv6Addr {
    let prefix = pool.network().to_bits() >> 32 << 32;
    Ipv6Addr::from_bits(prefix | u128::from(first.to_bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_ipv4_is_the_end_of_the_second_one() {
        let known = second(SECOND_POOL, "10.203.5.7".parse().unwrap());
        assert_eq!(known, "fd4d:6572:6361:746f::10.203.5.7".parse().ok());
        let own = "fd00:1:2:3:4:5::/96".parse().unwrap();
        let known = second(own, "255.255.255.255".parse().unwrap());
        assert_eq!(known, "fd00:1:2:3:4:5:ffff:ffff".parse().ok());
        assert_eq!(second(SECOND_POOL, "fd00::7".parse().unwrap()), None);
        assert_eq!(&SECOND_POOL.addr().octets()[1..8], b"Mercato");
    }

    #[test]
    fn a_range_has_the_second_addresses_of_its_own() {
        let range: IpNet = "10.203.5.0/24".parse().unwrap();
        let known = second_range(SECOND_POOL, range).unwrap();
        assert_eq!(known, "fd4d:6572:6361:746f::10.203.5.0/120".parse().unwrap());
        for (first, is_of_it) in
            [("10.203.5.0", true), ("10.203.5.255", true), ("10.203.6.0", false)]
        {
            let known_as = second(SECOND_POOL, first.parse().unwrap()).unwrap();
            assert_eq!(known.contains(&known_as), is_of_it, "{first}");
        }
        let all = second_range(SECOND_POOL, "0.0.0.0/0".parse().unwrap());
        assert_eq!(all, Some(SECOND_POOL.into()));
        assert_eq!(second_range(SECOND_POOL, "fd00::/64".parse().unwrap()), None);
    }
}
