//! The program as its users see it: run as a process, judged by what it prints and by
//! its exit code.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests may"
)]

mod answer;
mod crowd;
mod demo;
mod disk;
mod doctor;
mod egress;
mod federation;
mod gate;
mod gpus;
mod health;
mod hoard;
mod hostile;
mod keys;
mod kills;
mod kit;
mod market;
mod membership;
mod mistakes;
#[path = "../../../discovery/sources/tests/dns/name_server.rs"]
mod name_server;
mod names;
mod nodes;
mod partners;
mod portable;
mod simulated;
mod storage;
mod told;
mod transcript;
mod unit;
mod usage;
