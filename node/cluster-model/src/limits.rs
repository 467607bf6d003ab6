//! Every bound of the model.

/// Objects of one cluster. A guess: a demo has dozens, a simulated cluster hundreds.
pub const OBJECTS: usize = 20_000;

/// Events that a watch can still be continued from; etcd keeps five minutes of them.
pub const EVENTS: usize = 4_096;

/// Faults waiting to be hit.
pub const FAULTS: usize = 64;

/// Lines of one simulated log that are still shown.
pub const LOG_LINES: u64 = 200;
