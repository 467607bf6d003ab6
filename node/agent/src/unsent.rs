//! Words in negotiations that their peers have not taken: a connection ended under them. What
//! waits for an answer the broker says again at each connection. The rest, answers that nobody
//! would miss before a time-out, is said again from here: once, and at once.

use mercato_protocol::bounded::{Bounded, Rank, Room};
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::PublicKey;
use mercato_protocol::negotiation::Message;

use crate::effect::Effect;
use crate::limits;

/// Those that wait for their peer's next connection, by peer and by a number that rises.
#[derive(Debug)]
pub(crate) struct Unsent {
    words: Bounded<(PublicKey, u64), Signed<Message>>,
    kept: u64,
}

impl Default for Unsent {
    fn default() -> Self {
        Self { words: Bounded::new(Room::of(limits::UNSAID)), kept: 0 }
    }
}

impl Unsent {
    /// One more that its peer has not taken; where there is no room those leave that matter least.
    pub(crate) fn keep(
        &mut self,
        peer: PublicKey,
        message: Signed<Message>,
        rank: impl Fn(&PublicKey) -> Rank,
    ) {
        self.kept += 1;
        // Full of words for those who matter more: who waits for this one asks again.
        let _ = self.words.put((peer, self.kept), message, |(peer, _), _| rank(peer));
    }

    /// What is to be said to a peer that is connected, perhaps anew.
    pub(crate) fn take(&mut self, peer: PublicKey) -> Vec<Effect> {
        let mut taken = Vec::new();
        self.words.retain(|(other, _), message| {
            let is_of_peer = *other == peer;
            let message = is_of_peer.then(|| message.clone());
            taken.extend(message.map(|message| Effect::Negotiation { peer, message, once: true }));
            !is_of_peer
        });
        taken
    }
}
