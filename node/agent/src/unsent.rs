//! Words in negotiations that their peers have not taken: a connection ended under them. What
//! waits for an answer the broker says again at each connection. The rest, answers that nobody
//! would miss before a time-out, is said again from here: once, and at once.

use mercato_protocol::bounded::{Bounded, Rank, Room};
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::PublicKey;
use mercato_protocol::negotiation::Message;

use crate::agent::Agent;
use crate::effect::Effect;
use crate::limits;

/// Those that wait for their peer's next connection, by peer and by a number that rises.
#[derive(Debug)]
pub(crate) struct Unsaid {
    words: Bounded<(PublicKey, u64), Signed<Message>>,
    kept: u64,
}

impl Default for Unsaid {
    fn default() -> Self {
        Self { words: Bounded::new(Room::of(limits::UNSAID)), kept: 0 }
    }
}

impl Unsaid {
    fn keep(
        &mut self,
        peer: PublicKey,
        message: Signed<Message>,
        rank: impl Fn(&PublicKey) -> Rank,
    ) {
        self.kept += 1;
        // Full of words for those who matter more: who waits for this one asks again.
        let _ = self.words.put((peer, self.kept), message, |(peer, _), _| rank(peer));
    }

    fn take(&mut self, peer: PublicKey) -> Vec<Signed<Message>> {
        let mut taken = Vec::new();
        self.words.retain(|(other, _), message| {
            let is_of_peer = *other == peer;
            taken.extend(is_of_peer.then(|| message.clone()));
            !is_of_peer
        });
        taken
    }
}

impl Agent {
    /// If the peer has connected anew since, it is said at once.
    pub(crate) fn on_unsaid(
        &mut self,
        peer: PublicKey,
        message: Signed<Message>,
        out: &mut Vec<Effect>,
    ) {
        let mut unsaid = std::mem::take(&mut self.unsaid);
        unsaid.keep(peer, message, |peer| self.rank_of_key(peer));
        self.unsaid = unsaid;
        if self.peers.connected().contains_key(&peer) {
            self.say_unsaid(peer, out);
        }
    }

    /// The peer is connected, perhaps anew.
    pub(crate) fn say_unsaid(&mut self, peer: PublicKey, out: &mut Vec<Effect>) {
        for message in self.unsaid.take(peer) {
            out.push(Effect::Negotiation { peer, message, once: true });
        }
    }
}
