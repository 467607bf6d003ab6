//! Would this frame pass these tables, and by which rule? The same that the kernel answers
//! (net/netfilter/nf_tables_core.c), from the values alone that we give it.
//!
//! Chains are asked in the kernel's order: those of the device in a guest's namespace, those at the
//! node's end of it, and the node's own by hook and priority ([`from_guest`]). What rules cannot know is
//! told by [`Facts`]: what conntrack says of the packet, whether a route leads back to its source,
//! and whether a bound is used up. A word of a rule that is not known is an error, and never lets
//! anything pass.
//!
//! What the kernel's stack itself refuses, such as a header with a wrong sum, is not asked here; nor is what
//! programs of eBPF do at a device.

mod chains;
mod error;
mod facts;
mod frame;
mod journey;
mod outcome;
mod register;
mod rewrite;
mod rule;
mod tables;
#[cfg(test)]
mod tests;

pub use self::chains::{at_device, at_hook};
pub use self::error::InterpretError;
pub use self::facts::{BoundOf, Connection, ConnectionState, Conntrack, Facts};
pub use self::frame::Frame;
pub use self::journey::{Guest, Route, from_guest};
pub use self::outcome::{Decision, Outcome, Passage};
