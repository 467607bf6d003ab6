//! The tunnel's session, without IO: two gateways agree on keys by a Noise handshake, and seal
//! the packets of their pods to each other.
//!
//! A [`Carrier`] has the handshakes and the timers of all peers of one gateway, and the address
//! table. A [`DataPath`] is that of one processor core: it seals and opens, with keys of its own,
//! and shares nothing with the others but the table. The shell carries datagrams to both, the
//! carrier's orders to the data paths, and what these saw back to the carrier.
//!
//! The protocol is WireGuard's (`Noise_IKpsk2`, cookies, timers, silence towards strangers) with
//! a prologue, payloads and a data path of its own; `docs/adr/` says where it differs and why.
//!
//! Pure: the clock and the seed are arguments. Devices, sockets and routes are the shell's; which
//! address is whose, and whether a packet may pass, is the address table's.

mod activity;
mod address_table;
mod answer;
mod carrier;
mod checksum;
mod coalesce;
mod control;
mod cookie;
mod count;
mod crossing;
mod cut;
mod dh;
mod endpoint;
mod erased_cipher;
mod erased_hash;
mod erased_state;
mod erasing_rng;
mod halves;
mod handshake;
mod keys;
pub mod limits;
mod message;
mod number_hash;
mod offload;
mod packet;
mod path_mtu;
mod peer_index;
mod primitives;
mod replay;
mod room;
mod seal;
mod session_keys;
mod shard;
mod start;
mod suite;
mod too_big;
mod traffic;
mod translate;
#[cfg(test)]
mod vectors;
mod via;

pub use activity::Activity;
pub use address_table::{
    AddressTable, Change, Counters, DropReason, Entry, Group, Outbound, RangeEntry, Refused, Role,
    Route,
};
pub use answer::nobody_there;
pub use carrier::{Addresses, Carrier, DataPath, Order, Outbox, Outlet, Say, Shards};
pub use coalesce::Coalescer;
pub use control::{Control, Ping, Probe};
pub use count::Count;
pub use cut::{Cut, CutError, take_partial_mark};
pub use endpoint::{Claim, Config, Ignored, Link, Lost, NoRoom, PeerConfig, PeerState};
pub use keys::{KeyPair, PublicKey, SharedSecret};
pub use message::{DATA_HEADER_BYTES, Malformed};
pub use offload::{OFFLOAD_HEADER_BYTES, OffloadHeader, SegmentKind, Segments, complete_checksum};
pub use packet::NoPacket;
pub use path_mtu::{Path, PathMtu};
pub use peer_index::PeerIndex;
pub use room::Room;
pub use session_keys::SessionKeys;
pub use shard::{Opened, Shard, ShardError};
pub use start::Start;
pub use suite::{Suite, Suites};
pub use too_big::{clamp_segment_size, too_big};
pub use traffic::{FairQueue, LeaseCounters, Queued, Rate, RateLimit};
pub use translate::Checksum;
pub use via::Via;
