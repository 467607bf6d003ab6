//! A small simulated Kubernetes cluster, as a value: objects with versions and uids,
//! watches, a scheduler that binds pods to nodes that have room, kubelets that start, run
//! and stop them. It takes the same JSON and gives the same statuses as the real one, as
//! far as offloading sees them; it checks no schema, and runs nothing: its logs are
//! written beforehand and say that they are simulated.
//!
//! [`sides`] is what a daemon does of a lease in it, at home and at the provider.
//!
//! A node made by [`Cluster::add_node`] has a kubelet of the model's; any other `Node`
//! object (a virtual node) has none, and whoever made it writes its pods' statuses.

mod cluster;
mod error;
pub mod limits;
pub mod sides;

pub use cluster::{Cluster, Event, Key, LOCAL_CLASS, Script};
pub use error::ApiError;
