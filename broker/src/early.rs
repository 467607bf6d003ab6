//! What was asked for before it was known what the cluster has: it waits for that, as long as the
//! buyer does.

use std::collections::VecDeque;

use mercato_protocol::envelope::Verified;
use mercato_protocol::negotiation::Message;
use mercato_protocol::time::Now;

use crate::limits;

/// Requests, and when they came, monotonic; the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Early(VecDeque<(u64, Verified<Message>)>);

impl Early {
    pub(crate) fn keep(&mut self, now: Now, message: &Verified<Message>) {
        self.0.retain(|(_, other)| other.negotiation != message.negotiation);
        if self.0.len() >= limits::EARLY_REQUESTS {
            self.0.pop_front();
        }
        self.0.push_back((now.mono_ms, message.clone()));
    }

    /// Those for whose answer somebody may still wait.
    pub(crate) fn take(&mut self, now: Now) -> Vec<Verified<Message>> {
        let all = std::mem::take(&mut self.0).into_iter();
        let in_time = all.filter(|(at_ms, _)| now.mono_ms <= at_ms + limits::REQUEST_MS);
        in_time.map(|(_, message)| message).collect()
    }
}
