//! Where clusters listen: each place of the plan has an address of its own.

use std::net::{IpAddr, Ipv4Addr};

use mercato_discovery::{Address, Host, Transport};

const PORT: u16 = 7474;

/// Where the cluster at a place of the topology listens.
pub(crate) fn address(at: usize) -> Address {
    let [_, _, high, low] = u32::try_from(at).unwrap_or(u32::MAX).to_be_bytes();
    let host = Host::Ip(Ipv4Addr::new(10, 7, high, low).into());
    Address { host, port: PORT, transport: Transport::Quic }
}

/// Which cluster listens at this address; none if nobody does.
pub(crate) fn place_at(address: &Address) -> Option<usize> {
    let Host::Ip(IpAddr::V4(ip)) = address.host else { return None };
    let [_, _, high, low] = ip.octets();
    Some(usize::from(u16::from_be_bytes([high, low])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_an_address_of_its_own() {
        for at in [0, 1, 255, 256, 999, 65_535] {
            assert_eq!(place_at(&address(at)), Some(at));
        }
    }
}
