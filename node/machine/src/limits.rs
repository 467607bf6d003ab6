//! Every bound of what a machine is to have. Those without a source are guesses; what has addresses is
//! counted in each family apart.

use std::time::Duration;

/// Pods of this node that are mapped. The kubelet runs 110 unless told otherwise, and nobody has
/// shown one with more than some 1,000.
pub(crate) const PODS: usize = 4_096;
/// Guests of this node: more than four times what the kubelet runs unless told otherwise. With all
/// the other sets as large as they may be, one batch takes no more than these.
pub(crate) const GUESTS: usize = 512;
/// Guests elsewhere that may call this cluster's API server, of one family: as many as there is room for
/// in one batch, with all the other sets as large as they may be.
pub(crate) const CALLERS: usize = 4_096;
/// Connections of one guest in conntrack, which has room for 131,072 or more where kube-proxy sets
/// it: a thirtieth part. With this many the kernel takes 0.7 ms to count them, for each that begins.
pub(crate) const CONNECTIONS: u32 = 4_096;
/// Connections of one guest that begin in a second; [`CONNECTIONS`] at once. The kernel drops at
/// least eight from its list of them in each of its ticks, of which there are a hundred a second or
/// more. Conntrack knows one of TCP that is closed for two minutes yet (120 s): some 30,000.
pub(crate) const BEGINNINGS_A_SECOND: u32 = 256;
/// The same of all guests of a lease that runs elsewhere, by the 256 addresses in which they are known: one
/// with more than 128 pods has several times as many. Its provider speaks for all of them. With this many
/// the kernel takes 1.4 ms to count them.
pub(crate) const OF_LEASE: u32 = 2 * CONNECTIONS;
pub(crate) const OF_LEASE_A_SECOND: u32 = 2 * BEGINNINGS_A_SECOND;
/// How long it is known how many have begun: until as many may begin at once, and more.
pub(crate) const BEGINNINGS_QUIET: Duration = Duration::from_secs(60);
/// Addresses whose connections are counted. Of a guest that is gone they may last for days; there
/// are no more of them than addresses of this node's pods, and of guests elsewhere.
pub(crate) const COUNTED: u32 = 65_536;
/// What one closed guest asks and says of neighbours in a second, and at once: a bridge gives each of
/// it to all pods of the node. The kernel asks for one address once a second, and a guest has few.
pub(crate) const OF_NEIGHBOURS_A_SECOND: u32 = 64;
pub(crate) const OF_NEIGHBOURS: u32 = 256;
/// Questions to the name server by UDP that one closed guest sends in a second, and at once: those that are
/// answered.
pub(crate) const OF_NAMES_A_SECOND: u32 = 3_072;
pub(crate) const OF_NAMES: u32 = 6_144;
/// Connections to it that one closed guest begins in a second, and at once: a resolver that asks by TCP
/// begins one for each name that it tries, five for one name of a search list.
pub(crate) const OF_NAMES_BEGIN_A_SECOND: u32 = 1_024;
pub(crate) const OF_NAMES_BEGIN: u32 = 4_096;
/// Packets to it by TCP that one guest sends in a second, and at once: eight for each such connection.
pub(crate) const OF_NAMES_BY_TCP_A_SECOND: u32 = 8 * OF_NAMES_BEGIN_A_SECOND;
pub(crate) const OF_NAMES_BY_TCP: u32 = 8 * OF_NAMES_BEGIN;
/// Packets to whoever closes guests of a node that one of them sends in a second, and at once. Its gate
/// asks fifty times a second at first and then twenty times, with some six packets each.
pub(crate) const OF_GATE_A_SECOND: u32 = 256;
pub(crate) const OF_GATE: u32 = 512;
/// Networks that no guest of this node reaches beyond clusters: some twenty are nobody's on the Internet, and
/// 256 may be of the cluster's own and as many of the node's.
pub(crate) const NEVER: usize = 640;
/// Networks that the egress of one contract may name.
pub(crate) const NAMED: usize = 32;
/// The same of all contracts of a node's guests.
pub(crate) const ALL_NAMED: usize = 4_096;
/// Ranges that are reached by the device: one for each lease.
pub(crate) const RANGES: usize = 4_096;
/// Nodes of a cluster: what Kubernetes is made for is 5,000, and the overlay has an entry for each.
/// With more than this one batch of packet rules would be larger than a socket takes.
pub(crate) const NODES: usize = 2_000;
/// Pods of other nodes that are mapped: each is a route at the gateway, and an element of a set.
/// With more than this one batch of those of IPv6 would be larger than a socket takes.
pub(crate) const ELSEWHERE: usize = 5_504;
/// Addresses of one pod: one of each family, unless a pod network gives more.
pub(crate) const OWN: usize = 16;
/// Ranges that one pod reaches: those of its lease.
pub(crate) const REACHED: usize = 1_024;
/// Addresses of the node itself; with kube-proxy in IPVS mode, one for each Service.
pub(crate) const NODE_ADDRESSES: usize = 2_048;
