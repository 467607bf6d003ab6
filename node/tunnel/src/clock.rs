//! The clock of one gateway, the same in all its threads.

use std::time::{Instant, SystemTime};

use mercato_protocol::time::Now;

/// Begins with the gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { began: Instant::now() }
    }

    pub(crate) fn mono_ms(self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    pub(crate) fn now(self) -> Now {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Now { mono_ms: self.mono_ms(), wall_ms: wall.as_millis() as u64 }
    }
}
