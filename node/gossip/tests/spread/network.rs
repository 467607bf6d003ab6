//! A small network in virtual time: links that delay, lose, double and are cut.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_gossip::{Effect, Gossip, Input, Interner, Item, News, Open, Opened, Verdict};
use mercato_protocol::ad::AdHeader;
use mercato_protocol::codec::Message as _;
use mercato_protocol::envelope::{EnvelopeError, KeyPair, Signers, Trust};
use mercato_protocol::gossip::{Mark, Message, Publication, VerifiedPublication, Withdraw};
use mercato_protocol::id::{ClusterId, Digest, FederationId, PublicKey};
use mercato_protocol::text::Blob;
use mercato_protocol::time::{Deadline, Now};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

const WALL_MS: u64 = 1_700_000_000_000;

pub(crate) fn keys(n: usize) -> KeyPair {
    KeyPair::from_seed(&[u8::try_from(n).unwrap() + 1; 32])
}

pub(crate) fn now(at_ms: u64) -> Now {
    Now { mono_ms: at_ms, wall_ms: WALL_MS + at_ms }
}

/// What publisher `n` says as its `seq`th word at `at_ms`.
pub(crate) fn ad(n: usize, seq: u64, body: &[u8], at_ms: u64) -> News {
    let header = AdHeader {
        provider: ClusterId(keys(n).public().0),
        epoch: 1,
        seq,
        body: Digest::of(body),
        issued_ms: now(at_ms).wall_ms,
        ttl_s: 900,
        rows: Vec::new(),
    };
    let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
    let header = keys(n).sign(FederationId::lan(), &header).unwrap();
    News::ad(header.open(trust, now(at_ms)).unwrap(), Blob(body.into())).unwrap()
}

pub(crate) fn end(n: usize, seq: u64, at_ms: u64) -> News {
    let provider = ClusterId(keys(n).public().0);
    let end = Withdraw { provider, epoch: 1, seq, issued_ms: now(at_ms).wall_ms };
    let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
    let end = keys(n).sign(FederationId::lan(), &end).unwrap();
    let end = end.open(trust, now(at_ms)).unwrap();
    News::plain(VerifiedPublication::Withdraw(end)).unwrap()
}

/// Nodes, the links between them, and what is on its way.
pub(crate) struct Network {
    pub(crate) at_ms: u64,
    pub(crate) nodes: Vec<Gossip>,
    keys: Vec<PublicKey>,
    /// What each node learned last of each publisher.
    pub(crate) learned: Vec<BTreeMap<PublicKey, News>>,
    links: BTreeSet<(usize, usize)>,
    flying: BTreeMap<(u64, u64), (usize, usize, Message)>,
    sent: u64,
    pub(crate) bodies_sent: usize,
    rng: ChaCha12Rng,
    /// Of a hundred messages.
    pub(crate) lost: u32,
    pub(crate) doubled: u32,
    /// Nothing of the first's comes to the second, without a word.
    pub(crate) mute: Vec<(usize, usize)>,
    /// Publications that were opened before: opening is pure, and slow.
    opened: BTreeMap<Publication, Arc<Item>>,
    pub(crate) trace: Vec<Effect>,
}

impl Network {
    pub(crate) fn new(size: usize, seed: u64) -> Self {
        let interner = Interner::new(seed);
        let node = |n: usize| {
            Gossip::new(keys(n).public(), [u8::try_from(n).unwrap(); 32], interner.clone())
        };
        Self {
            at_ms: 0,
            nodes: (0..size).map(node).collect(),
            keys: (0..size).map(|n| keys(n).public()).collect(),
            learned: vec![BTreeMap::new(); size],
            links: BTreeSet::new(),
            flying: BTreeMap::new(),
            sent: 0,
            bodies_sent: 0,
            rng: ChaCha12Rng::seed_from_u64(seed),
            lost: 0,
            doubled: 0,
            mute: Vec::new(),
            opened: BTreeMap::new(),
            trace: Vec::new(),
        }
    }

    pub(crate) fn feed(&mut self, node: usize, input: Input) {
        let mut verdicts = Vec::new();
        for effect in self.nodes[node].handle(now(self.at_ms), input) {
            self.trace.push(effect.clone());
            match effect {
                Effect::Banned(_) => panic!("an honest neighbour is banned"),
                Effect::Learned(news) => {
                    let mark = *news.mark();
                    verdicts.push((mark, Verdict::Accept));
                    let before = self.learned[node].insert(mark.publisher, news);
                    assert!(before.is_none_or(|before| mark.supersedes(before.mark())));
                }
                Effect::Send { peer, message } => {
                    let to = self.keys.iter().position(|key| *key == peer).unwrap();
                    assert!(self.linked(node, to), "told one that is no neighbour");
                    assert!(message.to_bytes().is_ok(), "a message that no peer takes");
                    if let Message::Push { bodies, .. } = &message {
                        self.bodies_sent += bodies.len();
                    }
                    let copies = u32::from(self.rng.random_range(0..100) >= self.lost)
                        + u32::from(self.rng.random_range(0..100) < self.doubled);
                    for _ in 0..copies * u32::from(!self.mute.contains(&(node, to))) {
                        let arrives_ms = self.at_ms + self.rng.random_range(1..=120);
                        self.sent += 1;
                        self.flying.insert((arrives_ms, self.sent), (node, to, message.clone()));
                    }
                }
            }
        }
        if !verdicts.is_empty() {
            self.feed(node, Input::Judged(verdicts));
        }
    }

    pub(crate) fn linked(&self, a: usize, b: usize) -> bool {
        self.links.contains(&(a.min(b), a.max(b)))
    }

    pub(crate) fn link(&mut self, a: usize, b: usize) {
        if a != b && self.links.insert((a.min(b), a.max(b))) {
            self.feed(a, Input::Connected(keys(b).public()));
            self.feed(b, Input::Connected(keys(a).public()));
        }
    }

    pub(crate) fn cut(&mut self, a: usize, b: usize) {
        if self.links.remove(&(a.min(b), a.max(b))) {
            self.flying
                .retain(|_, (from, to, _)| (*from.min(to), *from.max(to)) != (a.min(b), a.max(b)));
            self.feed(a, Input::Disconnected(keys(b).public()));
            self.feed(b, Input::Disconnected(keys(a).public()));
        }
    }

    pub(crate) fn run(&mut self, for_ms: u64) {
        let until_ms = self.at_ms + for_ms;
        loop {
            let wakes = self.nodes.iter().enumerate().filter_map(|(n, node)| match node.wakeup() {
                Some(Deadline::Mono(at_ms)) => Some((at_ms, n)),
                Some(Deadline::Wall(_)) | None => None,
            });
            let wake = wakes.min();
            let arrival = self.flying.first_key_value().map(|((at_ms, _), _)| *at_ms);
            let next_ms = wake.map(|(at_ms, _)| at_ms).into_iter().chain(arrival).min();
            let Some(next_ms) = next_ms.filter(|next_ms| *next_ms <= until_ms) else { break };
            self.at_ms = self.at_ms.max(next_ms);
            if arrival == Some(next_ms) {
                let (_, (from, to, message)) = self.flying.pop_first().unwrap();
                if let Some(message) = self.open(from, to, message) {
                    self.feed(to, Input::Received { peer: self.keys[from], message });
                }
            } else if let Some((_, node)) = wake {
                self.feed(node, Input::Tick);
            }
        }
        self.at_ms = until_ms;
    }

    /// As a daemon does: what is worth no signature's check is left out before.
    fn open(&mut self, from: usize, to: usize, message: Message) -> Option<Opened> {
        let now = now(self.at_ms);
        let screened = self.nodes[to].screen(now, &self.keys[from], message)?;
        let mut check = Check { known: &mut self.opened, at: now };
        let opened = Opened::open_screened_with(screened, &mut check);
        assert!(opened.refused().iter().all(|error| *error == EnvelopeError::Expired));
        Some(opened)
    }

    pub(crate) fn marks(&self, node: usize) -> Vec<Mark> {
        let mut marks: Vec<Mark> = self.nodes[node].marks().copied().collect();
        marks.sort();
        marks
    }
}

struct Check<'a> {
    known: &'a mut BTreeMap<Publication, Arc<Item>>,
    at: Now,
}

impl Open for Check<'_> {
    fn item(&mut self, publication: &Publication) -> Result<Arc<Item>, EnvelopeError> {
        // From then on it may be over.
        let early = self.at.mono_ms < 900_000;
        if let Some(known) = self.known.get(publication).filter(|_| early) {
            return Ok(Arc::clone(known));
        }
        let item = Arc::new(Item::new(publication.open(FederationId::lan(), self.at)?));
        self.known.insert(publication.clone(), Arc::clone(&item));
        Ok(item)
    }
}

/// A line of nodes, all linked before anything is said.
pub(crate) fn line(size: usize) -> Network {
    let mut network = Network::new(size, 1);
    (1..size).for_each(|node| network.link(node - 1, node));
    network
}
