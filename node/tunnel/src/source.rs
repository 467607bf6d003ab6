//! Which address of ours a datagram came to, and which one it is to come from: what the kernel says
//! and takes beside a datagram (ip(7), ipv6(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use nix::sys::socket::{ControlMessage, ControlMessageOwned, SockaddrStorage};

/// Errors of a send from an address of ours that is ours no more (ip(7), ipv6(7)).
pub(crate) const NOT_OURS: [nix::Error; 3] =
    [nix::Error::EINVAL, nix::Error::EADDRNOTAVAIL, nix::Error::ENETUNREACH];

/// Which address of ours datagrams are to come from, as the kernel takes it.
pub(crate) enum Source {
    V4(libc::in_pktinfo),
    V6(libc::in6_pktinfo),
}

impl Source {
    /// None if a socket of this version cannot send from there.
    pub(crate) fn of(from: IpAddr, is_version_6: bool) -> Option<Self> {
        match from {
            IpAddr::V4(from) if is_version_6 => Some(Self::V6(packet_info(from.to_ipv6_mapped()))),
            IpAddr::V4(from) => {
                let ipi_spec_dst = libc::in_addr { s_addr: u32::from_ne_bytes(from.octets()) };
                let ipi_addr = libc::in_addr { s_addr: 0 };
                Some(Self::V4(libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr }))
            }
            IpAddr::V6(from) => is_version_6.then(|| Self::V6(packet_info(from))),
        }
    }

    pub(crate) fn message(&self) -> ControlMessage<'_> {
        match self {
            Self::V4(info) => ControlMessage::Ipv4PacketInfo(info),
            Self::V6(info) => ControlMessage::Ipv6PacketInfo(info),
        }
    }
}

fn packet_info(from: Ipv6Addr) -> libc::in6_pktinfo {
    libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: from.octets() }, ipi6_ifindex: 0 }
}

/// Which address of ours a datagram came to. None of those that say so only together with a
/// device, and of several machines at once.
pub(crate) fn own_address(message: &ControlMessageOwned) -> Option<IpAddr> {
    let address: IpAddr = if let ControlMessageOwned::Ipv4PacketInfo(info) = message {
        Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()).into()
    } else if let ControlMessageOwned::Ipv6PacketInfo(info) = message {
        IpAddr::from(info.ipi6_addr.s6_addr).to_canonical()
    } else {
        return None;
    };
    let is_of_link = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    let is_one = !address.is_unspecified() && !address.is_multicast() && !is_of_link;
    is_one.then_some(address)
}

/// An IPv4 address that came through a socket of both versions is given as such.
pub(crate) fn address_of(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|address| SocketAddr::V4((*address).into()));
    v4.or_else(|| {
        let address: SocketAddrV6 = (*storage.as_sockaddr_in6()?).into();
        let port = address.port();
        let mapped = address.ip().to_ipv4_mapped().map(|ip| SocketAddr::from((ip, port)));
        Some(mapped.unwrap_or(SocketAddr::V6(address)))
    })
}
