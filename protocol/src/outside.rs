//! What of the Internet's addresses is anybody's at all: what is never reached from a guest, whatever
//! its contract says.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Ranges that no contract opens: private, shared and local ones, those for documents, tests and
/// groups, the addresses by which clouds tell machines of themselves, and the ways by which IPv6
/// leads into IPv4 (6to4, Teredo). Of IPv6 what is beyond 2000::/3 is here, so that
/// 64:ff9b::/96 and ::ffff:0:0/96 are. Ascending by family and address; none is within another.
pub const NEVER: [IpNet; 22] = [
    v4([0, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    v4([168, 63, 129, 16], 32),
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 88, 99, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    v4([224, 0, 0, 0], 3),
    v6([0, 0], 3),
    v6([0x2001, 0], 32),
    v6([0x2001, 0xdb8], 32),
    v6([0x2002, 0], 16),
    v6([0x3fff, 0], 20),
    v6([0x4000, 0], 2),
    v6([0x8000, 0], 1),
];

const fn v4([a, b, c, d]: [u8; 4], length: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length))
}

const fn v6([a, b]: [u16; 2], length: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), length))
}

/// Whether each address of the range may be somebody's on the Internet: none is in [`NEVER`].
pub fn is_outside(range: IpNet) -> bool {
    !NEVER.iter().any(|never| never.contains(&range) || range.contains(never))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_reached_is_written_once_and_in_order() {
        assert!(NEVER.iter().all(|range| range.trunc() == *range));
        assert!(NEVER.is_sorted_by(|a, b| a < b && !a.contains(b)));
    }

    #[test]
    fn a_range_is_outside_if_no_address_of_it_is_never_reached() {
        for (range, expected) in [
            ("203.0.114.0/24", true),
            ("8.8.8.8/32", true),
            ("168.63.129.17/32", true),
            ("2a00:1450::/32", true),
            ("2001:1::/32", true),
            ("203.0.113.7/32", false),
            ("203.0.112.0/20", false),
            ("10.0.0.0/8", false),
            ("0.0.0.0/0", false),
            ("0.0.0.0/1", false),
            ("168.63.129.16/32", false),
            ("169.254.169.254/32", false),
            ("255.255.255.255/32", false),
            ("::/0", false),
            ("2000::/3", false),
            ("64:ff9b::/96", false),
            ("::ffff:0:0/96", false),
            ("fd00:ec2::254/128", false),
            ("fe80::/10", false),
            ("2002:c000:204::/48", false),
            ("2001::/48", false),
            ("ff02::/16", false),
        ] {
            assert_eq!(is_outside(range.parse().unwrap()), expected, "{range}");
        }
    }
}
