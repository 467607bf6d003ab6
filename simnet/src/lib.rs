//! The same agents in virtual time: topologies, links, faults, hostile peers, invariants,
//! reports.
//!
//! A run is a value of its seed. It drives the very agents that the daemon drives, with the
//! cluster model behind the Kubernetes boundary. A [`Trial`] lets links lose, double and
//! delay, daemons die before any effect, disks fill and clocks disagree; the invariants of
//! the design are judged from outside at every step, then the faults stop, and everything
//! has to come right. A [`Federation`] is tried out: clusters of a [`Plan`] trade under a
//! model of demand, and what came of it is reported.

mod bodies;
mod check;
mod dice;
mod event;
mod faults;
mod federation;
pub mod hostile;
mod incident;
pub mod limits;
mod link;
pub mod measure;
mod network;
mod openings;
mod packet;
mod people;
pub mod plan;
mod queue;
pub mod report;
mod sabotage;
mod shell;
mod site;
pub mod sweep;
mod trace;
mod trial;
pub mod tunnel;
mod words;
mod world;

pub use check::Violation;
pub use faults::{Fate, Strike};
pub use federation::{Federation, Progress, Run};
pub use packet::Kind;
pub use people::Alone;
pub use plan::{Plan, Topology};
pub use sabotage::Bug;
pub use trace::TraceHash;
pub use trial::{Failure, Outcome, Trial, Trouble};
