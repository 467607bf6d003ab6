//! What the own cluster has, uses and could lend: nodes and pods are watched,
//! the few numbers that matter of each are kept, and summed by pool. What of it
//! is for sale is the broker's to say.

mod node;
mod pod;
mod sum;
mod watch;

pub use node::{NodeView, user_namespaces};
pub use pod::PodView;
pub use sum::{Inventory, Pool, sum};
pub use watch::watch;
