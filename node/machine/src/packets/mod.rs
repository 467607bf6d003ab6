//! What becomes of packets: a table of nf_tables for each family, as a value.
//!
//! Beside them, a table for the frames of one device.
//!
//! A table is compared with what the kernel has, and so holds what the kernel keeps, and no more.
//! How it is said to the kernel is `netlink/`'s.

mod api;
mod between;
mod bounds;
mod closed;
mod errors;
mod expression;
mod frames;
mod guard;
mod guests;
mod homes;
mod outward;
mod overlay;
pub(crate) mod protocols;
mod rule;
mod scope;
mod table;
#[cfg(test)]
mod tests;

pub use self::closed::{Interface, closed, closed_at_node};
pub use self::expression::{Bound, Expression, Rewritten, Verdict, address, source};
pub use self::frames::{AddressMap, FrameBase, FrameChain, FrameTable};
pub use self::guard::guard;
pub use self::table::{Base, Chain, Hook, PacketRule, Side, Table, Tally};
