//! The clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mercato_protocol::time::Now;

/// Both clocks of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    pub(crate) fn now(&self) -> Now {
        Now { mono_ms: millis(self.started.elapsed().as_millis()), wall_ms: wall_ms() }
    }
}

/// The present where only the wall clock counts: to check what was signed.
pub(crate) fn wall() -> Now {
    Now { mono_ms: 0, wall_ms: wall_ms() }
}

/// The wall clock, in milliseconds since 1970-01-01 UTC.
pub(crate) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| millis(since.as_millis()))
}

fn millis(ms: u128) -> u64 {
    u64::try_from(ms).unwrap_or(u64::MAX)
}
