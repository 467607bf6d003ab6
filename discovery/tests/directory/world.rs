//! A small world that the directory finds its way in: what may happen there, and what must
//! be true of it at any time.

use std::collections::{BTreeMap, BTreeSet};

use mercato_discovery::{
    Address, DialFailure, Directory, Effect, Input, Report, Sighting, SightingId, Source, limits,
};
use mercato_protocol::id::PublicKey;
use mercato_protocol::time::Now;
use proptest::prelude::*;

pub(crate) const ME: PublicKey = PublicKey([0; 32]);

pub(crate) fn peer(n: u8) -> PublicKey {
    PublicKey([n; 32])
}

/// Peer `n` listens on port 1000 + `n`; the list names no key.
pub(crate) fn sighting(n: u8, source: Source) -> Sighting {
    let address: Address = format!("/ip4/192.0.2.1/tcp/{}", 1_000 + u16::from(n)).parse().unwrap();
    let id = SightingId { source, instance: n.to_string() };
    Sighting { id, peer: (source != Source::List).then_some(peer(n)), addresses: vec![address] }
}

pub(crate) struct World {
    pub(crate) directory: Directory,
    pub(crate) now: Now,
    pub(crate) connected: BTreeSet<PublicKey>,
    pub(crate) blocked: BTreeSet<PublicKey>,
    pub(crate) dials: BTreeMap<u64, (Option<PublicKey>, PublicKey)>,
    pub(crate) forgotten: Vec<PublicKey>,
    pub(crate) parted: Vec<PublicKey>,
    pub(crate) kept: BTreeSet<PublicKey>,
    /// When each sighting that counts was last good, as far as the world knows.
    pub(crate) seen_ms: BTreeMap<SightingId, u64>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            directory: Directory::new(ME, [7; 32]),
            now: Now { mono_ms: 1_000_000, wall_ms: 0 },
            connected: BTreeSet::new(),
            blocked: BTreeSet::new(),
            dials: BTreeMap::new(),
            forgotten: Vec::new(),
            parted: Vec::new(),
            kept: BTreeSet::new(),
            seen_ms: BTreeMap::new(),
        }
    }

    pub(crate) fn feed(&mut self, input: Input) {
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
                Effect::HangUp(peer) => {
                    assert!(!self.kept.contains(&peer), "parted with one that is needed");
                    self.parted.push(peer);
                }
                Effect::Forget(peer) => self.forgotten.push(peer),
            }
        }
        if let Some(deadline) = self.directory.wakeup() {
            assert!(!deadline.is_due(self.now), "a wakeup that is due was not served");
        }
        for peer in std::mem::take(&mut self.parted) {
            assert!(self.connected.remove(&peer), "parted with one that is not there");
            self.renew(peer);
            self.feed(Input::Disconnected(peer));
        }
    }

    pub(crate) fn connect(&mut self, peer: PublicKey) {
        if self.connected.insert(peer) {
            self.feed(Input::Connected { peer, dialled: true });
        }
    }

    pub(crate) fn answer(&mut self, reachable: bool) {
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

    pub(crate) fn step(&mut self, step: Step) {
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
    pub(crate) fn renew(&mut self, peer: PublicKey) {
        let now_ms = self.now.mono_ms;
        let of_peer = |id: &SightingId| id.instance == peer.0[0].to_string();
        self.seen_ms.iter_mut().filter(|(id, _)| of_peer(id)).for_each(|(_, at)| *at = now_ms);
    }

    /// Nobody is known by nobody's word, nobody is forgotten whom somebody saw lately, and nobody
    /// is remembered for longer but whom the owner lists or somebody needs.
    pub(crate) fn check_known(&mut self) -> Result<(), TestCaseError> {
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
pub(crate) enum Step {
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

pub(crate) fn step() -> impl Strategy<Value = Step> {
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
