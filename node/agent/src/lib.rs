//! The cluster agent as a value: inputs go in, effects come out; the clock and the seed
//! are arguments. It joins the broker, the directory, gossip, the federations and one offload
//! session for each lease, and decides nothing that one of them can.
//!
//! The daemon performs the effects on Kubernetes, the network and disk, and so does the
//! simulator in virtual time. Both pass each answer through a [`Gate`], so that nothing is
//! visible before it is durable, and rebuild the agent from the gate's [`Records`] after a
//! crash or a write that failed. Opening what peers signed is the caller's, before `handle`.

mod agent;
mod ahead;
mod connections;
mod context;
mod demand;
mod effect;
mod federation;
mod gate;
mod input;
mod lease;
pub mod limits;
mod neighbours;
mod notice;
mod peers;
mod publishers;
mod record;
mod request;
mod unsent;

pub use agent::{Agent, Config, Placed};
pub use ahead::LeasesAhead;
pub use demand::demand;
pub use effect::{Effect, Frame, GuestWork, HomeWork, LeaseDesire, OwnRanges, Phase, Work};
pub use federation::ask::{Answer, Ask, FederationRefusal};
pub use federation::issued::{Grant, Issued, RegistrarRecord};
pub use federation::membership::view::{Joined, Listed};
pub use federation::papers::Papers;
pub use gate::{Ahead, Gate};
pub use input::{
    BrokerInput, FederationInput, Input, LeaseInput, LeaseNews, TunnelInput, TunnelNews,
};
pub use notice::{ChangeStep, DealFacts, Ending, FederationNews, Notice};
pub use record::{
    Change, FederationKey, FederationRecord, RangeOwner, Record, RecordKey, Records, TooLarge,
};
