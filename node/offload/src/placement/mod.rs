//! What is decided of a lease in a cluster, before anything is written: pure, from what is
//! wanted and what stands in the cluster. Whoever performs the writes, a client of an API server
//! or a simulated cluster, decides nothing of its own.
//!
//! At home:
//! - [`export`]: which pods leave, by what the owners of namespaces allow;
//! - [`spec`]: how the virtual node looks, and at the provider a guest namespace;
//! - [`NodeLabels`]: which labels of the provider's nodes it shows.
//!
//! At the provider:
//! - [`Ownership`]: whose an object is that stands where a guest is to be;
//! - [`decide`]: whether a guest object is created or changed;
//! - [`Capacity::claim`]: whether there is room for it, and what it takes of what was bought;
//! - [`StoredObjects`]: the same of the etcd of the whole cluster, summed over all leases;
//! - [`requests`]: what a pod asks for, as a scheduler counts it;
//! - [`guest_context`]: what a contract imposes on its guests;
//! - [`Binding`]: how they find the nodes of what was bought.

mod binding;
mod capacity;
pub mod claims;
pub mod export;
mod node_labels;
mod ownership;
mod requests;
pub mod spec;
mod stored;
mod terms;
mod write;

pub use binding::{Binding, GPUS, NodeOperator, NodeRequirement, Taint, taints_of_device};
pub use capacity::{Capacity, keeps_running};
pub use node_labels::{NodeLabels, REGION, Shown, ZONE};
pub use ownership::Ownership;
pub use requests::{Amounts, amounts, asked, devices, is_device, requests};
pub(crate) use requests::{STORAGE, counted};
pub use stored::{Stored, StoredBy, StoredObjects};
pub use terms::{
    DEFAULT_REQUESTS, ProviderTerms, allocatable, gpus, guest_context, keeps_host_names, shown,
};
pub use write::{IfAbsent, Write, decide, deletion_grace_s, owned};
