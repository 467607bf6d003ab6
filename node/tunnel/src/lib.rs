//! The tunnel of one machine: a TUN device, a UDP socket, and the session between them.
//!
//! The [`Gateway`] has a thread for each of its shards, and does what the session decides; a
//! [`GatewayHandle`] gives it peers and addresses. Which they are, and what the rest of the
//! machine must know of them (routes, packet filters), is left to others.

// Floor 3 has the clocks.
#![allow(clippy::disallowed_methods)]

mod applied;
mod clock;
mod device;
mod error;
mod gateway;
mod handle;
mod handshakes;
mod lane;
mod limits;
mod links;
mod offloads;
mod order;
mod outer;
mod segments;
mod socket;
mod sockets;
mod source;
mod steering;
mod traffic;
mod worker;

pub use applied::Applied;
pub use device::{Device, DeviceError};
pub use error::GatewayError;
pub use gateway::{Gateway, GatewayConfig};
pub use handle::{Command, CommandError, GatewayHandle, LeaseRates};
pub use links::LinkEvent;
pub use mercato_session::PeerState;
pub use offloads::{Offload, OffloadState, Offloads, UnknownOffload};
pub use outer::{OuterCounters, OuterReason};
pub use socket::{DatagramSocket, Received};
pub use sockets::Sockets;
pub use traffic::Traffic;

/// How many shards a gateway of this machine has, unless somebody wants another number: one for
/// each core.
pub fn default_shards() -> u8 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.min(limits::SHARDS) as u8
}
