//! The program as its users see it: run as a process, judged by what it prints and by
//! its exit code.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests may")]

mod demo;
mod federation;
mod hostile;
mod kit;
mod usage;
