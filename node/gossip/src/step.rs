//! What every part has at hand while one input is handled.

use std::sync::MutexGuard;

use mercato_protocol::gossip::Message;
use mercato_protocol::limits::GOSSIP_ITEMS;
use mercato_protocol::time::Now;
use rand_chacha::ChaCha12Rng;

use crate::effect::Effect;
use crate::index::NeighbourIndex;
use crate::interner::Keys;
use crate::neighbours::Neighbours;

/// The handling of one input, and its effects so far.
pub(crate) struct Step<'a> {
    pub(crate) now: Now,
    pub(crate) keys: MutexGuard<'a, Keys>,
    pub(crate) neighbours: &'a mut Neighbours,
    pub(crate) rng: &'a mut ChaCha12Rng,
    pub(crate) effects: Vec<Effect>,
}

impl Step<'_> {
    /// Nothing is sent to one that is no neighbour any more.
    pub(crate) fn send(&mut self, peer: NeighbourIndex, message: Message) {
        if let Some(peer) = self.neighbours.key(peer) {
            self.effects.push(Effect::Send { peer, message });
        }
    }

    /// Sends a list in as many messages as its length needs.
    pub(crate) fn send_list<T>(
        &mut self,
        peer: NeighbourIndex,
        mut items: Vec<T>,
        message: impl Fn(Vec<T>) -> Message,
    ) {
        while !items.is_empty() {
            let rest = items.split_off(items.len().min(GOSSIP_ITEMS));
            self.send(peer, message(std::mem::replace(&mut items, rest)));
        }
    }
}
