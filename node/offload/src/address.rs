//! Pods by their addresses. Home gives each of its pods at the provider an address of the lease's
//! range, by which everyone knows it; the provider brings packets for it to the address that the
//! guest has in its own pod network. Home's own pods are known by ranges. Who carries packets is
//! outside.

use std::net::IpAddr;

use ipnet::IpNet;
use mercato_protocol::names::moved;

use crate::key::PodId;

/// What home knows of the tunnel to the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tunnel {
    /// There is none: pods have no address at home.
    #[default]
    Off,
    /// It is not known yet whether there is one. Who was not ready waits.
    Awaited,
    /// Both sides know each other's gateways, and home's brings packets for this range to the
    /// provider: its pods get their addresses of it.
    Agreed(IpNet),
}

impl Tunnel {
    /// Whether pods have addresses of a range.
    pub fn is_agreed(self) -> bool {
        matches!(self, Self::Agreed(_))
    }
}

/// A range of addresses of somebody's pods, as it is said inside the tunnel and as this cluster's
/// pods see it: of the same length, each address in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MappedRange {
    /// As it is said inside the tunnel.
    pub inner: IpNet,
    /// As this cluster's pods see it.
    pub local: IpNet,
}

impl MappedRange {
    /// What an address that this cluster's pods see is inside the tunnel; none: it is of another
    /// range.
    pub fn inner_of(&self, local: IpAddr) -> Option<IpAddr> {
        moved(local, self.local, self.inner)
    }

    /// As which address this cluster's pods see one that is said inside the tunnel, likewise.
    pub fn local_of(&self, inner: IpAddr) -> Option<IpAddr> {
        moved(inner, self.inner, self.local)
    }
}

/// A guest by both of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestAddress {
    /// The guest, as home knows it.
    pub pod: PodId,
    /// By this one home knows it, and everyone does inside the tunnel.
    pub address: IpAddr,
    /// Its address in the provider's pod network.
    pub guest: IpAddr,
}

/// Whether a guest can be reached from home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// By no address; it gets ready without one.
    #[default]
    Not,
    /// Not yet: who was not ready is not ready until then.
    Awaited,
    /// By these addresses, at both ends of the tunnel.
    At {
        /// The first one, which is `podIP`.
        address: IpAddr,
        /// That of the other family, if it has one.
        second: Option<IpAddr>,
    },
    /// Its provider has not been reached for too long: nobody knows how it is, and it is not ready.
    Lost {
        /// The address that it shows, which it keeps.
        address: Option<IpAddr>,
        /// That of the other family, likewise.
        second: Option<IpAddr>,
    },
}

impl Reach {
    /// The address that the guest shows at home, which is its `podIP`.
    pub fn address(self) -> Option<IpAddr> {
        match self {
            Self::At { address, .. } => Some(address),
            Self::Lost { address, .. } => address,
            Self::Not | Self::Awaited => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_its_place() {
        let range = |text: &str| -> IpNet { text.parse().unwrap() };
        let address = |text: &str| -> IpAddr { text.parse().unwrap() };
        for (local, inner, one, other) in [
            ("10.42.0.0/24", "10.203.5.0/24", "10.42.0.7", "10.203.5.7"),
            ("fd00::/120", "fd01::100/120", "fd00::9", "fd01::109"),
        ] {
            let mapped = MappedRange { inner: range(inner), local: range(local) };
            assert_eq!(mapped.inner_of(address(one)), Some(address(other)));
            assert_eq!(mapped.local_of(address(other)), Some(address(one)));
            assert_eq!(mapped.local_of(address(one)), None);
        }
        let mixed = MappedRange { inner: range("fd00::/120"), local: range("10.42.0.0/24") };
        assert_eq!(mixed.inner_of(address("10.42.0.7")), None);
    }
}
