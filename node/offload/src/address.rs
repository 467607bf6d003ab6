//! Pods by their addresses. Home gives each of its pods at the provider an address of the lease's
//! range, by which everyone knows it; the provider brings packets for it to the address that the
//! guest has in its own pod network. Who carries packets is outside.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::key::PodId;

/// What home knows of the tunnel to the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tunnel {
    /// There is none: pods have no address at home.
    #[default]
    Off,
    /// It is not known yet whether there is one. Who was not ready waits.
    Awaited,
    /// Both sides know each other's gateways, and home's brings packets for this range to the
    /// provider: its pods get their addresses of it.
    Agreed(IpNet),
}

/// A guest by both of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestAddress {
    /// The guest, as home knows it.
    pub pod: PodId,
    /// By this one home knows it, and everyone does inside the tunnel.
    pub address: IpAddr,
    /// Its address in the provider's pod network.
    pub guest: IpAddr,
}

/// Whether a guest can be reached from home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// By no address; it gets ready without one.
    #[default]
    Not,
    /// Not yet: who was not ready is not ready until then.
    Awaited,
    /// By these addresses, at both ends of the tunnel.
    At {
        /// The first one, which is `podIP`.
        address: IpAddr,
        /// That of the other family, if it has one.
        second: Option<IpAddr>,
    },
}
