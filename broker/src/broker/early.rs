//! What comes out of turn. What was asked for before it was known what the cluster has waits for
//! that, as long as the buyer does. What was taken back before it was asked for is remembered.

use mercato_protocol::bounded::{Bounded, Rank, Room};
use mercato_protocol::envelope::Verified;
use mercato_protocol::id::{ClusterId, NegotiationId};
use mercato_protocol::negotiation::{Body, Message};
use mercato_protocol::time::Now;

use super::withdrawn::Withdrawn;
use crate::limits;

/// By who asks and the negotiation, with when it came, monotonic.
#[derive(Debug)]
pub(crate) struct Early {
    requests: Bounded<(ClusterId, NegotiationId), (u64, Verified<Message>)>,
    withdrawn: Withdrawn,
}

impl Default for Early {
    fn default() -> Self {
        let requests = Bounded::new(Room::of(limits::EARLY_REQUESTS));
        Self { requests, withdrawn: Withdrawn::default() }
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
        let key = (message.from, message.negotiation);
        let over_ms = now.mono_ms.saturating_sub(limits::REQUEST_MS);
        let rank = |(from, _): &(ClusterId, NegotiationId), (at_ms, _): &(u64, _)| {
            if *at_ms < over_ms {
                Rank::Over
            } else if is_partner(from) {
                Rank::Partner
            } else {
                Rank::Stranger
            }
        };
        // The table is full of partners' requests: this one is asked again.
        let _ = self.requests.put(key, (now.mono_ms, message.clone()), rank);
    }

    /// Somebody says something of a negotiation that is not known here. If that ends it, the
    /// request that waits, or is yet to come, wants no answer.
    pub(crate) fn withdraw(
        &mut self,
        now: Now,
        message: &Verified<Message>,
        is_stranger: impl Fn(&ClusterId) -> bool,
    ) {
        if matches!(message.body, Body::Terminate { .. }) {
            self.requests.remove(&(message.from, message.negotiation));
            self.withdrawn.keep(now, message, is_stranger);
        }
    }

    /// Whether the request was taken back before it came: nobody waits for its answer.
    pub(crate) fn ended(&self, now: Now, request: &Verified<Message>) -> bool {
        self.withdrawn.holds(now, request)
    }

    /// Those for whose answer somebody may still wait, the oldest first.
    pub(crate) fn take(&mut self, now: Now) -> Vec<Verified<Message>> {
        let none = Bounded::new(Room::of(limits::EARLY_REQUESTS));
        let all = std::mem::replace(&mut self.requests, none);
        let in_time = all.values().filter(|it| now.mono_ms <= it.0 + limits::REQUEST_MS);
        let mut in_time: Vec<_> = in_time.cloned().collect();
        in_time.sort_by_key(|(at_ms, _)| *at_ms);
        in_time.into_iter().map(|(_, message)| message).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mercato_protocol::envelope::{KeyPair, Signers, Trust};
    use mercato_protocol::id::{Digest, FederationId};

    use super::*;

    fn now(mono_ms: u64) -> Now {
        Now { mono_ms, wall_ms: 1_790_000_000_000 + mono_ms }
    }

    /// What one of many clusters says, in the negotiation of this number.
    fn request(from: u8, number: u8) -> Verified<Message> {
        let key = KeyPair::from_seed(&[from; 32]);
        let message = Message {
            negotiation: NegotiationId([number; 16]),
            from: ClusterId([from; 32]),
            to: ClusterId([0; 32]),
            seq: 1,
            previous: Some(Digest::of(b"")),
            body: Body::Finalized,
        };
        let federation = FederationId::lan();
        let known = BTreeMap::from([(key.public(), message.from)]);
        let trust = Trust { federation, signers: Signers::Known(&known) };
        key.sign(federation, &message).unwrap().open(trust, now(0)).unwrap()
    }

    #[test]
    fn a_flood_of_strangers_pushes_out_no_partner() {
        let mut early = Early::default();
        let partner = request(1, 0);
        let is_partner = |cluster: &ClusterId| *cluster == partner.from;
        early.keep(now(0), &partner, is_partner);
        for number in 0..=u8::MAX {
            early.keep(now(1), &request(2, number), is_partner);
        }
        let taken = early.take(now(2));
        assert_eq!(taken.len(), limits::EARLY_REQUESTS);
        assert_eq!(taken[0], partner);
        assert!(early.take(now(2)).is_empty());
    }

    #[test]
    fn whoever_knows_a_negotiation_does_not_replace_its_request() {
        let mut early = Early::default();
        let (partner, stranger) = (request(1, 7), request(2, 7));
        early.keep(now(0), &partner, |cluster| *cluster == partner.from);
        early.keep(now(1), &stranger, |cluster| *cluster == partner.from);
        assert_eq!(early.take(now(2)), [partner, stranger]);
    }

    #[test]
    fn nobody_waits_any_more_for_what_is_over() {
        let mut early = Early::default();
        early.keep(now(0), &request(1, 0), |_| true);
        early.keep(now(1), &request(1, 1), |_| true);
        assert_eq!(early.take(now(limits::REQUEST_MS + 1)), [request(1, 1)]);
    }
}
