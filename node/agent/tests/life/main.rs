//! Two agents, a perfect link, two small clusters, in virtual time: from an advertisement
//! to a closed lease with nothing left, and the same with a crash at every step.
#![allow(clippy::unwrap_used, reason = "a test")]

mod cluster;
mod disk;
mod fresh;
mod names;
mod refused;
mod silence;
mod story;
mod unsaid;
mod world;
