//! A UDP socket whose kernel cuts one large send into datagrams (`UDP_SEGMENT`) and puts
//! datagrams of one sender together (`UDP_GRO`): one call for up to 64 KiB.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use nix::cmsg_space;
use nix::sys::socket::sockopt::{UdpGroSegment, UdpGsoSegment};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::limits;

/// Errors of a send after which segments are sent one by one: the kernel or the card cannot.
const CANNOT_SEGMENT: [nix::Error; 3] =
    [nix::Error::EIO, nix::Error::EINVAL, nix::Error::EOPNOTSUPP];

/// A UDP socket for sealed packets, of both versions of IP.
#[derive(Debug)]
pub struct DatagramSocket {
    socket: Socket,
    /// Whether it takes addresses of version 6 alone, those of version 4 mapped into them.
    is_version_6: bool,
    /// Whether one send may carry several datagrams.
    segments: bool,
    /// Whether one receive may.
    coalesces: bool,
    control: Vec<u8>,
}

/// What was received at once: datagrams of one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent them.
    pub from: SocketAddr,
    /// All bytes together.
    pub bytes: usize,
    /// Those of each datagram but the last.
    pub each: usize,
}

impl DatagramSocket {
    /// Binds a socket, in the network namespace of this thread.
    ///
    /// # Errors
    /// When the address is taken or not there.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.set_nonblocking(true)?;
        // Less than wished for is enough to go on.
        let _ = socket.set_recv_buffer_size(limits::SOCKET_BYTES);
        let _ = socket.set_send_buffer_size(limits::SOCKET_BYTES);
        socket.bind(&address.into())?;
        let coalesces = setsockopt(&socket, UdpGroSegment, &true).is_ok();
        let segments = setsockopt(&socket, UdpGsoSegment, &0).is_ok();
        tracing::debug!(%address, segments, coalesces, "a socket for the tunnel");
        let is_version_6 = address.is_ipv6();
        Ok(Self {
            socket,
            is_version_6,
            segments,
            coalesces,
            control: vec![0; cmsg_space!(i32).capacity()],
        })
    }

    /// Where it is bound to.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        let address = self.socket.local_addr()?.as_socket();
        address.ok_or_else(|| io::Error::other("a socket of no version of IP"))
    }

    /// Whether one send may carry several datagrams, and one receive.
    pub fn offloads(&self) -> (bool, bool) {
        (self.segments, self.coalesces)
    }

    /// Sends datagrams of `each` bytes, the last one of what is left. `WouldBlock` if there is no
    /// room.
    ///
    /// # Errors
    /// When the network refuses them.
    pub fn send(&mut self, to: SocketAddr, bytes: &[u8], each: usize) -> io::Result<()> {
        assert!(each > 0 && bytes.len() <= limits::SEND_BYTES, "a batch is bounded");
        if self.segments && bytes.len() > each {
            match self.send_once(to, bytes, Some(each as u16)) {
                Err(error) if CANNOT_SEGMENT.contains(&error) => {
                    tracing::info!(%error, "datagrams are sent one by one: the network cannot cut");
                    self.segments = false;
                }
                other => return Ok(other?),
            }
        }
        for datagram in bytes.chunks(each) {
            self.send_once(to, datagram, None)?;
        }
        Ok(())
    }

    fn send_once(&self, to: SocketAddr, bytes: &[u8], each: Option<u16>) -> nix::Result<()> {
        let to = match to {
            SocketAddr::V4(to) if self.is_version_6 => {
                SocketAddr::from((to.ip().to_ipv6_mapped(), to.port()))
            }
            SocketAddr::V4(_) | SocketAddr::V6(_) => to,
        };
        let to = SockaddrStorage::from(to);
        let message = each.as_ref().map(ControlMessage::UdpGsoSegments);
        let descriptor = self.socket.as_raw_fd();
        let bytes = [IoSlice::new(bytes)];
        sendmsg(descriptor, &bytes, message.as_slice(), MsgFlags::empty(), Some(&to)).map(drop)
    }

    /// Receives datagrams of one sender. `WouldBlock` if there are none.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn receive(&mut self, into: &mut [u8]) -> io::Result<Received> {
        let mut slices = [IoSliceMut::new(into)];
        let descriptor = self.socket.as_raw_fd();
        let control = Some(self.control.as_mut_slice());
        let message =
            recvmsg::<SockaddrStorage>(descriptor, &mut slices, control, MsgFlags::empty())?;
        let each = message.cmsgs()?.find_map(|message| {
            let ControlMessageOwned::UdpGroSegments(each) = message else { return None };
            usize::try_from(each).ok()
        });
        let from = message.address.as_ref().and_then(address_of);
        let from = from.ok_or_else(|| io::Error::other("a datagram of no version of IP"))?;
        let each = each.filter(|each| *each > 0).unwrap_or(message.bytes);
        Ok(Received { from, bytes: message.bytes, each })
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An IPv4 address that came through a socket of both versions is given as such.
fn address_of(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|address| SocketAddr::V4((*address).into()));
    v4.or_else(|| {
        let address: SocketAddrV6 = (*storage.as_sockaddr_in6()?).into();
        let port = address.port();
        let mapped = address.ip().to_ipv4_mapped().map(|ip| SocketAddr::from((ip, port)));
        Some(mapped.unwrap_or(SocketAddr::V6(address)))
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn receive(socket: &mut DatagramSocket) -> Vec<Vec<u8>> {
        let (mut all, mut room) = (Vec::new(), vec![0; limits::RECEIVE_BYTES]);
        let until = Instant::now() + Duration::from_secs(5);
        while all.len() < 3 && Instant::now() < until {
            match socket.receive(&mut room) {
                Ok(received) => {
                    all.extend(room[..received.bytes].chunks(received.each).map(<[u8]>::to_vec));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::yield_now();
                }
                Err(error) => panic!("{error}"),
            }
        }
        all
    }

    #[test]
    fn one_send_carries_several_datagrams() {
        let mut here = DatagramSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut there = DatagramSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let to = there.local_address().unwrap();
        for _ in 0..2 {
            here.send(to, &[[1; 1_000], [2; 1_000], [3; 1_000]].concat()[..2_500], 1_000).unwrap();
            let lengths: Vec<_> = receive(&mut there).iter().map(Vec::len).collect();
            assert_eq!(lengths, [1_000, 1_000, 500]);
            here.segments = false;
        }
    }
}
