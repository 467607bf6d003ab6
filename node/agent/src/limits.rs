//! Every bound of this crate; those of its parts are their own.

/// Guest namespaces of one lease. A guess.
pub const NAMESPACES: usize = 64;
/// The name of a namespace, in bytes: a DNS label (RFC 1123).
pub const NAMESPACE_BYTES: usize = 63;
/// How long the provider tells home how its pods ended, after the lease is over and nothing
/// of it is left. A guess: home may have been down as it ended.
pub const AFTERLIFE_MS: u64 = 24 * 3_600_000;
/// Clusters whose key is known; as many as there are publishers in gossip.
pub const CLUSTERS: usize = 22_000;
