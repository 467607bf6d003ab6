//! What passes the devices of a network namespace: packets in which a marker can be read, counted
//! by device, and apart from others those that an overlay carries between its own machines.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, anyhow, ensure};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::net::if_::if_indextoname;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType,
    recvmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

/// More than the largest packet that a device carries unsegmented.
const PACKET: usize = 256 << 10;
/// Bytes of packets that wait for the reader: some 5 MB pass several devices, faster than an
/// unoptimised reader looks at them.
const WAITING: usize = 256 << 20;
/// How often a reader looks whether it shall end.
const PAUSE_MS: i64 = 20;

/// Packets that passed one device, both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// All packets, both ways; those of segmentation offloads as one.
    pub packets: u64,
    /// Packets among them in which the marker can be read.
    pub marked: u64,
    /// The same of an overlay that the capture was told of, which do not count as marked.
    pub overlaid: u64,
}

/// A way for packets in clear between machines: UDP to one port, over IPv4.
#[derive(Clone, Debug)]
pub struct Overlay {
    /// Where each of them takes it.
    pub port: u16,
    /// From and to these alone.
    pub machines: Vec<IpAddr>,
}

/// A capture that goes on.
#[derive(Debug)]
pub struct Capture {
    ends: Arc<AtomicBool>,
    reader: JoinHandle<Result<BTreeMap<String, Seen>>>,
}

impl Capture {
    /// Begins to look for a marker on all devices of a network, also those that come later.
    ///
    /// The network is the path of its namespace, such as of
    /// [`Machine::network`](crate::cluster::Machine::network).
    ///
    /// # Errors
    /// When the namespace cannot be entered, or without CAP_NET_RAW.
    pub fn begin(network: &Path, marker: &str) -> Result<Self> {
        Self::beside(network, marker, Vec::new())
    }

    /// The same, and counts apart from others what these overlays carry on links of Ethernet.
    ///
    /// # Errors
    /// As [`Capture::begin`].
    pub fn beside(network: &Path, marker: &str, overlays: Vec<Overlay>) -> Result<Self> {
        ensure!(!marker.is_empty(), "a capture looks for a marker of some bytes");
        let (network, marker) = (network.to_owned(), marker.as_bytes().to_owned());
        let ends = Arc::new(AtomicBool::new(false));
        let (tell, told) = sync_channel(1);
        let until = Arc::clone(&ends);
        let reader = std::thread::Builder::new().name("capture".to_owned()).spawn(move || {
            let opened = open(&network);
            let (socket, said) = match opened {
                Ok(socket) => (Some(socket), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // Whoever began it waits for this.
            let _ = tell.send(said);
            let Some(socket) = socket else { return Ok(BTreeMap::new()) };
            read(&socket, &marker, &overlays, &until)
        })?;
        told.recv().context("a capture ended at once")??;
        Ok(Self { ends, reader })
    }

    /// Ends it, after all that has passed already; what was seen, by the name of the device. A
    /// device that nothing passed is not there.
    ///
    /// # Errors
    /// When packets came faster than they could be looked at, so that some are not counted.
    pub fn end(self) -> Result<BTreeMap<String, Seen>> {
        self.ends.store(true, Ordering::Release);
        self.reader.join().map_err(|_| anyhow!("a capture panicked"))?
    }
}

/// A socket that sees every packet of the network; this thread stays in that network.
fn open(network: &Path) -> Result<OwnedFd> {
    let file = File::open(network).with_context(|| format!("open {}", network.display()))?;
    setns(file, CloneFlags::CLONE_NEWNET).context("enter the network of a capture")?;
    let (flags, all) = (SockFlag::SOCK_CLOEXEC, Some(SockProtocol::EthAll));
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, all).context("capture")?;
    setsockopt(&socket, sockopt::RcvBufForce, &WAITING)?;
    setsockopt(&socket, sockopt::RxqOvfl, &1)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::milliseconds(PAUSE_MS))?;
    Ok(socket)
}

fn read(
    socket: &OwnedFd,
    marker: &[u8],
    overlays: &[Overlay],
    ends: &AtomicBool,
) -> Result<BTreeMap<String, Seen>> {
    let mut devices = BTreeMap::<usize, (String, Seen)>::new();
    let (mut room, mut control, mut lost) = (vec![0; PACKET], cmsg_space!(u32), 0);
    loop {
        // Read before the packets are: what passed until then is counted.
        let last = ends.load(Ordering::Acquire);
        let flags = if last { MsgFlags::MSG_DONTWAIT } else { MsgFlags::empty() };
        let mut parts = [IoSliceMut::new(&mut room)];
        let message =
            recvmsg::<LinkAddr>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags);
        let message = match message {
            Ok(message) => message,
            Err(Errno::EAGAIN) if last => break,
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            // A device that was taken down; the others go on.
            Err(Errno::ENETDOWN) => continue,
            Err(error) => return Err(error).context("read packets"),
        };
        for message in message.cmsgs()? {
            if let ControlMessageOwned::RxqOvfl(count) = message {
                lost = count;
            }
        }
        let (length, from) = (message.bytes, message.address);
        let Some(device) = from.map(|from| from.ifindex()) else { continue };
        let (_, seen) = devices.entry(device).or_insert_with(|| (name(device), Seen::default()));
        seen.packets += 1;
        let packet = &room[..length];
        if holds(packet, marker) {
            let overlaid = overlays.iter().any(|overlay| overlay.carries(packet));
            *if overlaid { &mut seen.overlaid } else { &mut seen.marked } += 1;
        }
    }
    ensure!(lost == 0, "{lost} packets came faster than the capture could look at them");
    let mut by_name = BTreeMap::<String, Seen>::new();
    for (name, seen) in devices.into_values() {
        let all = by_name.entry(name).or_default();
        all.packets += seen.packets;
        all.marked += seen.marked;
        all.overlaid += seen.overlaid;
    }
    Ok(by_name)
}

/// Of one that is gone already, its number.
fn name(device: usize) -> String {
    let known = u32::try_from(device).ok().and_then(|number| if_indextoname(number).ok());
    known.map_or_else(|| format!("#{device}"), |name| name.to_string_lossy().into_owned())
}

impl Overlay {
    /// Whether it carries this frame.
    fn carries(&self, frame: &[u8]) -> bool {
        // Ethernet of IPv4, UDP, not a later fragment; RFC 791 has the fields.
        let Some((head, packet)) = frame.split_at_checked(14) else { return false };
        if head[12..] != [0x08, 0x00] || packet.len() < 20 || packet[9] != 17 {
            return false;
        }
        let whole = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff == 0;
        let address = |at: usize| {
            let [a, b, c, d] = [packet[at], packet[at + 1], packet[at + 2], packet[at + 3]];
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        };
        let port = usize::from(packet[0] & 0x0f) * 4 + 2;
        let port = packet.get(port..port + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
        let own = |at| self.machines.contains(&address(at));
        whole && port == Some(self.port) && own(12) && own(16)
    }
}

fn holds(packet: &[u8], marker: &[u8]) -> bool {
    let mut rest = packet;
    while let Some(at) = rest.iter().position(|byte| *byte == marker[0]) {
        if rest[at..].starts_with(marker) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Overlay, holds};

    #[test]
    fn an_overlay_carries_between_its_own_machines_alone() {
        let overlay = Overlay {
            port: 7_477,
            machines: ["10.77.1.1", "10.77.1.2"].map(|one| one.parse().expect("one")).into(),
        };
        let mut frame = vec![0; 14 + 28];
        frame[12] = 0x08;
        frame[14] = 0x45;
        frame[14 + 9] = 17;
        frame[14 + 12..14 + 20].copy_from_slice(&[10, 77, 1, 1, 10, 77, 1, 2]);
        frame[14 + 22..14 + 24].copy_from_slice(&7_477_u16.to_be_bytes());
        assert!(overlay.carries(&frame));
        // To another cluster, another port, by TCP, a later fragment, cut.
        for (at, byte) in [(14 + 18, 2), (14 + 23, 0), (14 + 9, 6), (14 + 7, 1)] {
            let mut other = frame.clone();
            other[at] = byte;
            assert!(!overlay.carries(&other), "{at}");
        }
        assert!(!overlay.carries(&frame[..14 + 20]) && !overlay.carries(&frame[..9]));
    }

    #[test]
    fn a_marker_is_found_wherever_it_stands() {
        assert!(holds(b"abcabcd", b"abcd"));
        assert!(holds(b"abcd", b"abcd"));
        assert!(!holds(b"abcab", b"abcd"));
        assert!(!holds(b"", b"abcd"));
    }
}
