//! Small networks in virtual time: links that delay, lose, double and are cut. Once they
//! are healed, every node holds the latest of every publisher, whole.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};

use mercato_gossip::{Effect, Gossip, Input, News, Opened, limits};
use mercato_protocol::ad::AdLease;
use mercato_protocol::codec::Message as _;
use mercato_protocol::envelope::{EnvelopeError, KeyPair, Signed, Signers, Trust};
use mercato_protocol::gossip::{Mark, Message, Publication, VerifiedPublication, Withdraw};
use mercato_protocol::id::{ClusterId, Digest, FederationId, PublicKey};
use mercato_protocol::text::Blob;
use mercato_protocol::time::{Deadline, Now};
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha12Rng;

const WALL_MS: u64 = 1_700_000_000_000;

fn keys(n: usize) -> KeyPair {
    KeyPair::from_seed(&[u8::try_from(n).unwrap() + 1; 32])
}

fn now(at_ms: u64) -> Now {
    Now { mono_ms: at_ms, wall_ms: WALL_MS + at_ms }
}

/// What publisher `n` says as its `seq`th word at `at_ms`.
fn ad(n: usize, seq: u64, body: &[u8], at_ms: u64) -> News {
    let lease = AdLease {
        provider: ClusterId(keys(n).public().0),
        epoch: 1,
        seq,
        body: Digest::of(body),
        issued_ms: now(at_ms).wall_ms,
        ttl_s: 900,
        rows: Vec::new(),
    };
    let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
    let lease = keys(n).sign(FederationId::lan(), &lease).unwrap();
    News::Ad { lease: lease.open(trust, now(at_ms)).unwrap(), body: body.into() }
}

fn end(n: usize, seq: u64, at_ms: u64) -> News {
    let provider = ClusterId(keys(n).public().0);
    let end = Withdraw { provider, epoch: 1, seq, issued_ms: now(at_ms).wall_ms };
    let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
    let end = keys(n).sign(FederationId::lan(), &end).unwrap();
    News::End(end.open(trust, now(at_ms)).unwrap())
}

/// Nodes, the links between them, and what is on its way.
struct Network {
    at_ms: u64,
    nodes: Vec<Gossip>,
    /// What each node learned last of each publisher.
    learned: Vec<BTreeMap<PublicKey, News>>,
    links: BTreeSet<(usize, usize)>,
    flying: BTreeMap<(u64, u64), (usize, usize, Message)>,
    sent: u64,
    bodies_sent: usize,
    rng: ChaCha12Rng,
    /// Of a hundred messages.
    lost: u32,
    doubled: u32,
    /// Publications that were opened before: opening is pure, and slow.
    opened: BTreeMap<Digest, VerifiedPublication>,
    trace: Vec<Effect>,
}

impl Network {
    fn new(size: usize, seed: u64) -> Self {
        let node = |n: usize| Gossip::new(keys(n).public(), [u8::try_from(n).unwrap(); 32]);
        Self {
            at_ms: 0,
            nodes: (0..size).map(node).collect(),
            learned: vec![BTreeMap::new(); size],
            links: BTreeSet::new(),
            flying: BTreeMap::new(),
            sent: 0,
            bodies_sent: 0,
            rng: ChaCha12Rng::seed_from_u64(seed),
            lost: 0,
            doubled: 0,
            opened: BTreeMap::new(),
            trace: Vec::new(),
        }
    }

    fn feed(&mut self, node: usize, input: Input) {
        for effect in self.nodes[node].handle(now(self.at_ms), input) {
            self.trace.push(effect.clone());
            match effect {
                Effect::Learned(news) => {
                    let mark = news.mark();
                    let before = self.learned[node].insert(mark.publisher, news);
                    assert!(before.is_none_or(|before| mark.supersedes(&before.mark())));
                }
                Effect::Send { peer, message } => {
                    let to = (0..self.nodes.len()).find(|n| keys(*n).public() == peer).unwrap();
                    assert!(self.linked(node, to), "told one that is no neighbour");
                    assert!(message.to_bytes().is_ok(), "a message that no peer takes");
                    self.bodies_sent += usize::from(matches!(message, Message::BodyReply { .. }));
                    let copies = u32::from(self.rng.random_range(0..100) >= self.lost)
                        + u32::from(self.rng.random_range(0..100) < self.doubled);
                    for _ in 0..copies {
                        let arrives_ms = self.at_ms + self.rng.random_range(1..=120);
                        self.sent += 1;
                        self.flying.insert((arrives_ms, self.sent), (node, to, message.clone()));
                    }
                }
            }
        }
    }

    fn linked(&self, a: usize, b: usize) -> bool {
        self.links.contains(&(a.min(b), a.max(b)))
    }

    fn link(&mut self, a: usize, b: usize) {
        if a != b && self.links.insert((a.min(b), a.max(b))) {
            self.feed(a, Input::Connected(keys(b).public()));
            self.feed(b, Input::Connected(keys(a).public()));
        }
    }

    fn cut(&mut self, a: usize, b: usize) {
        if self.links.remove(&(a.min(b), a.max(b))) {
            self.flying
                .retain(|_, (from, to, _)| (*from.min(to), *from.max(to)) != (a.min(b), a.max(b)));
            self.feed(a, Input::Disconnected(keys(b).public()));
            self.feed(b, Input::Disconnected(keys(a).public()));
        }
    }

    fn run(&mut self, for_ms: u64) {
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
                let message = self.open(message);
                self.feed(to, Input::Received { peer: keys(from).public(), message });
            } else if let Some((_, node)) = wake {
                self.feed(node, Input::Tick);
            }
        }
        self.at_ms = until_ms;
    }

    fn open(&mut self, message: Message) -> Opened {
        let at = now(self.at_ms);
        let opened = Opened::open_with(message, |publication| {
            let digest = publication.digest();
            // From then on it may be over.
            let early = at.mono_ms < 900_000;
            if let Some(known) = self.opened.get(&digest).filter(|_| early) {
                return Ok(known.clone());
            }
            let opened = publication.open(FederationId::lan(), at)?;
            self.opened.insert(digest, opened.clone());
            Ok(opened)
        });
        assert!(opened.refused().iter().all(|error| *error == EnvelopeError::Expired));
        opened
    }

    fn marks(&self, node: usize) -> Vec<Mark> {
        self.nodes[node].marks().collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Link(usize, usize),
    Cut(usize, usize),
    Publish { node: usize, new_body: bool },
    Withdraw(usize),
    Run(u64),
}

fn step(size: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..size, 0..size).prop_map(|(a, b)| Step::Link(a, b)),
        1 => (0..size, 0..size).prop_map(|(a, b)| Step::Cut(a, b)),
        3 => (0..size, any::<bool>()).prop_map(|(node, new_body)| Step::Publish { node, new_body }),
        1 => (0..size).prop_map(Step::Withdraw),
        3 => (1_u64..40_000).prop_map(Step::Run),
    ]
}

/// Does the steps on a network that loses and doubles, then heals it; gives back what
/// each publisher said last.
fn play(network: &mut Network, steps: &[Step]) -> Vec<Mark> {
    let size = network.nodes.len();
    let mut words: Vec<(u64, u8, Option<News>)> = vec![(0, 0, None); size];
    let mut said_ms = vec![0; size];
    for step in steps {
        match step {
            Step::Link(a, b) => network.link(*a, *b),
            Step::Cut(a, b) => network.cut(*a, *b),
            Step::Publish { node, new_body } => {
                // An honest publisher keeps the distance.
                let wait_ms = said_ms[*node] + limits::LEASE_DISTANCE_MS;
                network.run(wait_ms.saturating_sub(network.at_ms));
                said_ms[*node] = network.at_ms;
                let (seq, body, last) = &mut words[*node];
                *seq += 1;
                *body += u8::from(*new_body);
                let news = ad(*node, *seq, &[u8::try_from(*node).unwrap(), *body], network.at_ms);
                *last = Some(news.clone());
                network.feed(*node, Input::Publish(news));
            }
            Step::Withdraw(node) => {
                let (seq, _, last) = &mut words[*node];
                *seq += 1;
                let news = end(*node, *seq, network.at_ms);
                *last = Some(news.clone());
                network.feed(*node, Input::Publish(news));
            }
            Step::Run(for_ms) => network.run(*for_ms),
        }
    }
    (network.lost, network.doubled) = (0, 0);
    for node in 1..size {
        network.link(node - 1, node);
    }
    network.run(4 * limits::RECONCILE_MS + limits::BODY_DISTANCE_MS);
    let mut marks: Vec<Mark> =
        words.iter().filter_map(|(_, _, last)| Some(last.as_ref()?.mark())).collect();
    marks.sort();
    marks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn all_converge(
        seed in any::<u64>(),
        lost in 0_u32..40,
        doubled in 0_u32..20,
        steps in prop::collection::vec(step(5), 1..40),
    ) {
        let mut network = Network::new(5, seed);
        (network.lost, network.doubled) = (lost, doubled);
        let latest = play(&mut network, &steps);
        // Else some leases are over, and some nodes drop them before others.
        prop_assume!(network.at_ms < 900_000);
        for node in 0..5 {
            let held = network.marks(node);
            prop_assert_eq!(&held, &latest, "node {}", node);
            for mark in &held {
                let own = keys(node).public() == mark.publisher;
                let learned = network.learned[node].get(&mark.publisher).map(News::mark);
                prop_assert!(own || learned == Some(*mark));
            }
        }
    }

    #[test]
    fn equal_seeds_give_equal_runs(seed in any::<u64>(), steps in prop::collection::vec(step(4), 1..20)) {
        let run = || {
            let mut network = Network::new(4, seed);
            (network.lost, network.doubled) = (20, 10);
            play(&mut network, &steps);
            network.trace
        };
        prop_assert_eq!(run(), run());
    }
}

/// A line of nodes, all linked before anything is said.
fn line(size: usize) -> Network {
    let mut network = Network::new(size, 1);
    (1..size).for_each(|node| network.link(node - 1, node));
    network
}

#[test]
fn a_body_is_fetched_once_and_renewals_come_without_it() {
    let mut network = line(4);
    network.feed(0, Input::Publish(ad(0, 1, b"body", 0)));
    network.run(5_000);
    assert_eq!(network.bodies_sent, 3);
    network.run(20_000);
    network.feed(0, Input::Publish(ad(0, 2, b"body", 25_000)));
    network.run(5_000);
    assert_eq!(network.bodies_sent, 3);
    for node in 1..4 {
        let News::Ad { lease, body } = &network.learned[node][&keys(0).public()] else { panic!() };
        assert_eq!((lease.seq, &body[..]), (2, &b"body"[..]));
    }
}

#[test]
fn a_withdrawal_outruns_the_rates_and_its_publisher() {
    let mut network = line(3);
    network.feed(0, Input::Publish(ad(0, 1, b"body", 0)));
    network.run(1_000);
    network.feed(0, Input::Publish(end(0, 2, 1_000)));
    network.run(130);
    network.cut(0, 1);
    network.run(500);
    for node in 1..3 {
        assert!(matches!(network.learned[node][&keys(0).public()], News::End(_)), "{node}");
    }
}

#[test]
fn a_publisher_that_hurries_is_slowed_down() {
    let mut network = line(2);
    for seq in 1..=20 {
        let at_ms = network.at_ms;
        network.feed(0, Input::Publish(ad(0, seq, b"body", at_ms)));
        network.run(1_000);
    }
    let learned =
        network.trace.iter().filter(|effect| matches!(effect, Effect::Learned(_))).count();
    assert!((2..=3).contains(&learned), "{learned}");
}

/// Feeds node 1, that has the neighbour 0, and says what it asks of it.
fn pulls(network: &mut Network, message: Message) -> usize {
    let message = Opened::open(message, FederationId::lan(), now(network.at_ms));
    let input = Input::Received { peer: keys(0).public(), message };
    let effects = network.nodes[1].handle(now(network.at_ms), input);
    let asked = |effect: &Effect| match effect {
        Effect::Send { message: Message::Pull { digests }, .. } => digests.len(),
        Effect::Send { .. } | Effect::Learned(_) => 0,
    };
    effects.iter().map(asked).sum()
}

#[test]
fn strangers_come_through_a_lane() {
    let mut network = line(2);
    let mark =
        |n: u8| Mark { publisher: PublicKey([n; 32]), epoch: 1, seq: 1, digest: Digest([n; 32]) };
    let strangers = Message::Announce { marks: (100..200).map(mark).collect() };
    assert_eq!(pulls(&mut network, strangers), 20);
    let known = (100..200).map(|n| PublicKey([n; 32])).collect();
    network.feed(1, Input::Known(known));
    let known = Message::Announce { marks: (100..200).map(mark).collect() };
    assert_eq!(pulls(&mut network, known), 80);
}

#[test]
fn what_was_not_asked_for_is_dropped() {
    let mut network = line(2);
    let News::Ad { lease, body } = ad(0, 1, b"body", 0) else { panic!() };
    let publication = Publication::Lease(lease.signed().clone());
    pulls(&mut network, Message::Push { publications: vec![publication] });
    let body = Some(Blob(body.to_vec()));
    pulls(&mut network, Message::BodyReply { digest: Digest::of(b"body"), body });
    assert_eq!(network.nodes[1].marks().count(), 0);
}

#[test]
fn a_false_mark_hides_nothing() {
    let mut network = line(2);
    let false_mark = Mark {
        publisher: keys(0).public(),
        epoch: u64::MAX,
        seq: u64::MAX,
        digest: Digest([9; 32]),
    };
    assert_eq!(pulls(&mut network, Message::Announce { marks: vec![false_mark] }), 1);
    network.feed(0, Input::Publish(ad(0, 1, b"body", 0)));
    network.run(2_000);
    assert_eq!(network.learned[1].len(), 1);
}

#[test]
fn what_is_over_is_dropped_and_does_not_come_back() {
    let mut network = line(3);
    network.feed(0, Input::Publish(ad(0, 1, b"body", 0)));
    network.run(1_000_000);
    for node in 0..3 {
        assert_eq!(network.marks(node), []);
    }
}

#[test]
fn a_forged_publication_is_left_out() {
    let News::Ad { lease, .. } = ad(0, 1, b"body", 0) else { panic!() };
    let mut bytes = lease.signed().as_bytes().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    let push = Message::Push { publications: vec![Publication::Lease(Signed::from_bytes(bytes))] };
    assert_eq!(Opened::open(push, FederationId::lan(), now(0)).refused().len(), 1);
}
