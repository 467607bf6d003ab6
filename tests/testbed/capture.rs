//! What passes the devices of a network namespace: packets in which a marker can be read, counted
//! by device.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::IoSliceMut;
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
            read(&socket, &marker, &until)
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

fn read(socket: &OwnedFd, marker: &[u8], ends: &AtomicBool) -> Result<BTreeMap<String, Seen>> {
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
        seen.marked += u64::from(holds(&room[..length], marker));
    }
    ensure!(lost == 0, "{lost} packets came faster than the capture could look at them");
    let mut by_name = BTreeMap::<String, Seen>::new();
    for (name, seen) in devices.into_values() {
        let all = by_name.entry(name).or_default();
        all.packets += seen.packets;
        all.marked += seen.marked;
    }
    Ok(by_name)
}

/// Of one that is gone already, its number.
fn name(device: usize) -> String {
    let known = u32::try_from(device).ok().and_then(|number| if_indextoname(number).ok());
    known.map_or_else(|| format!("#{device}"), |name| name.to_string_lossy().into_owned())
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
    use super::holds;

    #[test]
    fn a_marker_is_found_wherever_it_stands() {
        assert!(holds(b"abcabcd", b"abcd"));
        assert!(holds(b"abcd", b"abcd"));
        assert!(!holds(b"abcab", b"abcd"));
        assert!(!holds(b"", b"abcd"));
    }
}
