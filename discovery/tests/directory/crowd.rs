//! A crowd, more than there is room for, against a model of what was said: whoever is known was
//! said to be there, whoever is needed stays, and nothing is lost on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use mercato_discovery::{Input, Known, Report, Sighting, SightingId, Source, limits};
use proptest::prelude::*;

use crate::sample::{key, own_word};
use crate::world::{World, sighting};

#[derive(Clone, Debug)]
enum Step {
    /// These say that they are there.
    Seen(Range<u32>, u8),
    Gone(u32),
    Connect(u32),
    Disconnect(u32),
    Keep(u32),
    Release(u32),
    Replaced(u32),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let one = || 0..200u32;
    prop_oneof![
        6 => (one(), 1..60u32, 1..3u8).prop_map(|(n, many, at)| Step::Seen(n..n + many, at)),
        2 => one().prop_map(Step::Gone),
        2 => one().prop_map(Step::Connect),
        1 => one().prop_map(Step::Disconnect),
        2 => one().prop_map(Step::Keep),
        1 => one().prop_map(Step::Release),
        1 => one().prop_map(Step::Replaced),
        2 => (0..3 * limits::STALE_MS).prop_map(Step::Wait),
        1 => Just(Step::Wait(limits::FORGET_MS / 2)),
    ]
}

struct Crowd {
    world: World,
    /// Who said lately where it is, and when that was last good.
    said: BTreeMap<u32, u64>,
    /// Those of them that were needed when they said so, or known when they were needed.
    held: BTreeSet<u32>,
    known: BTreeSet<u32>,
    /// Those that were ever needed.
    favoured: BTreeSet<u32>,
    /// Whether there were ever more than there is room for.
    is_full: bool,
}

impl Crowd {
    fn new() -> Self {
        let (said, held, known, favoured) = Default::default();
        Self { world: World::new(), said, held, known, favoured, is_full: false }
    }

    fn is_needed(&self, n: u32) -> bool {
        self.world.connected.contains(&key(1, n)) || self.world.kept.contains(&key(1, n))
    }

    fn seen(&mut self, n: u32, at: u8) {
        self.said.insert(n, self.world.now.mono_ms);
        self.is_full |= self.said.len() > limits::SIGHTINGS_BY_PEERS;
        if self.is_needed(n) {
            self.held.insert(n);
        }
        let Sighting { addresses, .. } = sighting(at, Source::Lan);
        let seen = Sighting { addresses, ..own_word(key(1, n)) };
        let listens = self.world.directory.listens_to(self.world.now, &key(1, n));
        let before: Vec<Known> = self.world.directory.known().collect();
        self.world.feed(Input::Report(Report::Seen(seen)));
        let said_in_vain = || self.world.directory.known().eq(before) && !self.is_needed(n);
        assert!(listens || said_in_vain(), "does not listen to {n}");
    }

    fn unsaid(&mut self, n: u32, input: Input) {
        self.said.remove(&n);
        self.held.remove(&n);
        self.world.feed(input);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Seen(many, at) => many.for_each(|n| self.seen(n, at)),
            Step::Gone(n) => self.unsaid(n, Input::Report(Report::Gone(own_id(n)))),
            Step::Connect(n) => {
                self.favoured.insert(n);
                self.world.connect(key(1, n));
            }
            Step::Disconnect(n) => {
                if self.world.connected.remove(&key(1, n)) {
                    self.renew(n);
                    self.world.feed(Input::Disconnected(key(1, n)));
                }
            }
            Step::Keep(n) => {
                self.favoured.insert(n);
                self.world.kept.insert(key(1, n));
                self.world.feed(Input::Keep(key(1, n)));
            }
            Step::Release(n) => {
                self.world.kept.remove(&key(1, n));
                self.world.feed(Input::Release(key(1, n)));
            }
            Step::Replaced(n) => {
                self.world.kept.remove(&key(1, n));
                self.unsaid(n, Input::Replaced(key(1, n)));
            }
            Step::Wait(ms) => {
                let before = self.world.connected.clone();
                self.world.now.mono_ms += ms;
                self.world.feed(Input::Tick);
                let parted = |n: &u32| before.contains(&key(1, *n)) && !self.is_needed(*n);
                let parted: Vec<u32> = self.said.keys().copied().filter(parted).collect();
                parted.into_iter().for_each(|n| self.renew(n));
            }
        }
        let now_ms = self.world.now.mono_ms;
        let stays = |n: &u32, at_ms: u64| at_ms + limits::FORGET_MS > now_ms || self.is_needed(*n);
        let stay = self.said.iter().filter(|(n, at_ms)| stays(n, **at_ms));
        self.said = stay.map(|(n, at_ms)| (*n, *at_ms)).collect();
        let held: Vec<u32> = self.held.union(&self.known).copied().collect();
        let held = held.into_iter().filter(|n| self.said.contains_key(n) && self.is_needed(*n));
        self.held = held.collect();
    }

    fn renew(&mut self, n: u32) {
        self.said.entry(n).and_modify(|at_ms| *at_ms = self.world.now.mono_ms);
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let (mut known, mut connected) = (BTreeSet::new(), 0);
        for one in self.world.directory.known() {
            let peer = one.peer.unwrap();
            let n = u32::from_be_bytes(*peer.0.first_chunk().unwrap());
            prop_assert_eq!(one.connected, self.world.connected.contains(&peer));
            connected += usize::from(one.connected);
            if one.sources.is_empty() {
                prop_assert!(one.connected, "nothing is known of {n}");
            } else {
                prop_assert_eq!((one.sources, one.addresses.len()), (vec![Source::Peer(peer)], 1));
                prop_assert!(self.said.contains_key(&n), "by nobody's word: {n}");
                known.insert(n);
            }
        }
        prop_assert_eq!(connected, self.world.connected.len());
        prop_assert!(known.len() <= limits::SIGHTINGS_BY_PEERS + 2 * self.favoured.len());
        prop_assert!(known.is_superset(&self.held), "held {:?}, known {known:?}", self.held);
        prop_assert!(self.is_full || self.said.keys().all(|n| known.contains(n)));
        let forgotten = std::mem::take(&mut self.world.forgotten);
        prop_assert!(forgotten.iter().all(|peer| !self.world.connected.contains(peer)));
        let mut lost = self.known.difference(&known).map(|n| key(1, *n));
        let is_told = |peer| forgotten.contains(&peer) || self.world.connected.contains(&peer);
        prop_assert!(lost.all(is_told));
        self.known = known;
        Ok(())
    }
}

fn own_id(n: u32) -> SightingId {
    SightingId { source: Source::Peer(key(1, n)), instance: String::new() }
}

proptest! {
    #[test]
    fn whoever_is_known_was_said_to_be_there(steps in prop::collection::vec(step(), 1..60)) {
        let mut crowd = Crowd::new();
        for step in steps {
            crowd.step(step);
            crowd.check()?;
        }
        // All go and some come back: nothing is left of before that would keep them out.
        (0..260).for_each(|n| crowd.step(Step::Gone(n)));
        crowd.check()?;
        crowd.is_full = false;
        crowd.step(Step::Seen(0..limits::SIGHTINGS_BY_PEERS as u32, 1));
        crowd.check()?;
    }
}
