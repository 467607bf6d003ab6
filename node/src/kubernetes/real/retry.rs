//! Waiting between two tries, longer each time.

use std::time::Duration;

use crate::limits;

/// How long the next wait is.
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(limits::CLUSTER_RETRY)
    }
}

impl Backoff {
    /// Waits.
    pub(super) async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(limits::CLUSTER_RETRY_MAX);
    }
}
