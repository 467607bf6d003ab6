//! The tunnel of one machine: a TUN device, a UDP socket, and the session between them.
//!
//! The [`Gateway`] runs on a thread of its own and does what the session decides; a
//! [`GatewayHandle`] gives it peers and addresses. Which they are, and what the rest of the
//! machine must know of them (routes, packet filters), is left to others.

// Floor 3 has the clocks.
#![allow(clippy::disallowed_methods)]

mod device;
mod gateway;
mod handle;
mod limits;
mod socket;

pub use device::{Device, DeviceError, Offloads};
pub use gateway::{Gateway, GatewayConfig, GatewayError};
pub use handle::{Command, GatewayHandle, GatewayStopped};
pub use socket::{DatagramSocket, Received};
