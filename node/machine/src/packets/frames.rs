//! A table of packet rules that sees whole frames, at devices by their names, as the kernel keeps
//! it. What it drops nobody else has seen, and what others drop or accept does not matter to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use super::table::{PacketRule, Side};

/// A table of nf_tables for frames (`netdev`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameTable {
    /// What the table is called.
    pub name: String,
    /// Its chains, by their names.
    pub chains: BTreeMap<String, FrameChain>,
    /// Its sets of addresses, by their names: each is of one family, and none is empty.
    pub sets: BTreeMap<String, BTreeSet<IpAddr>>,
    /// Its sets of networks, by their names: the same, and no network is in another.
    pub nets: BTreeMap<String, BTreeSet<IpNet>>,
    /// Its maps of addresses of IPv4, by their names: none is empty.
    pub maps: BTreeMap<String, AddressMap>,
}

impl FrameTable {
    /// The map that has, for the address by which everybody knows the pod, the one that it has on its
    /// pod network.
    pub const OWN_HERE: &'static str = "own_here";
    /// The same the other way around.
    pub const OWN_CALLED: &'static str = "own_called";
}

/// For an address another one.
pub type AddressMap = BTreeMap<Ipv4Addr, Ipv4Addr>;

/// A chain of rules about frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameChain {
    /// Where frames come in; without, by other chains alone.
    pub base: Option<FrameBase>,
    /// What is asked of each frame, in order, until there is a verdict.
    pub rules: Vec<PacketRule>,
}

/// Where and when a chain sees frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameBase {
    /// At which device, by its name.
    pub device: String,
    /// Those that come in by it, or those that go out.
    pub side: Side,
    /// Among chains of the side, smaller ones come first.
    pub priority: i32,
    /// Whether frames pass that no rule speaks of.
    pub accepts: bool,
}

impl FrameChain {
    /// One for frames that another chain has sent there.
    pub(super) fn plain(rules: Vec<PacketRule>) -> Self {
        Self { base: None, rules }
    }
}

impl FrameBase {
    /// Where a frame passes that a rule accepts, and no other.
    pub(super) fn dropping(device: &str, side: Side, priority: i32) -> Self {
        Self { device: device.to_owned(), side, priority, accepts: false }
    }
}
