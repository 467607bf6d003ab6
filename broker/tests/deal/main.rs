//! Both sides of the market against each other.
#![allow(clippy::unwrap_used, reason = "tests may, and clippy knows only their functions as such")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects")]

mod archive;
mod bait;
mod country;
mod egress;
mod ending;
mod faults;
mod liars;
mod lost;
mod model;
mod paths;
mod policy;
mod refused;
mod shares;
mod stopped;
mod story;
mod upgraded;
mod windows;
mod words;
mod world;
