//! Gossip from outside the crate, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test")]

mod converge;
mod flood;
mod hostile;
mod network;
mod rules;
