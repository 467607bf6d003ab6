//! Everything Kubernetes: what a home cluster sees of a lease (a virtual node
//! with its kubelet API, pods' statuses, the opt-in of namespaces) and what a
//! provider's cluster sees of it (guest namespaces and objects, streams into
//! them), performed with the daemon's own account on its own cluster only.
//!
//! What is to be done is decided below, by `mercato-offload` and the agent;
//! here it is done, and what comes of it is reported. Objects are raw JSON.
//!
//! - [`HomeLease`]: all of a lease at home, out of [`node`], [`api`],
//!   [`certificate`] and [`home`];
//! - [`guest`] and [`guest_namespace`]: a lease at the provider;
//! - [`offload_namespace`]: which namespaces may leave, and the webhook;
//! - [`resources`]: the custom resources;
//! - [`inventory`]: what the cluster has; [`usage`]: what guests use;
//!   [`rights`]: what the daemon lacks; [`examine`]: what else `mercato doctor` asks;
//! - [`Cluster`]: the one way to an API server, but for watches and streams.

// This crate is of floor 3: it may read clocks, which the pure floors may not.
#![allow(clippy::disallowed_methods)]

mod account;
pub mod api;
mod api_servers;
mod bodies;
mod bucket;
mod callers;
pub mod certificate;
mod clock;
mod cluster;
mod events;
pub mod examine;
mod failure;
pub mod guest;
pub mod guest_namespace;
pub mod home;
mod home_lease;
pub mod inventory;
mod kind;
mod life;
pub mod limits;
mod listener;
pub mod names;
pub mod node;
pub mod offload_namespace;
pub mod own_nodes;
mod packed;
mod query;
mod repeated;
pub mod resources;
pub mod rights;
pub mod stream;
#[cfg(test)]
mod testing;
pub mod usage;
mod watch;

pub use account::{Account, Grant};
pub use api_servers::api_servers;
pub use bodies::{Bodies, BodyError};
pub use bucket::{Bucket, TooMuch};
pub use cluster::{Answer, Cluster};
pub use failure::{Class, Failure};
pub use home_lease::{HomeLease, HomeLeaseConfig, HomeLeaseError};
pub use listener::Listener;
pub use packed::Packed;
pub use repeated::{Repeated, RepeatedEach};
pub use watch::open as open_watches;
