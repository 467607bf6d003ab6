//! What was taken back before it was heard: each word goes its own way, so a request may come after
//! the word that ends it. That word was answered, and the buyer says no other.

use mercato_protocol::bounded::{Bounded, Rank, Room};
use mercato_protocol::id::{ClusterId, NegotiationId};
use mercato_protocol::negotiation::Message;
use mercato_protocol::time::Now;

use crate::limits;

/// Negotiations that are not known here, by who ended them, and when that came, monotonic.
#[derive(Debug)]
pub(crate) struct Withdrawn(Bounded<(ClusterId, NegotiationId), u64>);

impl Default for Withdrawn {
    fn default() -> Self {
        Self(Bounded::new(Room::of(limits::WITHDRAWN)))
    }
}

impl Withdrawn {
    /// Remembers that the negotiation of this message was ended, in the place of whatever matters less.
    pub(crate) fn keep(
        &mut self,
        now: Now,
        message: &Message,
        is_stranger: impl Fn(&ClusterId) -> bool,
    ) {
        let over_ms = now.mono_ms.saturating_sub(limits::WITHDRAWN_MS);
        let rank = |(from, _): &(ClusterId, NegotiationId), at_ms: &u64| match *at_ms < over_ms {
            true => Rank::Over,
            false if is_stranger(from) => Rank::Stranger,
            false => Rank::Partner,
        };
        // The table is full of partners' words: a request that comes later still is asked about.
        let of = (message.from, message.negotiation);
        let _ = self.0.put(of, now.mono_ms, rank);
    }

    /// Whether the negotiation of this message was ended a while ago, or less.
    pub(crate) fn holds(&self, now: Now, message: &Message) -> bool {
        let of = self.0.get(&(message.from, message.negotiation));
        of.is_some_and(|at_ms| now.mono_ms <= *at_ms + limits::WITHDRAWN_MS)
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::Digest;
    use mercato_protocol::negotiation::Body;

    use super::*;

    fn now(mono_ms: u64) -> Now {
        Now { mono_ms, wall_ms: 1_790_000_000_000 + mono_ms }
    }

    fn of(from: u8, number: u64) -> Message {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        Message {
            negotiation: NegotiationId(id),
            from: ClusterId([from; 32]),
            to: ClusterId([0; 32]),
            seq: 1,
            previous: Some(Digest::of(b"")),
            body: Body::Finalized,
        }
    }

    #[test]
    fn a_flood_of_strangers_pushes_out_no_partner() {
        let mut withdrawn = Withdrawn::default();
        let is_stranger = |from: &ClusterId| *from != of(1, 0).from;
        withdrawn.keep(now(0), &of(1, 0), is_stranger);
        let flood = 2 * limits::WITHDRAWN as u64;
        (0..flood).for_each(|number| withdrawn.keep(now(1), &of(2, number), is_stranger));
        assert!(withdrawn.holds(now(1), &of(1, 0)));
        assert!(withdrawn.holds(now(1), &of(2, flood - 1)) && !withdrawn.holds(now(1), &of(2, 0)));
        assert!(!withdrawn.holds(now(limits::WITHDRAWN_MS + 1), &of(1, 0)), "it is over");
    }
}
