//! Frames by hand, as whoever has a raw socket may send them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd as _;

use anyhow::{Context as _, Result};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::bind;
use socket2::{Domain, Protocol, Socket, Type};

use crate::namespace::Namespace;
use crate::pods::MAC;

pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const VLAN: u16 = 0x8100;
pub(crate) const IPV6: u16 = 0x86dd;
/// All of them (`ETH_P_ALL`): the kernel reads in the frame what is in it.
pub(crate) const ANY: u16 = 3;

/// A frame to everybody, from this sender.
pub(crate) fn frame(from: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[0xff; 6][..], &from, &kind.to_be_bytes(), payload].concat()
}

/// A frame of the pod itself.
pub(crate) fn own(kind: u16, payload: &[u8]) -> Vec<u8> {
    frame(MAC, kind, payload)
}

/// A packet of IPv4. No checksum is right: whoever looks at it is before those who check.
pub(crate) fn four(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    part_of_four(from, to, protocol, 0, payload)
}

/// The same, as a part of a larger one: where it belongs, in units of eight bytes, and 0x2000 if
/// there is more to come.
pub(crate) fn part_of_four(
    from: Ipv4Addr,
    to: Ipv4Addr,
    protocol: u8,
    part: u16,
    payload: &[u8],
) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let head = [&[0x45, 0][..], &length.to_be_bytes(), &[0, 7], &part.to_be_bytes()].concat();
    [&head[..], &[64, protocol, 0, 0], &from.octets(), &to.octets(), payload].concat()
}

/// A packet of IPv6.
pub(crate) fn six(from: Ipv6Addr, to: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    let head = [&[0x60, 0, 0, 0][..], &length, &[next, 255]].concat();
    [&head[..], &from.octets(), &to.octets(), payload].concat()
}

/// Says over ARP that this device has an address.
pub(crate) fn arp(mac: [u8; 6], address: Ipv4Addr) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, 1];
    [&head[..], &mac, &address.octets(), &[0; 6], &[10, 42, 0, 1]].concat()
}

/// A datagram, or a piece of a connection with these flags.
pub(crate) fn udp() -> Vec<u8> {
    [&[0x13, 0x88, 0x13, 0x88, 0, 12, 0, 0][..], b"????"].concat()
}

pub(crate) fn tcp(flags: u8) -> Vec<u8> {
    let ports = [0x13, 0x88, 0x13, 0x88];
    [&ports[..], &[0; 8], &[0x50, flags, 16, 0, 0, 0, 0, 0]].concat()
}

/// A word of ICMP, and of ICMPv6 about somebody.
pub(crate) fn icmp(kind: u8) -> Vec<u8> {
    vec![kind, 0, 0, 0, 0, 7, 0, 1]
}

/// An error of ICMP, of either family, about this packet.
pub(crate) fn error(kind: u8, packet: &[u8]) -> Vec<u8> {
    [&icmp(kind), packet].concat()
}

pub(crate) fn about(kind: u8, whom: Ipv6Addr) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0x20, 0, 0, 0][..], &whom.octets()].concat()
}

/// Sends a frame by the pod's device, and tells the kernel that this is in it.
pub(crate) fn send(at: &Namespace, said: u16, frame: Vec<u8>) -> Result<()> {
    send_often(at, said, frame, 1)
}

/// The same so many times, as fast as it goes.
pub(crate) fn send_often(at: &Namespace, said: u16, frame: Vec<u8>, times: u64) -> Result<()> {
    at.within(move || -> Result<()> {
        let kind = Protocol::from(i32::from(said.to_be()));
        let socket =
            Socket::new(Domain::from(libc::AF_PACKET), Type::from(libc::SOCK_RAW), Some(kind))?;
        let mut devices = getifaddrs()?.filter(|device| device.interface_name == "eth0");
        let device = devices.find_map(|device| device.address?.as_link_addr().copied());
        bind(socket.as_raw_fd(), &device.context("no device")?)?;
        for _ in 0..times {
            // Whether it was dropped at once may be said, or not: it is counted.
            let _ = socket.send(&frame);
        }
        Ok(())
    })?
}

/// Sends a packet with whatever protocol, by a raw socket.
pub(crate) fn send_raw(at: &Namespace, to: IpAddr, protocol: u8, payload: Vec<u8>) -> Result<()> {
    at.within(move || -> Result<()> {
        let domain = if to.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let kind = Protocol::from(i32::from(protocol));
        let socket = Socket::new(domain, Type::from(libc::SOCK_RAW), Some(kind))?;
        let _ = socket.send_to(&payload, &std::net::SocketAddr::new(to, 0).into());
        Ok(())
    })?
}

/// Sends a packet of IPv4 with its own header, by a raw socket.
pub(crate) fn send_with_header(at: &Namespace, to: Ipv4Addr, packet: Vec<u8>) -> Result<()> {
    at.within(move || -> Result<()> {
        let kind = Protocol::from(libc::IPPROTO_RAW);
        let socket = Socket::new(Domain::IPV4, Type::from(libc::SOCK_RAW), Some(kind))?;
        let _ = socket.send_to(&packet, &std::net::SocketAddr::new(to.into(), 0).into());
        Ok(())
    })?
}
