//! The program as its users see it: run as a process, judged by what it prints and by
//! its exit code.
#![allow(clippy::unwrap_used, reason = "helpers of tests may, as tests do")]
#![allow(clippy::disallowed_methods, reason = "it waits for real programs, in real time")]

mod demo;
mod federation;
mod kit;
mod usage;
