//! Addresses as labels of names: `10-0-0-5`, `fd4d--7`.

use std::net::IpAddr;

/// An address as a label.
pub(crate) fn dashed(address: IpAddr) -> String {
    address.to_string().replace(['.', ':'], "-")
}

/// The address that a label is, by the rule of CoreDNS: with three hyphens, apart from each other, it is
/// one of IPv4. None: it is none.
pub(crate) fn undashed(label: &str) -> Option<IpAddr> {
    let is_v4 = label.matches('-').count() == 3 && !label.contains("--");
    let text = label.replace('-', if is_v4 { "." } else { ":" });
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_an_address_or_none() {
        for (label, address) in [
            ("10-0-0-5", "10.0.0.5"),
            ("fd4d--7", "fd4d::7"),
            ("--1", "::1"),
            ("--", "::"),
            ("2001-db8-0-1-2-3-4-5", "2001:db8:0:1:2:3:4:5"),
        ] {
            assert_eq!(undashed(label), address.parse().ok(), "{label}");
            assert_eq!(dashed(undashed(label).unwrap()), label);
        }
        for label in ["", "web", "10-0-0", "10-0-0-256", "10-0-0-05", "10-0-0-5-", "a-b-c-g"] {
            assert_eq!(undashed(label), None, "{label}");
        }
    }
}
