//! Selectors, and the search of the order book, from outside.
#![allow(clippy::unwrap_used, reason = "tests may, and clippy knows only their functions as such")]

mod fair;
mod gpus;
mod model;
mod search;
mod selector;
mod storage;
#[path = "../deal/world.rs"]
#[allow(dead_code, clippy::wildcard_enum_match_arm, reason = "it is that of the suite `deal`")]
mod world;
