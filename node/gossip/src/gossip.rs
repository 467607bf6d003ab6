//! The state machine as others see it.

use mercato_protocol::gossip::{Mark, Message};
use mercato_protocol::id::PublicKey;
use mercato_protocol::time::{Deadline, Now};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

use crate::effect::Effect;
use crate::input::Input;
use crate::interner::Interner;
use crate::item::News;
use crate::machine::Machine;
use crate::neighbours::Neighbours;
use crate::opened::{Claim, Screened};
use crate::step::Step;

/// How offers spread. See the crate's page.
#[derive(Debug)]
pub struct Gossip {
    interner: Interner,
    neighbours: Neighbours,
    rng: ChaCha12Rng,
    machine: Machine,
}

impl Gossip {
    /// A gossip that knows nothing yet. `me` is the key that this cluster publishes with; equal
    /// seeds and inputs give equal effects.
    pub fn new(me: PublicKey, seed: [u8; 32], interner: Interner) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        let neighbours = Neighbours::new(me, rng.random());
        Self { interner, neighbours, rng, machine: Machine::default() }
    }

    /// Takes in what happened; says what is to be done, in this order.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let Self { interner, neighbours, rng, machine } = self;
        let mut step = Step { now, keys: interner.keys(), neighbours, rng, effects: Vec::new() };
        machine.handle(&mut step, input);
        step.effects
    }

    /// When [`Input::Tick`] is next needed.
    pub fn wakeup(&self) -> Option<Deadline> {
        let Machine { fetches, announcer, reconciler, .. } = &self.machine;
        let reconcile_ms = (self.neighbours.keys.len() > 0).then(|| reconciler.next_ms());
        let others_ms = [announcer.next_ms(), fetches.next_ms()].into_iter();
        let others_ms = others_ms.filter(|next_ms| *next_ms < u64::MAX);
        others_ms.chain(reconcile_ms).min().map(Deadline::Mono)
    }

    /// The mark of all that is held, of each publisher one.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.news().map(News::mark)
    }

    /// What is held of `publisher`.
    pub fn latest(&self, publisher: &PublicKey) -> Option<&News> {
        let at = self.interner.keys().find(publisher)?;
        let entry = self.machine.store.entry(at).filter(|entry| entry.is_held())?;
        Some(&entry.news)
    }

    /// The keys of all neighbours. Those that are banned are none.
    pub fn neighbours(&self) -> impl Iterator<Item = &PublicKey> {
        self.neighbours.keys.iter().map(|(_, key)| key)
    }

    /// All that is held, of each publisher one, with its body.
    pub fn news(&self) -> impl Iterator<Item = &News> {
        self.machine.store.held().map(|(_, entry)| &entry.news)
    }

    /// Whether nothing is taken from this peer now, since it brought too much that is forged.
    pub fn is_banned(&self, now: Now, peer: &PublicKey) -> bool {
        self.machine.penalties.is_banned(now, peer)
    }

    /// Leaves out of a neighbour's message what is worth no more than an announcement, before
    /// anybody checks its signature: whatever is said about its publisher, nothing would come of
    /// it. None: it is no neighbour, and nothing is taken from it.
    pub fn screen(&self, now: Now, peer: &PublicKey, message: Message) -> Option<Screened> {
        let peer = self.neighbours.keys.find(peer)?;
        let Message::Push { publications, bodies } = message else {
            return Some(Screened { message, unopened: Vec::new() });
        };
        let keys = self.interner.keys();
        let is_worth_opening = |claim: &Claim| {
            self.machine.is_worth_opening(&self.neighbours, &keys, now, peer, claim)
        };
        let (mut opened, mut unopened) = (Vec::with_capacity(publications.len()), Vec::new());
        for publication in publications {
            match Claim::made_by(&publication) {
                Some(claim) if !is_worth_opening(&claim) => unopened.push(claim),
                // What says nothing is refused as it is opened.
                _ => opened.push(publication),
            }
        }
        Some(Screened { message: Message::Push { publications: opened, bodies }, unopened })
    }
}

impl Drop for Gossip {
    /// Others may use the numbers again.
    fn drop(&mut self) {
        let mut keys = self.interner.keys();
        self.machine.store.release(&mut keys);
        self.machine.fetches.release(&mut keys);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use mercato_protocol::id::{Digest, FederationId};

    use super::*;
    use crate::opened::Opened;

    #[test]
    fn one_that_ends_gives_its_numbers_back() {
        let key = |n| PublicKey([n; 32]);
        let interner = Interner::new(7);
        let [mut one, mut other] = [1, 2].map(|n| Gossip::new(key(n), [n; 32], interner.clone()));
        let now = Now::default();
        for gossip in [&mut one, &mut other] {
            let known: BTreeSet<PublicKey> = (10..20).map(key).collect();
            gossip.handle(now, Input::Known(Arc::new(known)));
            gossip.handle(now, Input::Connected(key(3)));
            let mark = |n| Mark { publisher: key(n), epoch: 1, seq: 1, digest: Digest([n; 32]) };
            let message = Message::Announce { marks: (15..25).map(mark).collect() };
            let message = Opened::open(message, FederationId::lan(), now);
            let asked = gossip.handle(now, Input::Received { peer: key(3), message });
            assert!(matches!(&asked[..], [Effect::Send { message: Message::Pull { wants }, .. }]
                if wants.len() == 10));
        }
        assert_eq!(interner.keys().len(), 15);
        drop(one);
        assert_eq!(interner.keys().len(), 15);
        drop(other);
        assert_eq!(interner.keys().len(), 0);
    }
}
