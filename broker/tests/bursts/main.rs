//! Bursts: what a consumer's broker buys by itself for pods without room, of several providers, over a
//! link that loses nothing, with a crash at any effect.

#![allow(clippy::unwrap_used, reason = "tests may, and clippy knows only their functions as such")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects")]

mod crash;
mod kept;
mod providers;
mod story;
mod terms;
mod world;
