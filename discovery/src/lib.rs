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
mod contact;
mod contacts;
mod dials;
mod directory;
mod effect;
mod input;
pub mod limits;
mod links;
mod origin;
mod sample;
mod sighting;

pub use address::{
    Address, Host, ParseAddressError, PublicAddress, Transport, likeliest_first, published,
};
pub use directory::{Directory, Known};
pub use effect::Effect;
pub use input::{DialFailure, Input};
pub use origin::Origin;
pub use sighting::{Report, Sighting, SightingId, Source};
