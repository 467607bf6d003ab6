//! The program as its users see it: run as a process, judged by what it prints and by
//! its exit code.

mod demo;
mod federation;
mod kit;
mod usage;
