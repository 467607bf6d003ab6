//! Everything Kubernetes: what a home cluster sees of a lease (a virtual node
//! with its kubelet API, pods' statuses, the opt-in of namespaces) and what a
//! provider's cluster sees of it (guest namespaces and objects, streams into
//! them), performed with the daemon's own account on its own cluster only.
//!
//! What is to be done is decided below, by `mercato-offload` and the agent;
//! here it is done, and what comes of it is reported. Objects are raw JSON.
//!
//! - [`home`]: a lease at home, with its virtual node; [`kubelet_api`]: that node's HTTPS API;
//! - [`guest`]: a lease at the provider, with its guest namespace, streams into guests, and what they
//!   use;
//! - [`offload_namespace`]: which namespaces may leave, and the webhook;
//! - [`admin`]: how the admin API of the daemon's pod is found, and reached, from elsewhere;
//! - [`daemon_lease`]: by what a daemon is seen to live; [`heartbeat`]: what keeps its virtual nodes
//!   while it is away, under another account;
//! - [`crd`]: the custom resources; [`inventory`]: what the cluster has;
//! - [`approver`]: what approves virtual nodes' certificates, under another account;
//! - [`rights`]: what the daemon lacks; [`diagnose`]: what else `mercato doctor` asks;
//! - [`Cluster`]: the one way to an API server, but for watches and streams.

// This crate is of floor 3: it may read clocks, which the pure floors may not.
#![allow(clippy::disallowed_methods)]

pub mod admin;
mod apiserver;
pub mod approver;
mod bodies;
mod both_ways;
mod bucket;
mod cluster_domain;
pub mod crd;
pub mod daemon_lease;
pub mod diagnose;
mod format;
pub mod guest;
pub mod heartbeat;
pub mod home;
pub mod inventory;
pub mod kubelet_api;
pub mod limits;
pub mod names;
pub mod offload_namespace;
mod pace;
mod repeated;
#[cfg(test)]
mod testing;
mod upkeep;

pub use apiserver::account::{Account, Grant};
pub use apiserver::api_servers::api_servers;
pub use apiserver::callers::Caller;
pub use apiserver::cluster::{Answer, Cluster};
pub use apiserver::failure::{Class, Failure};
pub use apiserver::listener::Listener;
pub use apiserver::reviews::{Action, Holder, Reviews};
pub use apiserver::rights;
pub use apiserver::watch::open as open_watches;
pub use apiserver::write_pace::Held;
pub use bodies::{AllBodies, Bodies};
pub use both_ways::both_ways;
pub use bucket::{Bucket, TooMuch};
pub use cluster_domain::cluster_domain;
pub use format::packed::Packed;
pub use home::{HomeLease, HomeLeaseConfig, HomeLeaseError};
pub use pace::{Backoff, every};
pub use repeated::{Repeated, RepeatedEach};
pub use upkeep::Upkeep;
