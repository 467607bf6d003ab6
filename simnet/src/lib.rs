//! The same agents in virtual time: topologies, links, faults, hostile peers, invariants,
//! reports.
//!
//! A run is a value of its seed. It drives the very agents that the daemon drives, with the
//! cluster model behind the Kubernetes boundary. A [`Trial`] lets links lose, double and
//! delay, daemons die before any effect, disks fill and clocks disagree; the invariants of
//! the design are judged from outside at every step, then the faults stop, and everything
//! has to come right. A [`Federation`] is tried out: clusters of a [`Plan`] trade under a
//! model of demand, and what came of it is reported.

mod engine;
mod explore;
pub mod hostile;
pub mod limits;
pub mod measure;
pub mod plan;
pub mod report;
pub mod tunnel;
mod verify;
mod workload;

pub use engine::packet::Kind;
pub use engine::trace::TraceHash;
pub use explore::bug::Bug;
pub use explore::faults::{Fault, MessageFault};
pub use explore::federation::{Federation, Progress, Run};
pub use explore::liars::{LiarOutcome, LiarTrial, WrongRule};
pub use explore::sweep;
pub use explore::trial::{Failure, FaultPlan, Outcome, Trial};
pub use plan::{Plan, Topology};
pub use verify::Violation;
pub use workload::Alone;
