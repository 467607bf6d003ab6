//! What peers sign and say: identities, money, resources, advertisements,
//! negotiation, contracts, receipts, workload and gossip messages, the canonical
//! bytes of each, and the bounds of each.
//!
//! Pure values: no clock, no randomness, no IO. What a message *means*, and
//! whether to accept it, is decided by the rooms above. `docs/wire.md` describes
//! the same bytes for whoever writes another peer.

pub mod ad;
pub mod bounded;
pub mod certificate;
pub mod codec;
pub mod contract;
mod countersigned;
pub mod egress;
pub mod envelope;
pub mod equivocation;
pub mod federation;
pub mod first_frame;
pub mod gate;
pub mod gossip;
pub mod gpu;
pub mod hello;
pub mod id;
pub mod identity;
pub mod invoice;
pub mod join;
pub mod kubelet_stream;
pub mod limits;
pub mod names;
pub mod negotiation;
pub mod node;
pub mod outside;
pub mod price;
pub mod quantity;
pub mod receipt;
pub mod resources;
pub mod terms;
pub mod text;
pub mod time;
pub mod tunnel;
pub mod virtual_node;
pub mod workload;
