//! The cluster agent as a value: inputs go in, effects come out; the clock and the seed
//! are arguments. It joins the broker, the directory, gossip and one offload session for
//! each lease, and decides nothing that one of them can.
//!
//! The daemon performs the effects on Kubernetes, the network and disk, and so does the
//! simulator in virtual time. Both pass each answer through a [`Gate`], so that nothing is
//! visible before it is durable, and rebuild the agent from the gate's [`Records`] after a
//! crash or a write that failed. Opening what peers signed is the caller's, before `handle`.

mod agent;
mod ask;
mod federation;
mod frauds;
mod gate;
mod joining;
mod keys;
mod lease;
mod leases;
pub mod limits;
mod market;
mod membership;
mod namespaces;
mod neighbours;
mod notice;
mod peers;
mod ranks;
mod rates;
mod record;
mod registrar;
mod unsaid;
mod view;
mod vocabulary;

pub use agent::{Agent, Config};
pub use ask::{Answer, Ask, FederationRefusal};
pub use gate::Gate;
pub use membership::Papers;
pub use notice::{ChangeStep, DealFacts, Ending, FederationNews, Notice};
pub use record::{Change, FederationKey, FederationRecord, Record, RecordKey, Records, TooLarge};
pub use registrar::{Grant, Issued, RegistrarRecord};
pub use view::{Joined, Listed};
pub use vocabulary::{Effect, Frame, GuestWork, HomeWork, Input, LeaseDesire, LeaseNews, Phase};
