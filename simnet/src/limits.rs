//! Every bound of the simulation.

use std::ops::RangeInclusive;

/// Clusters of one federation. Each agent knows all others, so that memory grows with the square
/// of it. A guess.
pub const CLUSTERS: RangeInclusive<usize> = 2..=2_000;

/// Seeds of one `simnet check`.
pub const SEEDS: RangeInclusive<u64> = 1..=1_000_000;

/// Last lines of the trace that are kept for the report of a failure.
pub const TRACE_LINES: usize = 400;

/// Messages, wake-ups and writes under way at once; more means that something talks
/// without end.
pub const EVENTS: usize = 4_000_000;

/// Events of one trial; more means that it never comes to rest.
pub const STEPS: u64 = 5_000_000;

/// What waits longer than so many ms for its line is dropped.
pub const LINE_QUEUE_MS: u64 = 10_000;

/// Publications that were opened, and bodies, that are remembered; over so many of a kind, all are
/// forgotten.
pub const OPENED: usize = 400_000;

/// Agents, or gateways, woken within one millisecond; more means that one is due again at once,
/// without end.
pub const WAKES: u32 = 10_000;

/// Values of a body that a cluster takes: fewer than its peers send, as if it were of another
/// release.
pub const TAKEN_VALUES: usize = 2_000;
/// Values of a body that a cluster sends. Both are far below the product's, and far above what
/// ordinary objects of a run have.
pub const SENT_VALUES: usize = 3_000;

/// Events between two checks of everything.
pub const GLOBAL_CHECK_STEPS: u64 = 256;
