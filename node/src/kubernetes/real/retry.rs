//! Waiting between two tries, longer each time; why is warned of once.

use std::fmt::Display;
use std::time::Duration;

use mercato_kubelet::{Repeated, warn_once};

use crate::limits;

/// How long the next wait is, and what it is for.
pub(super) struct Backoff {
    next: Duration,
    repeated: Repeated,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: limits::CLUSTER_RETRY, repeated: Repeated::default() }
    }
}

impl Backoff {
    /// Warns of what failed under a lease, unless it was the same before.
    pub(super) fn warn(&mut self, failure: &impl Display, what: &str) {
        warn_once!(self.repeated, failure; "{what}");
    }

    pub(super) async fn wait(&mut self) {
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(limits::CLUSTER_RETRY_MAX);
    }
}
