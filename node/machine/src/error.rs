//! What cannot be, before anything is touched, and what to do.

use std::net::IpAddr;

use ipnet::IpNet;
use thiserror::Error;

use crate::family::Family;

/// Why nothing can be set up as wanted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WantedError {
    /// No rule of ours is about such packets.
    #[error(
        "{0} is of a family that this node has no pool of; leave it out, or set a pool of that \
         family too (gateway.pool)"
    )]
    Family(IpNet),
    /// Two of one would be taken for each other.
    #[error("the pools {first} and {second} are of one family; set one of each (gateway.pool)")]
    SameFamily {
        /// The one that was said first.
        first: IpNet,
        /// The one that was said second.
        second: IpNet,
    },
    /// This machine's kernel does not know such addresses.
    #[error(
        "the kernel of this node has no {0}, of which there is a pool; leave that pool out \
         (gateway.poolV6: off), or start the node without ipv6.disable=1"
    )]
    Kernel(Family),
    /// Such an address is looked up by no rule of ours.
    #[error("{address} is outside of the pool {pool}; choose it from there (gateway.pool)")]
    Outside {
        /// What lies outside of it.
        address: IpNet,
        /// The pool that it should be in.
        pool: IpNet,
    },
    /// A rule about it would never be met.
    #[error("{0} is said to be a home of guests, and is not among the ranges that are reached")]
    NoRange(IpNet),
    /// More of the world would be led to the gateway than belongs to any pool.
    #[error("the pool {0} is wider than /8; set a range of your own (gateway.pool)")]
    Wide(IpNet),
    /// What such a pod sends would be taken for forged.
    #[error(
        "the pod {pod} has an address of the pool {pool}; set a pool that the pod network does \
         not use (gateway.pool)"
    )]
    PodInPool {
        /// The address of the pod.
        pod: IpAddr,
        /// The pool that it is in.
        pool: IpNet,
    },
    /// The kernel takes no such name.
    #[error("{0:?} is no name of a device: 1 to 15 bytes, without slash, zero or space")]
    Device(String),
    /// More than a node is known to have.
    #[error("{count} {what} are more than the {most} that a node may have here")]
    Many {
        /// Of which kind they are.
        what: &'static str,
        /// How many there would be.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// The kernel keeps these tables and numbers for itself.
    #[error("{what} {value} is the kernel's own; set another one (gateway)")]
    Reserved {
        /// Of which kind they are.
        what: &'static str,
        /// The number that was set.
        value: u32,
    },
    /// Datagrams of such an overlay have no place for it.
    #[error("the {what} {value} is none that VXLAN has; set another one from 1 up")]
    Overlay {
        /// Of which kind it is.
        what: &'static str,
        /// The number that was set.
        value: u32,
    },
    /// Its packets would go from this node to this node.
    #[error("the node {0} is said to be among the other ones: leave out this node itself")]
    Itself(IpAddr),
    /// No entry says at which machine it is.
    #[error("{0} is not among the other nodes of the overlay; name it there with its address")]
    UnknownNode(IpAddr),
    /// What is sent there could be sent to no address of that node.
    #[error(
        "the node {node} has no address of the family of {to}, which is behind it; name it among \
         the other nodes with the same machine"
    )]
    OneFamily {
        /// An address of the node.
        node: IpAddr,
        /// What is sent to it.
        to: IpNet,
    },
    /// Frames to one would go to the other.
    #[error(
        "the nodes {one} and {other} would be taken for each other: give each a machine of its \
         own, and, where they have IPv6 alone, an address with other last four bytes"
    )]
    Alike {
        /// An address of one of them.
        one: IpAddr,
        /// An address of the other one.
        other: IpAddr,
    },
    /// A device that takes no larger ones has no IPv6.
    #[error(
        "packets of {mtu} bytes are too small for IPv6, which needs {least}: raise the MTU of the \
         network of the nodes, or leave out the pool of IPv6 (gateway.poolV6: off)"
    )]
    Small {
        /// The size that was wanted.
        mtu: u32,
        /// The smallest that there is.
        least: u32,
    },
    /// It cannot be reached from there.
    #[error("the machine {0} is of another family than this one's address on the network of nodes")]
    OtherNetwork(IpAddr),
    /// It is not known where packets for it go.
    #[error("the pod {0} is said to be on this node and on another one")]
    Twice(IpAddr),
    /// What is sent with such a source goes nowhere.
    #[error(
        "{0} is no address of this machine, so that other nodes do not reach it there; set one \
         that it has on the network of the nodes"
    )]
    NotHere(IpAddr),
    /// Two things of ours would be taken for each other.
    #[error("{0} cannot be the mark of two things; set two (gateway)")]
    OneName(String),
}
