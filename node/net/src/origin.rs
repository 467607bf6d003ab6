//! From where a connection comes, and what one address, or one network, may have.

use std::net::IpAddr;
use std::time::Duration;

use libp2p::Multiaddr;
use mercato_discovery::Host;
pub(crate) use mercato_discovery::Origin;

use crate::address::address;
use crate::limits;

/// What those who come from somewhere may have together.
pub(crate) trait OriginLimits: Sized {
    /// All that the address is in, with the connections that strangers may have there.
    fn around(ip: IpAddr) -> Vec<(Self, usize)>;

    /// Handshakes at a time.
    fn handshakes(self) -> usize;

    /// From one handshake to the next, in the long run.
    fn pace(self) -> Duration;
}

impl OriginLimits for Origin {
    fn around(ip: IpAddr) -> Vec<(Self, usize)> {
        let most = |origin: Self| match origin {
            Self::Private(_) => limits::PER_PRIVATE,
            Self::V4(_) => limits::PER_IPV4,
            Self::V4Net24(_) => limits::PER_IPV4_24,
            Self::V6Net56(_) => limits::PER_IPV6_56,
        };
        Self::all(ip).into_iter().map(|origin| (origin, most(origin))).collect()
    }

    fn handshakes(self) -> usize {
        match self {
            Self::Private(_) => limits::PRIVATE_HANDSHAKES,
            Self::V4(_) | Self::V4Net24(_) | Self::V6Net56(_) => limits::PUBLIC_HANDSHAKES,
        }
    }

    fn pace(self) -> Duration {
        match self {
            Self::Private(_) => limits::PRIVATE_PACE,
            Self::V4(_) | Self::V4Net24(_) | Self::V6Net56(_) => limits::PUBLIC_PACE,
        }
    }
}

/// The address of the other end.
pub(crate) fn ip(remote: &Multiaddr) -> Option<IpAddr> {
    match address(remote)?.host {
        Host::Ip(ip) => Some(ip.to_canonical()),
        Host::Name(_) => None,
    }
}
