//! How offers spread between neighbours: announce, pull, reconcile.
//!
//! Of each publisher the latest publication counts. What is new, and accepted by the
//! application, is announced to the neighbours, which pull it, with its body if that is new
//! as well, from the first that has it; what ends something is pushed whole. Two neighbours
//! compare all that they hold now and then, so that whatever got lost is made up for. Only
//! what is whole, a lease with its body or what needs none, is kept and announced. A
//! publisher that says two things under one number is proven a fraud, and the proof takes
//! the place of whatever it said.
//!
//! Pure: the clock and the seed are arguments. Signatures are checked before a message
//! comes in ([`Opened`]); what an offer means, and whether to take it, is the broker's;
//! connections are the network layer's.

mod bit_matrix;
mod gossip;
mod interner;
mod item;
mod judge;
pub mod limits;
mod neighbour;
mod opened;
mod peers;
mod pull;
mod push;
mod reconcile;
mod screen;
mod store;
mod table;
mod vocabulary;
mod want;

pub use gossip::Gossip;
pub use interner::Interner;
pub use item::{Item, News};
pub use opened::{Open, Opened, Screened};
pub use vocabulary::{Effect, Input, Verdict};
