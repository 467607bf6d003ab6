//! Waiting between two tries, longer each time; why is warned of once.

use std::fmt::Display;

use mercato_kubelet::{Repeated, warn_once};

use crate::limits;

/// How long the next wait is, and what it is for.
pub(super) struct Backoff {
    pace: mercato_kubelet::Backoff,
    repeated: Repeated,
}

impl Default for Backoff {
    fn default() -> Self {
        let pace = mercato_kubelet::Backoff::new(limits::CLUSTER_RETRY, limits::CLUSTER_RETRY_MAX);
        Self { pace, repeated: Repeated::default() }
    }
}

impl Backoff {
    /// Warns of what failed under a lease, unless it was the same before.
    pub(super) fn warn(&mut self, failure: &impl Display, what: &str) {
        warn_once!(self.repeated, failure; "{what}");
    }

    pub(super) async fn wait(&mut self) {
        self.pace.wait().await;
    }
}
