//! How offers spread between neighbours: announce, pull, reconcile.
//!
//! Of each publisher the latest publication counts. What is new is announced to the
//! neighbours, which pull it, and its body, from the first that has it; two neighbours
//! compare all that they hold now and then, so that whatever got lost is made up for.
//! Only what is whole, a lease with its body or a withdrawal, is kept and announced.
//!
//! Pure: the clock and the seed are arguments. Signatures are checked before a message
//! comes in ([`Opened`]); what an offer means, and whether to take it, is the broker's;
//! connections are the network layer's.

mod gossip;
pub mod limits;
mod neighbour;
mod pull;
mod reconcile;
mod shelf;
mod vocabulary;

pub use gossip::Gossip;
pub use vocabulary::{Effect, Input, News, Opened};
