//! What guests are answered: every kind of name that there is in a home, tricks, and whoever asks
//! without end.
#![allow(clippy::unwrap_used, reason = "tests may")]

mod asks;
mod busy;
mod samples;
mod served;
mod server;
mod table;
mod types;
mod upstream;
