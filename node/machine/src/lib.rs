//! What a machine should have so that packets find the gateway, and only they, as values: addresses
//! and routes of its device, routing rules, one nf_tables table for each family, and between nodes an
//! overlay of VXLAN. Beside them, the rules of one closed pod's device.
//!
//! [`plan`] says what is missing for what is [`Wanted`], by what was [`Found`]. Who reads a machine
//! and changes it is `node/host/`; which pods and nodes there are is decided elsewhere.
//!
//! Whether a frame would pass the rules, and by which of them, is asked of the [`interpreter`].
//!
//! Both families are, each where this node has an address of a pool of it; the network between
//! nodes is of either.

mod closed;
mod devices;
mod dropping;
mod egress;
mod error;
mod family;
mod found;
pub mod interpreter;
mod limits;
mod networks;
mod overlay;
mod packets;
mod plan;
mod routes;
mod step;
mod wanted;

pub use closed::Closed;
pub use dropping::{Dropping, NotForwarded, PacketFamily};
pub use egress::{Egress, Outward};
pub use error::WantedError;
pub use family::{Family, Place};
pub use found::{
    DeviceSetting, Endpoint, Finding, Found, Link, Neighbour, OverlayLink, Route, RouteKind, Rule,
    Vxlan,
};
pub use networks::{Network, NetworkKind, Overlap, overlap, own_networks};
pub use overlay::{Mac, Overlay, Way};
pub use packets::{
    AddressMap, Base, Bound, Chain, Expression, FrameBase, FrameChain, FrameTable, Hook, Interface,
    PacketRule, Rewritten, Side, Table, Tally, Verdict, address, closed, closed_at_node, guard,
    source,
};
pub use plan::{clean_plan, lacks_rules, nobody_listens_plan, plan, refuse_plan};
pub use step::Step;
pub use wanted::{ApiWay, Marks, NamesWay, Wanted};
