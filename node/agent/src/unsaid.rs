//! Words in negotiations that their peers have not taken: a connection ended under them. What
//! waits for an answer the broker says again at each connection. The rest, answers that nobody
//! would miss before a time-out, is said again from here: once, and at once.

use std::collections::VecDeque;

use mercato_protocol::envelope::Signed;
use mercato_protocol::id::PublicKey;
use mercato_protocol::negotiation::Message;

use crate::agent::Agent;
use crate::limits;
use crate::vocabulary::Effect;

/// Those that wait for their peer's next connection, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Unsaid(VecDeque<(PublicKey, Signed<Message>)>);

impl Unsaid {
    fn keep(&mut self, peer: PublicKey, message: Signed<Message>) {
        if self.0.len() >= limits::UNSAID {
            self.0.pop_front();
        }
        self.0.push_back((peer, message));
    }

    fn take(&mut self, peer: PublicKey) -> Vec<Signed<Message>> {
        let (of_peer, rest) = std::mem::take(&mut self.0).into_iter().partition(|it| it.0 == peer);
        self.0 = rest;
        VecDeque::into_iter(of_peer).map(|(_, message)| message).collect()
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
        self.unsaid.keep(peer, message);
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
