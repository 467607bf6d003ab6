//! What was asked for before it was known what the cluster has: it waits for that, as long as the
//! buyer does.

use mercato_protocol::bounded::{Bounded, Rank, Room};
use mercato_protocol::envelope::Verified;
use mercato_protocol::id::{ClusterId, NegotiationId};
use mercato_protocol::negotiation::Message;
use mercato_protocol::time::Now;

use crate::limits;

/// Requests, and when they came, monotonic.
#[derive(Debug)]
pub(crate) struct Early(Bounded<NegotiationId, (u64, Verified<Message>)>);

impl Default for Early {
    fn default() -> Self {
        Self(Bounded::new(Room::of(limits::EARLY_REQUESTS)))
    }
}

impl Early {
    /// Keeps the request until [`Early::take`], in the place of whoever matters less. One for
    /// which there is no room has no answer, and is asked again.
    pub(crate) fn keep(
        &mut self,
        now: Now,
        message: &Verified<Message>,
        is_partner: impl Fn(&ClusterId) -> bool,
    ) {
        let over_ms = now.mono_ms.saturating_sub(limits::REQUEST_MS);
        let rank = |_: &NegotiationId, (at_ms, message): &(u64, Verified<Message>)| match *at_ms
            < over_ms
        {
            true => Rank::Over,
            false if is_partner(&message.from) => Rank::Partner,
            false => Rank::Stranger,
        };
        // The table is full of partners' requests: this one is asked again.
        let _ = self.0.put(message.negotiation, (now.mono_ms, message.clone()), rank);
    }

    /// Those for whose answer somebody may still wait, the oldest first.
    pub(crate) fn take(&mut self, now: Now) -> Vec<Verified<Message>> {
        let all = std::mem::take(self);
        let in_time = all.0.values().filter(|it| now.mono_ms <= it.0 + limits::REQUEST_MS);
        let mut in_time: Vec<_> = in_time.cloned().collect();
        in_time.sort_by_key(|(at_ms, _)| *at_ms);
        in_time.into_iter().map(|(_, message)| message).collect()
    }
}
