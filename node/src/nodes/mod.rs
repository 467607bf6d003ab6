//! The other nodes of the cluster: their pods reach other clusters by the gateway, which runs on
//! one node alone (docs/adr/0031).
//!
//! `wire` has the frames that the daemon and the nodes exchange (docs/wire.md, "Nodes"), `control`
//! is the daemon's end, `pin` is how a node knows the daemon, and `follower` what runs on each of the
//! nodes; `closing` closes guests there and on the daemon's own node, and
//! `mending` knows when somebody else has changed the packet rules of either, and `never` whom no guest
//! reaches by the egress of its contract. What a machine has to be changed for it, `node/host/` knows.

pub(crate) mod closing;
pub(crate) mod control;
mod follower;
pub(crate) mod mending;
pub(crate) mod never;
pub(crate) mod pin;
mod wire;

pub(crate) use follower::{Places, follow};
