//! The libp2p swarm: how clusters reach each other, within limits.
//!
//! [`Net`] dials, listens and carries bytes: gossip frames to neighbours, requests with
//! one answer, questions about the tunnel, workload frames of a lease, and raw kubelet streams. [`Event`] says what
//! peers did. A peer is named by the key that its connection proved.
//!
//! What the bytes mean is left to the daemon's driver and the rooms below it; whom to
//! dial to the directory. libp2p shows nowhere in the interface.
#![allow(clippy::disallowed_methods, reason = "floor 3 reads the clock: RTTs and timeouts")]

mod address;
mod admission;
mod behaviour;
mod command;
mod dial;
mod ended;
mod error;
mod event;
mod frame;
mod gossip;
mod handle;
mod held;
mod identity;
mod inbound;
mod kubelet;
pub mod limits;
mod link;
mod listen;
mod memory;
mod origin;
mod pace;
mod peers;
mod protocols;
mod pulse;
mod ranks;
mod requests;
mod run;
mod session;
mod streams;
mod task;
mod tunnel;
mod unread;
mod workload;

pub use address::{Names, system_names};
pub use error::{DialError, NetError, StartError, TunnelError};
pub use event::Event;
pub use handle::{Net, NetConfig};
pub use held::{Connection, Held};
pub use kubelet::{ByteStream, KubeletAnswer, RequestLength};
pub use limits::Limits;
pub use listen::Listen;
pub use peers::PeerInfo;
pub use requests::Responder;
pub use session::Session;
pub use tunnel::TunnelResponder;
pub use workload::{Frame, WorkloadReceiver, WorkloadSender};
