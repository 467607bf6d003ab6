//! Whom we know and when to dial.
//!
//! Sources (LAN, list, peers) report [`Sighting`]s; the [`Directory`] gathers them
//! per peer, dials as many as are needed, with back-off, and forgets what is gone. Pure: the
//! clock and the seed are arguments.
//!
//! A sighting is a hint. It says where somebody may be found and, perhaps, who
//! claims to be there; only the key that a connection proved counts, and that is
//! settled below this crate. Whether to trade with a peer is decided elsewhere.

mod address;
mod choice;
mod contact;
mod directory;
pub mod limits;
mod sample;
mod sighting;
mod vocabulary;

pub use address::{Address, Host, ParseAddressError, PublicAddress, Transport, published};
pub use directory::Directory;
pub use sighting::{Report, Sighting, SightingId, Source};
pub use vocabulary::{DialFailure, Effect, Input, Known};
