//! Selectors, and the search of the order book, from outside.
#![allow(clippy::unwrap_used, reason = "tests may, and clippy knows only their functions as such")]

mod fair;
mod gpus;
mod model;
mod search;
mod selector;
