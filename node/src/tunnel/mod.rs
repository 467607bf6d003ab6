//! How this cluster and a peer come to a tunnel: what they tell each other of their gateways and
//! of their secret, and what of it is kept on disk.
//!
//! The driver performs what [`exchange`] wants; the session itself is in `node/tunnel/`.

pub(crate) mod exchange;
pub(crate) mod secrets;
