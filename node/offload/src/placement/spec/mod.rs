//! What a lease is made of in a cluster, as objects of its API server: the virtual node at home, a
//! guest namespace at the provider.

mod guest_namespace;
mod network;
mod node;
mod node_name;

pub use guest_namespace::{GuestNamespace, is_guest_namespace};
pub use node::{NodeSpec, Taint, Transitions};
pub use node_name::{NODE_PREFIX, node_name, second_node_name};
