//! Where clusters are seen: on the local network by multicast DNS, in the records of a domain,
//! and in the owner's list of addresses.
//!
//! Each source yields the same [`Sighting`](mercato_discovery::Sighting)s, which are
//! hints. Whom to dial, and when, is left to the directory.
#![allow(
    clippy::disallowed_methods,
    reason = "floor 3 may be random, the order of servers, and has clocks, the age of records"
)]

mod dns;
mod lan;
pub mod limits;
mod list;
mod zone;

pub use dns::{Dns, DnsError, Following, Peers, domain_name};
pub use lan::{DEFAULT_SKIPPED, Lan, LanConfig, LanError};
pub use list::{ListError, entry};
pub use zone::Zone;
