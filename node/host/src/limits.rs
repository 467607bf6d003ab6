//! Every bound of this crate. Those without a source are guesses; what has addresses is counted in each
//! family apart.

use std::time::Duration;

/// Networks of this node that the pool is compared with. A router with the whole Internet's routes
/// has a million; it runs no pods.
pub(crate) const NETWORKS: usize = 65_536;
/// Set elements in one message: an attribute is of 65,535 bytes at most, an element
/// takes 28 (of IPv4, 20), and 8 more where a network ends.
pub(crate) const ELEMENTS_PER_MESSAGE: usize = 1_000;
/// What is sent at once, at most: 28 bytes for each element of all sets, 64 for each network of a set, and
/// the rules. The kernel gives twice what is asked for, and more to whoever may change a network than to
/// others (`net.core.wmem_max`).
pub(crate) const BATCH_BYTES: usize = 360_448;
/// Files of network namespaces on a node: one for each pod, and some that nobody has removed.
pub(crate) const NAMESPACES: usize = 4_096;
/// How long an answer of the kernel is waited for. It answers within milliseconds, unless it is stuck:
/// then whoever asks says so, and is not stuck as well.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);
/// How long it is waited for a datagram on a device on which it arrives at once.
pub(crate) const TRIAL: Duration = Duration::from_millis(100);
/// How often one is sent that should be forwarded: a device takes a moment to be up, and a busy machine
/// (thirty that want each core) to forward.
pub(crate) const TRIALS: usize = 20;
/// How often a list is asked for again that changed while it was read.
pub(crate) const READS: usize = 8;
