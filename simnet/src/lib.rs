//! The same agents in virtual time: topologies, links, faults, invariants.
//!
//! A run is a value of its seed. It drives the very agents that the daemon drives, with the
//! cluster model behind the Kubernetes boundary, and lets links lose, double and delay,
//! daemons die before any effect, and clocks disagree. The invariants of the design are
//! judged from outside at every step; then the faults stop, and everything has to come right.

mod check;
mod dice;
mod faults;
mod kube;
pub mod limits;
mod link;
mod network;
mod owners;
mod packet;
mod queue;
mod run;
mod sabotage;
mod shell;
mod site;
mod story;
pub mod sweep;
mod topology;
mod trace;
mod world;

pub use check::Violation;
pub use faults::{Fate, Strike};
pub use run::{Failure, Outcome, Scenario, Trouble};
pub use sabotage::Bug;
pub use topology::Topology;
