//! The wire format, from outside the crate: vectors, round trips, frames.
#![allow(clippy::unwrap_used, reason = "tests may, and clippy knows only their functions as such")]

mod frames;
mod malformed;
mod roundtrip;
mod samples;
mod vectors;
