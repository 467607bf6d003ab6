//! What a machine must have so that packets find the gateway, and only they: addresses and routes
//! of its device, routing rules, one nf_tables table, and between nodes an overlay of VXLAN.
//!
//! [`read`] says what is there, [`plan`] what is missing for what is [`Wanted`], and [`apply`] does
//! that; [`clean`] removes what is ours. The kernel is asked by netlink, no program is run. The
//! gateway's device itself is the gateway's (`node/tunnel/`), and which pods and nodes there are
//! is decided elsewhere.
//!
//! A pod that may reach few is closed in its own network namespace: [`sandbox_of`] finds it,
//! [`close`] sets the rules of its device, [`close_at_node`] the same ones at the node's end of it.
//! Whether what it sends comes through the node at all is tried by [`try_to_forward`].
//!
//! Both families are, each where this node has an address of a pool of it; the network between
//! nodes is of either.

mod apply;
mod at_node;
mod closed;
mod devices;
mod dropping;
mod error;
mod family;
mod folders;
mod forwarding;
mod found;
mod interface;
mod known;
mod limits;
mod netlink;
mod networks;
mod overlay;
mod own_address;
mod packets;
mod plan;
mod reach;
mod routes;
mod sandbox;
mod step;
mod trial;
mod wanted;

pub use apply::{apply, clean, dropping, forget, mtu_of, networks, read};
pub use at_node::{close_at_node, forget_at_node, is_closed_at_node, open_at_node};
pub use closed::{close, close_both, is_closed, open};
pub use dropping::{Dropping, NotForwarded, PacketFamily};
pub use error::{HostError, KernelError, WantedError};
pub use family::{Family, Place};
pub use forwarding::{generation, try_to_forward};
pub use found::{
    DeviceSetting, Endpoint, Finding, Found, Link, Neighbour, OverlayLink, Route, RouteKind, Rule,
    Vxlan,
};
pub use networks::{Network, NetworkKind, Overlap, overlap};
pub use overlay::{Mac, Overlay, Way};
pub use own_address::{has_address, put_address};
pub use packets::{
    Base, Bound, Chain, Expression, Hook, PacketRule, Rewritten, Table, Tally, Verdict, guard,
};
pub use plan::{clean_plan, lacks_rules, nobody_listens_plan, plan, refuse_plan};
pub use reach::Closed;
pub use sandbox::{Namespaces, Sandbox, sandbox_of, try_to_see};
pub use step::Step;
pub use trial::try_to_close;
pub use wanted::{ApiWay, Marks, NamesWay, Wanted};
