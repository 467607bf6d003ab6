//! A UDP socket whose packets no router fragments, and whose kernel cuts one large send into datagrams (`UDP_SEGMENT`) and puts
//! datagrams of one sender together (`UDP_GRO`): one call for up to 64 KiB.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use mercato_session::Via;
use nix::cmsg_space;
use nix::sys::socket::sockopt::{
    AttachReusePortCbpf, GetStruct, Ipv4PacketInfo, Ipv6RecvPacketInfo, RcvBuf, RcvBufForce,
    ReusePort, SetUsize, SndBuf, SndBufForce, UdpGroSegment, UdpGsoSegment,
};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, getsockopt, recvmsg, sendmsg,
    setsockopt,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::limits;
use crate::offloads::{Offload, OffloadState};
use crate::source::{NOT_OURS, Source, address_of, own_address};
use crate::steering;

/// Errors of a send of many datagrams that may be due to their number: the kernel or the card
/// cannot cut, or one datagram alone is already too large.
const CANNOT_SEGMENT: [nix::Error; 4] =
    [nix::Error::EIO, nix::Error::EINVAL, nix::Error::EMSGSIZE, nix::Error::EOPNOTSUPP];

/// A UDP socket for sealed packets, of both versions of IP.
#[derive(Debug)]
pub struct DatagramSocket {
    socket: Socket,
    /// Whether it takes addresses of version 6 alone, those of version 4 mapped into them.
    is_version_6: bool,
    offloads: OffloadState,
    control: Vec<u8>,
}

/// What becomes of IPv4 packets that are larger than the path carries (ip(7)).
#[derive(Clone, Copy, Debug)]
struct IpMtuDiscover;

/// The same of IPv6 packets (ipv6(7)).
#[derive(Clone, Copy, Debug)]
struct Ipv6MtuDiscover;

nix::setsockopt_impl!(IpMtuDiscover, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, usize, SetUsize);
nix::setsockopt_impl!(
    Ipv6MtuDiscover,
    libc::IPPROTO_IPV6,
    libc::IPV6_MTU_DISCOVER,
    usize,
    SetUsize
);

/// What the kernel keeps for a socket (`SO_MEMINFO`, linux/sock_diag.h): the first four numbers.
#[derive(Clone, Copy, Debug)]
struct MemoryInfo;

nix::getsockopt_impl!(
    MemoryInfo,
    libc::SOL_SOCKET,
    libc::SO_MEMINFO,
    [u32; 4],
    GetStruct<[u32; 4]>
);

/// What was received at once: datagrams of one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent them, and to which address of ours.
    pub via: Via,
    /// All bytes together.
    pub bytes: usize,
    /// Those of each datagram but the last.
    pub each: usize,
}

impl DatagramSocket {
    /// Binds one that keeps so many bytes until they are read; with `is_one_of_many`, beside others
    /// of the same address.
    pub(crate) fn bind(
        address: SocketAddr,
        is_one_of_many: bool,
        receive_bytes: usize,
        offloads: &OffloadState,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.set_nonblocking(true)?;
        // The session finds out by itself what the path carries: the kernel neither fragments nor
        // heeds what anybody tells it by ICMP.
        setsockopt(&socket, IpMtuDiscover, &(libc::IP_PMTUDISC_PROBE as usize))?;
        if address.is_ipv6() {
            setsockopt(&socket, Ipv6MtuDiscover, &(libc::IPV6_PMTUDISC_PROBE as usize))?;
        }
        // Which address of ours a datagram came to: what is answered comes from there.
        if address.is_ipv6() {
            setsockopt(&socket, Ipv6RecvPacketInfo, &true)?;
        } else {
            setsockopt(&socket, Ipv4PacketInfo, &true)?;
        }
        setsockopt(&socket, ReusePort, &is_one_of_many)?;
        // Without the right to have more than the machine's limit, that is enough to go on.
        let _ = setsockopt(&socket, RcvBufForce, &receive_bytes)
            .or_else(|_| setsockopt(&socket, RcvBuf, &receive_bytes));
        set_send_buffer(&socket, limits::SEND_BUFFER_FIRST_BYTES);
        socket.bind(&address.into())?;
        if offloads.contains(Offload::UdpGro)
            && let Err(error) = setsockopt(&socket, UdpGroSegment, &true)
        {
            offloads.give_up(Offload::UdpGro, &error);
        }
        if offloads.contains(Offload::UdpGso)
            && let Err(error) = setsockopt(&socket, UdpGsoSegment, &0)
        {
            offloads.give_up(Offload::UdpGso, &error);
        }
        let control = vec![0; cmsg_space!(i32, libc::in_pktinfo, libc::in6_pktinfo).capacity()];
        let is_version_6 = address.is_ipv6();
        Ok(Self { socket, is_version_6, offloads: offloads.clone(), control })
    }

    /// Gives the kernel the program by which it chooses among the sockets of this address.
    pub(crate) fn steer(
        &self,
        mut program: [libc::sock_filter; steering::STEPS],
    ) -> nix::Result<()> {
        let filter = program.as_mut_ptr();
        let program = libc::sock_fprog { len: steering::STEPS as u16, filter };
        setsockopt(&self.socket, AttachReusePortCbpf, &program)
    }

    /// Lets the kernel keep so many bytes, until they are on their way.
    pub(crate) fn set_send_buffer(&self, bytes: usize) {
        set_send_buffer(&self.socket, bytes);
    }

    /// What the kernel keeps of what was sent, with its own bookkeeping. None if it cannot tell.
    pub(crate) fn unsent_bytes(&self) -> Option<u32> {
        let [_received, _receive_buffer, unsent, _send_buffer] =
            getsockopt(&self.socket, MemoryInfo).ok()?;
        Some(unsent)
    }

    /// Where it is bound to.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        let address = self.socket.local_addr()?.as_socket();
        address.ok_or_else(|| io::Error::other("a socket of no version of IP"))
    }

    /// Sends datagrams of `each` bytes, the last one of what is left. `WouldBlock` if there is no
    /// room. If the address that they are to come from is not ours any more, the kernel chooses.
    ///
    /// # Errors
    /// When the network refuses them; `EMSGSIZE` of those that the own link does not carry.
    pub fn send(&self, via: impl Into<Via>, bytes: &[u8], each: usize) -> io::Result<()> {
        assert!(each > 0 && bytes.len() <= limits::SEND_BYTES, "a batch is bounded");
        let via = via.into();
        match self.send_cut(via, bytes, each) {
            Err(error) if via.from.is_some() && NOT_OURS.contains(&error) => {
                Ok(self.send_cut(via.to.into(), bytes, each)?)
            }
            sent => Ok(sent?),
        }
    }

    fn send_cut(&self, to: Via, bytes: &[u8], each: usize) -> nix::Result<()> {
        if bytes.len() <= each {
            return self.send_once(to, bytes, None);
        }
        let refused = if self.offloads.contains(Offload::UdpGso) {
            match self.send_once(to, bytes, Some(each as u16)) {
                Err(error) if CANNOT_SEGMENT.contains(&error) => Some(error),
                other => return other,
            }
        } else {
            None
        };
        for datagram in bytes.chunks(each) {
            self.send_once(to, datagram, None)?;
        }
        if let Some(refused) = refused {
            // They were taken one by one: it is their number that was refused.
            self.offloads.give_up(Offload::UdpGso, &refused);
        }
        Ok(())
    }

    fn send_once(&self, via: Via, bytes: &[u8], each: Option<u16>) -> nix::Result<()> {
        let to = match via.to {
            SocketAddr::V4(to) if self.is_version_6 => {
                SocketAddr::from((to.ip().to_ipv6_mapped(), to.port()))
            }
            SocketAddr::V4(_) | SocketAddr::V6(_) => via.to,
        };
        let to = SockaddrStorage::from(to);
        let source = via.from.and_then(|from| Source::of(from, self.is_version_6));
        let messages = [
            each.as_ref().map(ControlMessage::UdpGsoSegments),
            source.as_ref().map(Source::message),
        ];
        let messages: Vec<_> = messages.into_iter().flatten().collect();
        let descriptor = self.socket.as_raw_fd();
        let bytes = [IoSlice::new(bytes)];
        sendmsg(descriptor, &bytes, &messages, MsgFlags::empty(), Some(&to)).map(drop)
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
        let (mut each, mut from) = (None, None);
        for message in message.cmsgs()? {
            if let ControlMessageOwned::UdpGroSegments(segments) = message {
                each = usize::try_from(segments).ok();
            }
            from = own_address(&message).or(from);
        }
        let to = message.address.as_ref().and_then(address_of);
        let to = to.ok_or_else(|| io::Error::other("a datagram of no version of IP"))?;
        let each = each.filter(|each| *each > 0).unwrap_or(message.bytes);
        Ok(Received { via: Via { to, from }, bytes: message.bytes, each })
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Without the right to have more than the machine's limit, that is enough to go on.
fn set_send_buffer(socket: &Socket, bytes: usize) {
    let _ = setsockopt(socket, SndBufForce, &bytes).or_else(|_| setsockopt(socket, SndBuf, &bytes));
}

/// Whether datagrams were refused since one of them is larger than the own link carries.
pub(crate) fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::offloads::Offloads;
    use crate::sockets::Sockets;

    fn receive(socket: &mut DatagramSocket, expected: usize) -> Vec<Vec<u8>> {
        let (mut all, mut room) = (Vec::new(), vec![0; limits::RECEIVE_BYTES]);
        let until = Instant::now() + Duration::from_secs(5);
        while all.len() < expected && Instant::now() < until {
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

    fn bind(offloads: &OffloadState) -> DatagramSocket {
        let all = Sockets::bind("127.0.0.1:0".parse().unwrap(), 1, offloads).unwrap();
        all.shards.into_iter().next().unwrap()
    }

    fn lengths_of_three(here: &DatagramSocket, there: &mut DatagramSocket) -> Vec<usize> {
        let to = there.local_address().unwrap();
        here.send(to, &[[1; 1_000], [2; 1_000], [3; 1_000]].concat()[..2_500], 1_000).unwrap();
        receive(there, 3).iter().map(Vec::len).collect()
    }

    #[test]
    fn one_send_carries_several_datagrams() {
        for offloads in [Offloads::ALL, Offloads::NONE] {
            let offloads = OffloadState::new(offloads);
            let (here, mut there) = (bind(&offloads), bind(&offloads));
            assert_eq!(lengths_of_three(&here, &mut there), [1_000, 1_000, 500]);
        }
    }

    #[test]
    fn a_kernel_that_cannot_cut_gets_them_one_by_one() {
        /// More than any Linux cuts out of one send (EINVAL).
        const MANY: usize = 200;
        let (sends, receives) =
            (OffloadState::new(Offloads::ALL), OffloadState::new(Offloads::ALL));
        let (here, mut there) = (bind(&sends), bind(&receives));
        here.send(there.local_address().unwrap(), &[7; 10 * MANY], 10).unwrap();
        assert_eq!(receive(&mut there, MANY), vec![vec![7; 10]; MANY]);
        for _ in 0..2 {
            assert_eq!(sends.now(), Offloads::ALL.without(Offload::UdpGso));
            assert_eq!(lengths_of_three(&here, &mut there), [1_000, 1_000, 500]);
        }
    }

    #[test]
    fn what_is_answered_comes_from_where_it_was_asked() {
        for any in ["0.0.0.0:0", "[::]:0"] {
            let offloads = OffloadState::new(Offloads::ALL);
            let bound = || Sockets::bind(any.parse().unwrap(), 1, &offloads).unwrap().shards;
            let (mut here, mut there) = (bound().remove(0), bound().remove(0));
            let port = there.local_address().unwrap().port();
            for last in [2, 3] {
                let asked = SocketAddr::from(([127, 0, 0, last], port));
                here.send(asked, b"who is there?", 100).unwrap();
                let received = wait(&mut there);
                assert_eq!(received.via.from, Some(asked.ip()));
                there.send(received.via, b"I am", 100).unwrap();
                assert_eq!(wait(&mut here).via.to, asked, "bound to {any}");
                // An address that went away does not end what goes on.
                let gone = Via { from: Some([192, 0, 2, 77].into()), ..received.via };
                there.send(gone, &[7; 250], 100).unwrap();
                let answered: Vec<_> = receive(&mut here, 3).iter().map(Vec::len).collect();
                assert_eq!(answered, [100, 100, 50]);
            }
            assert_eq!(offloads.now(), Offloads::ALL);
        }
    }

    fn wait(socket: &mut DatagramSocket) -> Received {
        let (mut room, until) =
            (vec![0; limits::RECEIVE_BYTES], Instant::now() + Duration::from_secs(5));
        loop {
            match socket.receive(&mut room) {
                Ok(received) => return received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    assert!(Instant::now() < until, "nothing came");
                    std::thread::yield_now();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}
