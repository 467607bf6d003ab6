//! The directory against a small world: whatever happened before, once every peer
//! answers, each one that may be dialled is found, by wakeups alone.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};

use mercato_discovery::{
    Address, DialFailure, Directory, Effect, Input, Report, Sighting, SightingId, Source, limits,
};
use mercato_protocol::id::PublicKey;
use mercato_protocol::time::{Deadline, Now};
use proptest::prelude::*;

const ME: PublicKey = PublicKey([0; 32]);

fn peer(n: u8) -> PublicKey {
    PublicKey([n; 32])
}

/// Peer `n` listens on port 1000 + `n`; the list names no key.
fn sighting(n: u8, source: Source) -> Sighting {
    let address: Address = format!("/ip4/192.0.2.1/tcp/{}", 1_000 + u16::from(n)).parse().unwrap();
    let id = SightingId { source, instance: n.to_string() };
    Sighting { id, peer: (source != Source::List).then_some(peer(n)), addresses: vec![address] }
}

struct World {
    directory: Directory,
    now: Now,
    connected: BTreeSet<PublicKey>,
    blocked: BTreeSet<PublicKey>,
    dials: BTreeMap<u64, (Option<PublicKey>, PublicKey)>,
    forgotten: Vec<PublicKey>,
    kept: BTreeSet<PublicKey>,
    /// When each sighting that counts was last good, as far as the world knows.
    seen_ms: BTreeMap<SightingId, u64>,
}

impl World {
    fn new() -> Self {
        Self {
            directory: Directory::new(ME, [7; 32]),
            now: Now { mono_ms: 1_000_000, wall_ms: 0 },
            connected: BTreeSet::new(),
            blocked: BTreeSet::new(),
            dials: BTreeMap::new(),
            forgotten: Vec::new(),
            kept: BTreeSet::new(),
            seen_ms: BTreeMap::new(),
        }
    }

    fn feed(&mut self, input: Input) {
        for effect in self.directory.handle(self.now, input) {
            match effect {
                Effect::Dial { attempt, peer: expected, addresses } => {
                    let port = addresses.first().expect("a dial has an address").port;
                    assert!(addresses.len() <= limits::ADDRESSES_PER_DIAL);
                    if let Some(expected) = expected {
                        assert_ne!(expected, ME);
                        assert!(!self.connected.contains(&expected), "dialled while connected");
                        assert!(!self.blocked.contains(&expected), "dialled though blocked");
                    }
                    let there = peer(u8::try_from(port - 1_000).unwrap());
                    assert!(self.dials.insert(attempt, (expected, there)).is_none());
                }
                Effect::Forget(peer) => self.forgotten.push(peer),
            }
        }
        if let Some(deadline) = self.directory.wakeup() {
            assert!(!deadline.is_due(self.now), "a wakeup that is due was not served");
        }
    }

    fn connect(&mut self, peer: PublicKey) {
        if self.connected.insert(peer) {
            self.feed(Input::Connected { peer, dialled: true });
        }
    }

    fn answer(&mut self, reachable: bool) {
        let Some((attempt, (expected, there))) = self.dials.pop_first() else { return };
        let result = match expected {
            _ if !reachable => Err(DialFailure::Unreachable),
            _ if there == ME => Err(DialFailure::Ourselves),
            Some(expected) if expected != there => Err(DialFailure::WrongPeer),
            _ => Ok(there),
        };
        if let Ok(peer) = result
            && !self.blocked.contains(&peer)
        {
            self.connect(peer);
        }
        self.feed(Input::Dialled { attempt, result });
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Seen(n, source) => {
                let sighting = sighting(n, source);
                self.seen_ms.insert(sighting.id.clone(), self.now.mono_ms);
                self.feed(Input::Report(Report::Seen(sighting)));
            }
            Step::Gone(n, source) => {
                let id = sighting(n, source).id;
                self.seen_ms.remove(&id);
                self.feed(Input::Report(Report::Gone(id)));
            }
            Step::Answer(reachable) => self.answer(reachable),
            Step::Drop => {
                if let Some(peer) = self.connected.pop_first() {
                    self.renew(peer);
                    self.feed(Input::Disconnected(peer));
                }
            }
            Step::Block(n) => {
                self.blocked.insert(peer(n));
                self.feed(Input::Block(peer(n)));
            }
            Step::Keep(n) => {
                self.kept.insert(peer(n));
                self.feed(Input::Keep(peer(n)));
            }
            Step::Release(n) => {
                self.kept.remove(&peer(n));
                self.feed(Input::Release(peer(n)));
            }
            Step::Replaced(n) => {
                self.kept.remove(&peer(n));
                self.seen_ms
                    .retain(|id, _| id.source == Source::List || id.instance != n.to_string());
                self.feed(Input::Replaced(peer(n)));
            }
            Step::Wait(ms) => {
                self.now.mono_ms += ms;
                self.feed(Input::Tick);
            }
        }
    }
}

impl World {
    /// To have been connected is as good as to be seen.
    fn renew(&mut self, peer: PublicKey) {
        let now_ms = self.now.mono_ms;
        let of_peer = |id: &SightingId| id.instance == peer.0[0].to_string();
        self.seen_ms.iter_mut().filter(|(id, _)| of_peer(id)).for_each(|(_, at)| *at = now_ms);
    }

    /// Nobody is known by nobody's word, nobody is forgotten whom somebody saw lately, and nobody
    /// is remembered for longer but whom the owner lists or somebody needs.
    fn check_known(&mut self) -> Result<(), TestCaseError> {
        let (now_ms, mut words) = (self.now.mono_ms, BTreeSet::new());
        for known in self.directory.known() {
            for source in &known.sources {
                let by = |id: &&SightingId| {
                    id.source == *source
                        && known.peer.is_none_or(|peer| id.instance == peer.0[0].to_string())
                };
                let words_of = self.seen_ms.keys().filter(by);
                let before = words.len();
                words.extend(words_of.cloned());
                let new = words.len() > before;
                prop_assert!(new || known.peer.is_none(), "by nobody's word: {known:?}");
            }
        }
        let (connected, kept) = (self.connected.clone(), self.kept.clone());
        let needed = |id: &SightingId| {
            connected.union(&kept).any(|peer| id.instance == peer.0[0].to_string())
        };
        for (id, at_ms) in std::mem::take(&mut self.seen_ms) {
            let fresh = at_ms + limits::FORGET_MS > now_ms;
            let stays = fresh || needed(&id) || id.source == Source::List;
            prop_assert!(!fresh || words.contains(&id), "forgotten: {id:?}");
            prop_assert!(stays || !words.contains(&id), "remembered: {id:?}");
            if stays {
                self.seen_ms.insert(id, at_ms);
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Seen(u8, Source),
    Gone(u8, Source),
    Answer(bool),
    Drop,
    Block(u8),
    Keep(u8),
    Release(u8),
    Replaced(u8),
    Wait(u64),
}

fn source() -> impl Strategy<Value = Source> {
    prop_oneof![Just(Source::List), Just(Source::Lan), (1..4u8).prop_map(|n| Source::Peer(peer(n))),]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..20u8, source()).prop_map(|(n, source)| Step::Seen(n, source)),
        2 => (1..20u8, source()).prop_map(|(n, source)| Step::Gone(n, source)),
        6 => any::<bool>().prop_map(Step::Answer),
        2 => Just(Step::Drop),
        1 => (1..20u8).prop_map(Step::Block),
        1 => (1..20u8).prop_map(Step::Keep),
        1 => (1..20u8).prop_map(Step::Release),
        1 => (1..20u8).prop_map(Step::Replaced),
        4 => (0..10_000u64).prop_map(Step::Wait),
        1 => Just(Step::Wait(limits::FORGET_MS / 3)),
    ]
}

proptest! {
    #[test]
    fn everybody_who_may_be_dialled_is_found(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            world.check_known()?;
        }
        // Heal: all answer, time goes on from wakeup to wakeup.
        let start = world.now.mono_ms;
        loop {
            while !world.dials.is_empty() {
                world.answer(true);
            }
            match world.directory.wakeup() {
                Some(Deadline::Mono(at)) if at < start + 2 * limits::BACKOFF_MAX_MS => {
                    world.now.mono_ms = at;
                    world.feed(Input::Tick);
                }
                _ => break,
            }
        }
        for known in world.directory.known() {
            prop_assert!(known.connected || known.blocked, "not found: {known:?}");
        }
    }
}

#[test]
fn pauses_double_up_to_the_bound() {
    let mut world = World::new();
    pauses_of(&mut world, limits::BACKOFF_MAX_MS);
    let mut world = World::new();
    world.feed(Input::Keep(peer(1)));
    pauses_of(&mut world, limits::BACKOFF_MAX_KEPT_MS);
}

fn pauses_of(world: &mut World, bound_ms: u64) {
    world.feed(Input::Report(Report::Seen(sighting(1, Source::Lan))));
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let Some(Deadline::Mono(due)) = world.directory.wakeup() else { panic!("no wakeup") };
        pauses.push(due - world.now.mono_ms);
        world.now.mono_ms = due;
        world.feed(Input::Tick);
        assert_eq!(world.dials.len(), 1);
        world.answer(false);
    }
    assert!(pauses[0] <= limits::FIRST_DIAL_MS);
    for (failures, pause) in pauses[1..].iter().enumerate() {
        let exact = (limits::BACKOFF_MIN_MS << failures).min(bound_ms);
        assert!((exact * 3 / 4..=exact * 5 / 4).contains(pause), "{failures}: {pause}");
    }
}

#[test]
fn a_connection_that_does_not_last_is_a_failure() {
    let mut world = World::new();
    world.feed(Input::Report(Report::Seen(sighting(1, Source::Lan))));
    for failures in 1..5 {
        world.now.mono_ms += limits::BACKOFF_MAX_MS;
        world.feed(Input::Tick);
        world.answer(true);
        world.step(Step::Drop);
        assert_eq!(world.directory.known().next().unwrap().failures, failures);
    }
}

#[test]
fn a_new_instance_ends_the_pause() {
    let mut world = World::new();
    world.feed(Input::Report(Report::Seen(sighting(1, Source::Lan))));
    for _ in 0..10 {
        world.step(Step::Wait(2 * limits::BACKOFF_MAX_MS));
        world.answer(false);
    }
    let mut again = sighting(1, Source::Lan);
    again.id.instance = "restarted".into();
    world.feed(Input::Report(Report::Seen(again)));
    world.step(Step::Wait(limits::DIAL_DISTANCE_MS));
    assert_eq!(world.dials.len(), 1);
}

#[test]
fn a_changed_sighting_neither_forgets_nor_hurries() {
    let mut world = World::new();
    world.feed(Input::Report(Report::Seen(sighting(1, Source::Lan))));
    world.step(Step::Wait(limits::FIRST_DIAL_MS));
    world.answer(false);
    let dialled_ms = world.now.mono_ms;
    let mut changed = sighting(1, Source::Lan);
    changed.addresses.extend(sighting(2, Source::Lan).addresses);
    world.feed(Input::Report(Report::Seen(changed)));
    let known = world.directory.known().next().unwrap();
    assert_eq!((known.addresses.len(), known.failures), (2, 1));
    assert_eq!(world.forgotten, []);
    let Some(Deadline::Mono(due)) = world.directory.wakeup() else { panic!("no wakeup") };
    assert!(due >= dialled_ms + limits::BACKOFF_MIN_MS * 3 / 4, "dialled again at once");
}

#[test]
fn the_list_learns_who_answers_and_that_it_may_change() {
    let mut world = World::new();
    world.feed(Input::Report(Report::Seen(sighting(1, Source::List))));
    world.step(Step::Wait(limits::FIRST_DIAL_MS));
    world.answer(true);
    let known = world.directory.known().next().unwrap();
    assert_eq!((known.peer, known.connected), (Some(peer(1)), true));
    // Another cluster now answers there.
    world.step(Step::Wait(limits::STABLE_MS));
    world.step(Step::Drop);
    world.step(Step::Wait(limits::BACKOFF_MIN_MS));
    let (attempt, (expected, _)) = world.dials.pop_first().unwrap();
    assert_eq!(expected, Some(peer(1)));
    world.feed(Input::Dialled { attempt, result: Err(DialFailure::WrongPeer) });
    assert_eq!(world.forgotten, [peer(1)]);
    world.step(Step::Wait(2 * limits::BACKOFF_MIN_MS));
    assert_eq!(world.dials.pop_first().unwrap().1.0, None);
}

#[test]
fn our_own_address_on_the_list_is_dialled_once() {
    let mut world = World::new();
    world.feed(Input::Report(Report::Seen(sighting(0, Source::Lan))));
    assert_eq!(world.directory.wakeup(), None);
    world.feed(Input::Report(Report::Seen(sighting(0, Source::List))));
    world.step(Step::Wait(limits::FIRST_DIAL_MS));
    let (attempt, _) = world.dials.pop_first().unwrap();
    world.feed(Input::Dialled { attempt, result: Err(DialFailure::Ourselves) });
    assert_eq!(world.directory.wakeup(), None);
    assert_eq!(world.directory.known().count(), 0);
}

#[test]
fn a_flood_of_sightings_stays_bounded_and_spares_whom_we_need() {
    let mut world = World::new();
    world.feed(Input::Report(Report::Seen(sighting(1, Source::Lan))));
    world.connect(peer(1));
    for n in 0..2_000u32 {
        let mut false_one = sighting(2, Source::Lan);
        false_one.id.instance = format!("flood {n}");
        let mut key = [3; 32];
        key[..4].copy_from_slice(&n.to_be_bytes());
        false_one.peer = Some(PublicKey(key));
        world.now.mono_ms += 1;
        world.feed(Input::Report(Report::Seen(false_one)));
    }
    assert!(world.directory.known().count() <= limits::SIGHTINGS_PER_KIND);
    let first = world.directory.known().find(|known| known.peer == Some(peer(1))).unwrap();
    assert_eq!(first.sources, [Source::Lan]);
    assert!(world.dials.len() <= limits::DIALS);
}

#[test]
fn strangers_who_connect_do_not_keep_us_from_dialling() {
    let mut world = World::new();
    for n in 100..200 {
        world.feed(Input::Connected { peer: peer(n), dialled: false });
    }
    world.feed(Input::Report(Report::Seen(sighting(1, Source::Lan))));
    world.step(Step::Wait(limits::FIRST_DIAL_MS));
    assert_eq!(world.dials.len(), 1);
}

#[test]
fn enough_is_enough_but_for_whom_a_lease_needs() {
    let mut world = World::new();
    for n in 100..100 + limits::OUTBOUND as u8 {
        world.connect(peer(n));
    }
    for n in 1..3 {
        world.feed(Input::Report(Report::Seen(sighting(n, Source::Lan))));
    }
    world.step(Step::Wait(limits::FIRST_DIAL_MS));
    assert_eq!(world.dials.len(), 0);
    world.step(Step::Keep(2));
    let dialled: Vec<_> = world.dials.values().map(|(expected, _)| *expected).collect();
    assert_eq!(dialled, [Some(peer(2))]);
}

#[test]
fn who_is_not_seen_for_long_is_forgotten() {
    let mut world = World::new();
    world.feed(Input::Report(Report::Seen(sighting(1, Source::Lan))));
    world.feed(Input::Report(Report::Seen(sighting(2, Source::List))));
    world.step(Step::Wait(limits::FORGET_MS));
    assert_eq!(world.forgotten, [peer(1)]);
    assert_eq!(world.directory.known().count(), 1);
}
