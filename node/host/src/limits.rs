//! Every bound of this crate. Those without a source are guesses; what has addresses is counted in each
//! family apart.

use std::time::Duration;

/// Pods of this node that are mapped. The kubelet runs 110 unless told otherwise, and nobody has
/// shown one with more than some 1,000.
pub(crate) const PODS: usize = 4_096;
/// Ranges that are reached by the device: one for each lease.
pub(crate) const RANGES: usize = 4_096;
/// Nodes of a cluster: what Kubernetes is made for is 5,000, and the overlay has an entry for each.
/// With more than this one batch of packet rules would be larger than a socket takes.
pub(crate) const NODES: usize = 2_000;
/// Pods of other nodes that are mapped: each is a route at the gateway, and an element of a set.
/// With more than this one batch of those of IPv6 would be larger than a socket takes.
pub(crate) const ELSEWHERE: usize = 6_144;
/// Networks of this node that the pool is compared with. A router with the whole Internet's routes
/// has a million; it runs no pods.
pub(crate) const NETWORKS: usize = 65_536;
/// Set elements in one message: an attribute is of 65,535 bytes at most, an element
/// takes 28 (of IPv4, 20).
pub(crate) const ELEMENTS_PER_MESSAGE: usize = 1_000;
/// What is sent at once, at most: 28 bytes for each element of all sets, and the rules. The kernel
/// gives twice what is asked for, which is as much as it does unless told otherwise
/// (`net.core.wmem_max`).
pub(crate) const BATCH_BYTES: usize = 212_992;
/// Files of network namespaces on a node: one for each pod, and some that nobody has removed.
pub(crate) const NAMESPACES: usize = 4_096;
/// Addresses of one pod: one of each family, unless a pod network gives more.
pub(crate) const OWN: usize = 16;
/// Ranges that one pod reaches: those of its lease.
pub(crate) const REACHED: usize = 1_024;
/// Addresses of the node itself; with kube-proxy in IPVS mode, one for each Service.
pub(crate) const NODE_ADDRESSES: usize = 2_048;
/// How long an answer of the kernel is waited for. It answers within milliseconds, unless it is stuck:
/// then whoever asks says so, and is not stuck as well.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);
/// How often a list is asked for again that changed while it was read.
pub(crate) const READS: usize = 8;
