//! The wire format, from outside the crate: vectors and round trips.
#![allow(clippy::unwrap_used, reason = "tests may, and clippy knows only their functions as such")]

mod canonical;
mod corpus;
mod egress;
mod largest;
mod malformed;
mod membership;
mod roundtrip;
mod samples;
mod talk;
mod tunnel;
mod vectors;
