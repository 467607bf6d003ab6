//! The tunnel of each lease, from this cluster's side: what it and a peer tell each other of their
//! gateways and of their secret, what of it is kept on disk, and a task that starts the gateway
//! with the first lease, keeps it and the machine in step with leases and pods, and ends both with
//! the last.
//!
//! Which address is whose is the agent's to say; packets are carried by `node/tunnel/`, and what
//! the machine must have is set up by `node/host/`.

mod door;
mod end;
mod event;
mod exchange;
mod gone;
mod ground;
mod keeper;
mod loss;
mod machine;
mod nodes;
mod own;
mod owners;
mod peer;
mod peers;
mod relay;
mod second;
mod secrets;
mod seen;
mod table;
mod words;

pub(crate) use keeper::{Before, Parts, start};
pub(crate) use machine::{GatewaySettings, NamesSettings, NodesSettings};
