//! Whether a machine closes anybody: tried in a network namespace of its own, with a datagram that
//! arrives before and does not arrive afterwards. The namespace goes with the thread that made it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use nix::sched::{CloneFlags, unshare};

use crate::error::{HostError, KernelError};
use crate::limits;
use crate::netlink::{Conversation, Device, read_devices, replace_frames, set_up};
use mercato_machine::Closed;
use mercato_machine::Mac;
use mercato_machine::{Interface, closed};

const OWN: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Tries whether this machine closes anybody.
///
/// # Errors
/// When it does not, and what it lacks.
pub fn try_to_close() -> Result<(), HostError> {
    let named = std::thread::Builder::new().name("trial".to_owned());
    let trying = |source| HostError::Trial { source };
    let thread = named.spawn(in_own_namespace).map_err(trying)?;
    thread.join().map_err(|_| trying(io::Error::other("its thread has ended")))?
}

fn in_own_namespace() -> Result<(), HostError> {
    let trying = |source| HostError::Trial { source };
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| trying(error.into()))?;
    let kernel = |source: KernelError| HostError::Read { what: "own network namespace", source };
    let mut routing = Conversation::about_routing().map_err(kernel)?;
    let devices = read_devices(&mut routing).map_err(kernel)?;
    let device = devices.into_iter().find(|device| device.is_loopback);
    let Device { index, name, .. } =
        device.ok_or_else(|| trying(io::ErrorKind::NotFound.into()))?;
    routing.perform(set_up(index)).map_err(kernel)?;
    let [from, to] = [socket().map_err(trying)?, socket().map_err(trying)?];
    if !arrives(&from, &to).map_err(trying)? {
        return Err(trying(io::Error::other("nothing arrives in it before it is closed")));
    }
    let nobody = Closed { own: [IpAddr::V4(OWN)].into(), ..Closed::default() };
    let interface = Interface { name, mac: Mac([0; 6]), of_link: [].into() };
    let mut packets = Conversation::about_packets().map_err(kernel)?;
    replace_frames(&mut packets, None, &closed(&nobody, &interface)).map_err(|source| {
        HostError::Apply { doing: "close a network namespace, as a trial".to_owned(), source }
    })?;
    if arrives(&from, &to).map_err(trying)? { Err(HostError::NotClosed) } else { Ok(()) }
}

fn socket() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((OWN, 0))?;
    socket.set_read_timeout(Some(limits::TRIAL))?;
    Ok(socket)
}

/// On this device whatever is sent has arrived when it was sent, or never does.
fn arrives(from: &UdpSocket, to: &UdpSocket) -> io::Result<bool> {
    // What is dropped may be said to the sender, or not.
    let _ = from.send_to(b"?", to.local_addr()?);
    comes(to)
}

/// Whether a datagram comes to the socket before its timeout. The kernel does not begin such a wait again
/// by itself where it was interrupted, as by a machine that was paused.
pub(crate) fn comes(to: &UdpSocket) -> io::Result<bool> {
    loop {
        match to.recv(&mut [0; 1]) {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
