//! The other nodes of the cluster: their pods reach other clusters by the gateway, which runs on
//! one node alone (docs/adr/0031).
//!
//! `wire` has the frames that the daemon and the nodes exchange (docs/wire.md, "Nodes"), `pin` how
//! a node knows the daemon, `follower` what runs on each of the nodes. What a machine has to be
//! changed for it, `node/host/` knows.

mod follower;
mod pin;
mod wire;

pub(crate) use follower::{Places, follow};
