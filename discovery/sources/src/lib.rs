//! Where clusters are seen: on the local network by multicast DNS, and in the owner's
//! list of addresses.
//!
//! Each source yields the same [`Sighting`](mercato_discovery::Sighting)s, which are
//! hints. Whom to dial, and when, is left to the directory.
#![allow(clippy::disallowed_methods, reason = "floor 3 may be random: the instance's name")]

mod lan;
mod list;

pub use lan::{DEFAULT_SKIPPED, Lan, LanConfig, LanError};
pub use list::{ListError, entry};
