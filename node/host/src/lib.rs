//! What a machine must have so that packets find the gateway, and only they: addresses and routes
//! of its device, one routing rule, one nf_tables table.
//!
//! [`read`] says what is there, [`plan`] what is missing for what is [`Wanted`], and [`apply`] does
//! that; [`clean`] removes what is ours. The kernel is asked by netlink, no program is run. The
//! device itself is the gateway's (`node/tunnel/`), and which pods there are is decided elsewhere.
//!
//! IPv4 alone is set up so far; types have both families.

mod apply;
mod dropping;
mod error;
mod found;
mod limits;
mod netlink;
mod networks;
mod packets;
mod plan;
mod step;
mod wanted;

pub use apply::{apply, clean, dropping, networks, read};
pub use dropping::{Dropping, PacketFamily};
pub use error::{HostError, KernelError};
pub use found::{DeviceSetting, Finding, Found, Link, Route, RouteKind, Rule};
pub use networks::{Network, NetworkKind, Overlap, overlap};
pub use packets::{Base, Chain, Expression, Hook, PacketRule, Table, Verdict, guard};
pub use plan::{clean_plan, plan};
pub use step::Step;
pub use wanted::{Marks, Wanted, WantedError};
