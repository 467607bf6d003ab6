//! What a lease is made of in a cluster, as objects of its API server: the virtual node at home, a
//! guest namespace at the provider.

mod absence;
mod contains;
mod guest_namespace;
mod leaving;
mod network;
mod node;
mod node_name;
mod transitions;
mod tunnel;
mod volume;

pub use absence::Absence;
pub use guest_namespace::{GuestNamespace, is_guest_namespace};
pub use leaving::{Leaving, LeavingWhy};
pub use node::{NodeSpec, Taint};
pub use node_name::{NODE_PREFIX, meant, node_name, second_node_name, stem};
pub use transitions::Transitions;
pub use tunnel::TunnelWord;
pub use volume::{
    VOLUME_FINALIZER, VOLUME_PROTECTION, capacity_name, storage_capacity, volume, volumes_label,
};
