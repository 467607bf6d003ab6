//! What becomes of packets: a table of nf_tables for each family, as a value.
//!
//! A table is compared with what the kernel has, and so holds what the kernel keeps, and no more.
//! How it is said to the kernel is `netlink/`'s.

mod expression;
mod guard;
mod homes;
mod overlay;
mod rule;
mod scope;
mod table;

pub(crate) use self::expression::address;
pub use self::expression::{Expression, Verdict};
pub use self::guard::guard;
pub use self::table::{Base, Chain, Hook, PacketRule, Table};
