//! `mercato page`: what the daemon says, as pages for a browser on this machine.
//!
//! The page is served by the person's own program, on loopback alone. It asks by the client that every
//! command has, so that the daemon needs no listener for it and no credential enters the browser. It
//! shows, and changes nothing: what changes something is the command line's.
//!
//! `serve` listens, `guard` refuses who may not see, `token` is what a browser shows, `memory` is one
//! picture for all tabs, `screens` renders it. Words come from `present`, as for the command line.

mod answer;
mod assets;
mod guard;
mod memory;
mod screens;
mod serve;
#[cfg(test)]
mod tests;
mod token;

pub(crate) use serve::Page;
