//! A table of packet rules as the kernel keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::expression::{Expression, Verdict};
use crate::family::Family;

/// A table of nf_tables, which sees packets of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Which packets it sees, and what its sets have in them.
    pub family: Family,
    /// What the table is called.
    pub name: String,
    /// Its chains, by their names.
    pub chains: BTreeMap<String, Chain>,
    /// Its sets of addresses, by their names.
    pub sets: BTreeMap<String, BTreeSet<IpAddr>>,
    /// Its sets of networks, by their names. None of a set is in another, and no two are halves of one.
    pub nets: BTreeMap<String, BTreeSet<IpNet>>,
    /// Its sets that packets fill, by their names. Who is in them is no part of the table.
    pub tallies: BTreeMap<String, Tally>,
}

/// A set of addresses that packets fill: for each of them something is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// How many addresses there may be.
    pub most: u32,
    /// How long an address stays in it of which nothing more comes, in milliseconds; none: for as
    /// long as there is something to be counted.
    pub quiet_ms: Option<u64>,
}

/// A chain of rules in a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Where packets come in; without, by other chains alone.
    pub base: Option<Base>,
    /// What is asked of each packet, in order, until there is a verdict.
    pub rules: Vec<PacketRule>,
}

/// Where and when a chain sees packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Its type: `filter` or `nat`.
    pub kind: String,
    /// On their way through the machine.
    pub hook: Hook,
    /// Among chains of the hook, smaller ones come first.
    pub priority: i32,
    /// Whether packets pass that no rule speaks of.
    pub accepts: bool,
}

/// A place on the way of a packet (`NF_INET_...`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// It came in, and was not routed.
    Prerouting,
    /// It is for this machine.
    Input,
    /// It goes through this machine.
    Forward,
    /// This machine itself made it.
    Output,
    /// It is about to leave, from here or from elsewhere.
    Postrouting,
}

/// One rule of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketRule {
    /// What it is for, in the words of whoever lists the rules.
    pub comment: String,
    /// Conditions and what is done, in order; one that is not met ends it.
    pub expressions: Vec<Expression>,
}

/// Which way packets go by a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// They come in by it.
    In,
    /// They go out by it.
    Out,
}

impl PacketRule {
    /// The way by a device in which it accepts everything, if it does that and nothing else.
    pub fn accepts_by(&self, device: &str) -> Option<Side> {
        let words = self.expressions.iter().filter(|word| **word != Expression::Counter);
        let [way, Expression::CmpEq(name), Expression::Verdict(Verdict::Accept)] =
            words.collect::<Vec<_>>()[..]
        else {
            return None;
        };
        let ways = [(Expression::MetaIifname, Side::In), (Expression::MetaOifname, Side::Out)];
        let (_, way) = ways.into_iter().find(|(word, _)| word == way)?;
        // `nft` compares all of the kernel's room for a name, `iptables` up to its end; without an end
        // it is the beginning of several names.
        let is_it = match name.iter().position(|byte| *byte == 0) {
            Some(end) => &name[..end] == device.as_bytes(),
            None => device.as_bytes().starts_with(name),
        };
        is_it.then_some(way)
    }
}

impl Table {
    /// What our table is called.
    pub const NAME: &'static str = "mercato";
    /// The set of this node's pods that are mapped.
    pub const PODS: &'static str = "pods";
    /// The set of this node's guests: pods of other clusters that run here.
    pub const GUESTS: &'static str = "guests";
    /// The set of where guests ask for names: of one address, while the name server listens there.
    pub const NAMES: &'static str = "names";
    /// At the gateway, the set of guests elsewhere that call this cluster's API server.
    pub const CALLERS: &'static str = "callers";
    /// At the gateway, the set of other nodes' pods that are mapped.
    pub const ELSEWHERE: &'static str = "elsewhere";
    /// The set of other nodes' addresses of the pool.
    pub const NODES: &'static str = "nodes";
    /// The set of other nodes' addresses on their network.
    pub const MACHINES: &'static str = "machines";
    /// The set of the homes of guests of this node.
    pub const HOMES: &'static str = "homes";
    /// At the gateway, the set of ranges in which guests elsewhere are known.
    pub const MEETING: &'static str = "meeting";
    /// The set of guests that reach anybody beyond clusters.
    pub const OUTWARD: &'static str = "outward";
    /// The set of those of them that reach named networks alone.
    pub const NAMED: &'static str = "named";
    /// The set of networks that no guest reaches beyond clusters.
    pub const NEVER: &'static str = "never";
    /// The set of networks that are named.
    pub const NAMED_TO: &'static str = "named_to";
    /// The tally of connections that guests have.
    pub const CONNECTIONS: &'static str = "connections";
    /// The tally of connections that guests begin.
    pub const BEGINNINGS: &'static str = "beginnings";
    /// The tally of what guests send to be told names.
    pub const QUESTIONS: &'static str = "questions";
    /// The tally of connections that guests elsewhere have, by their lease.
    pub const OF_LEASE: &'static str = "connections_of_lease";
    /// The tally of connections that guests elsewhere begin, by their lease.
    pub const OF_LEASE_BEGINNINGS: &'static str = "beginnings_of_lease";

    /// Whether only elements of sets differ.
    pub fn has_frame_of(&self, other: &Self) -> bool {
        (self.family, &self.name) == (other.family, &other.name)
            && self.chains == other.chains
            && self.sets.keys().eq(other.sets.keys())
            && self.nets.keys().eq(other.nets.keys())
            && self.tallies == other.tallies
    }
}
