//! The other nodes of the cluster: their pods reach other clusters by the gateway, which runs on
//! one node alone (docs/adr/0031).
//!
//! `wire` has the frames that the daemon and the nodes exchange (docs/wire.md, "Nodes"). What a
//! machine has to be changed for it, `node/host/` knows.

// Both ends of the connection follow.
#[allow(dead_code)]
mod wire;
