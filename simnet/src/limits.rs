//! Every bound of the simulation.

/// Last lines of the trace that are kept for the report of a failure.
pub const TRACE_LINES: usize = 400;

/// Messages, wake-ups and writes under way at once; more means that something talks
/// without end.
pub const EVENTS: usize = 100_000;

/// Events of one run; more means that it never comes to rest.
pub const STEPS: u64 = 2_000_000;

/// Events between two checks of everything.
pub const GLOBAL_CHECK_STEPS: u64 = 256;
