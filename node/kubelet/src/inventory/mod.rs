//! What the own cluster has, uses and could lend: nodes and pods are watched,
//! the few numbers that matter of each are kept, and summed by pool. What of it
//! is for sale is the broker's to say. Beside it, where nodes and pods are, and which
//! addresses the cluster has given out.

mod binding;
mod dra;
mod gpus;
mod machine;
mod node;
pub mod own_nodes;
mod pending;
mod place;
mod pod;
mod ranges;
mod settled;
mod storage;
mod sum;
mod unsold;
mod watch;

pub use binding::bindings;
pub use gpus::{Cut, Found, OwnersWord, Unit, Unsold, models};
pub use machine::{NodeMachine, machines};
pub use node::{NodeView, user_namespaces};
pub use pending::{BurstWatch, PodName, pending, tell_pod};
pub use place::{GuestPlace, PodPlace, places};
pub use pod::PodView;
pub use ranges::{ClusterRange, RangeUse, ranges};
pub use storage::{SharedStorage, StorageState};
pub use sum::{Inventory, Pool, sum};
pub use unsold::UnsoldDevices;
pub use watch::watch;

/// Pods that take something of a node: the others need not be sent.
const TAKES: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
