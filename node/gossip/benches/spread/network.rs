//! Many gossips in virtual time, with each publication opened once for all of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use mercato_gossip::{Body, Effect, Gossip, Input, Item, News, Open, Opened, Verdict};
use mercato_protocol::ad::AdLease;
use mercato_protocol::envelope::{EnvelopeError, KeyPair, Signers, Trust};
use mercato_protocol::gossip::{Message, Publication, VerifiedPublication, Withdraw};
use mercato_protocol::id::{ClusterId, Digest, FederationId, PublicKey};
use mercato_protocol::text::Blob;
use mercato_protocol::time::{Deadline, Now};
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

use crate::meeting::Meeting;

const WALL_MS: u64 = 1_700_000_000_000;
const BODY_BYTES: usize = 700;
/// Neighbours that each chooses itself.
const CHOSEN: usize = 4;

pub(crate) fn now(at_ms: u64) -> Now {
    Now { mono_ms: at_ms, wall_ms: WALL_MS + at_ms }
}

fn keys(n: usize) -> KeyPair {
    KeyPair::from_seed(&Digest::of(&n.to_be_bytes()).0)
}

/// What everybody says.
pub(crate) struct Ads {
    keys: Vec<KeyPair>,
    rng: ChaCha12Rng,
    /// The latest of each, as far as they said something.
    latest: BTreeMap<usize, News>,
    /// Ads in all.
    pub(crate) said: usize,
}

impl Ads {
    pub(crate) fn new(size: usize) -> Self {
        let rng = ChaCha12Rng::seed_from_u64(7);
        Self { keys: (0..size).map(keys).collect(), rng, latest: BTreeMap::new(), said: 0 }
    }

    /// With a body of its own.
    pub(crate) fn ad(&mut self, node: usize, seq: u64, at_ms: u64) -> News {
        let mut body = vec![0; BODY_BYTES];
        self.rng.fill_bytes(&mut body);
        self.say(node, seq, body, at_ms)
    }

    /// With the body of the last.
    pub(crate) fn renew(&mut self, node: usize, seq: u64, at_ms: u64) -> News {
        let body = self.latest[&node].body().unwrap().to_vec();
        self.say(node, seq, body, at_ms)
    }

    fn say(&mut self, node: usize, seq: u64, body: Vec<u8>, at_ms: u64) -> News {
        self.said += 1;
        let lease = AdLease {
            provider: ClusterId(self.keys[node].public().0),
            epoch: 1,
            seq,
            body: Digest::of(&body),
            issued_ms: now(at_ms).wall_ms,
            ttl_s: 900,
            rows: Vec::new(),
        };
        let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
        let lease = self.keys[node].sign(FederationId::lan(), &lease).unwrap();
        let lease = lease.open(trust, now(at_ms)).unwrap();
        let news = News::ad(lease, Blob(body.into())).unwrap();
        self.latest.insert(node, news.clone());
        news
    }

    pub(crate) fn end(&mut self, node: usize, seq: u64, at_ms: u64) -> News {
        let provider = ClusterId(self.keys[node].public().0);
        let end = Withdraw { provider, epoch: 1, seq, issued_ms: now(at_ms).wall_ms };
        let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
        let end = self.keys[node].sign(FederationId::lan(), &end).unwrap();
        let end = end.open(trust, now(at_ms)).unwrap();
        News::plain(VerifiedPublication::Withdraw(end)).unwrap()
    }
}

/// Nodes, the links between them, and what is on its way. Each half of the nodes has a thread
/// of its own; they meet after each millisecond, since nothing arrives sooner.
pub(crate) struct Network {
    halves: [Half; 2],
    /// One way, by both ends, the smaller first.
    links: BTreeMap<(usize, usize), u64>,
}

/// The nodes whose number, by two, leaves the same.
struct Half {
    side: usize,
    at_ms: u64,
    count: Count,
    nodes: Vec<Gossip>,
    neighbours: Vec<Vec<(usize, u64)>>,
    keys: Arc<[PublicKey]>,
    /// What arrives in each of the next milliseconds.
    flying: VecDeque<Vec<Sent>>,
    /// What is on its way to the other half, and when it arrives.
    leaving: Vec<(usize, Sent)>,
    wakes: BinaryHeap<Reverse<(u64, usize)>>,
    wake_ms: Vec<u64>,
    opened: Known,
}

/// A message, from one node to another.
type Sent = (usize, usize, Message);

/// What one half has for the other: what is on its way, and how much it has learned.
type Word = (Vec<(usize, Sent)>, usize);

/// What happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) learned: usize,
    pub(crate) messages: u64,
    pub(crate) marks: usize,
    pub(crate) bodies: usize,
}

/// Everything that was ever published, by where its bytes are: whoever passes it on
/// passes on these very bytes.
#[derive(Default)]
struct Known {
    items: HashMap<usize, Arc<Item>>,
    bodies: HashMap<usize, Arc<Body>>,
    /// Keeps the bytes where they are.
    kept: Vec<News>,
}

fn place(publication: &Publication) -> usize {
    match publication {
        Publication::Lease(lease) => lease.as_bytes().as_ptr() as usize,
        Publication::Withdraw(end) => end.as_bytes().as_ptr() as usize,
        Publication::Equivocation(_) | Publication::Revocations { .. } => panic!("none here"),
    }
}

impl Known {
    fn keep(&mut self, news: &News) {
        let publication = news.publication();
        let item = Item::new(publication.clone());
        self.items.insert(place(&publication.publication()), Arc::new(item));
        self.kept.push(news.clone());
    }
}

impl Open for Known {
    fn item(&mut self, publication: &Publication) -> Result<Arc<Item>, EnvelopeError> {
        Ok(Arc::clone(&self.items[&place(publication)]))
    }

    fn body(&mut self, body: Blob) -> Arc<Body> {
        let place = body.0.as_ptr() as usize;
        Arc::clone(self.bodies.entry(place).or_insert_with(|| Arc::new(Body::new(body))))
    }
}

impl Network {
    pub(crate) fn new(size: usize, seed: u64, one_way_ms: RangeInclusive<u64>) -> Self {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let keys: Arc<[PublicKey]> = (0..size).map(|n| keys(n).public()).collect();
        let mut links = BTreeMap::new();
        for node in 0..size {
            for _ in 0..CHOSEN {
                let other = rng.random_range(0..size);
                if other != node {
                    let link = (node.min(other), node.max(other));
                    links.entry(link).or_insert_with(|| rng.random_range(one_way_ms.clone()));
                }
            }
        }
        let mut nodes = [Vec::new(), Vec::new()];
        for (node, key) in keys.iter().enumerate() {
            nodes[node % 2].push(Gossip::new(*key, rng.random()));
        }
        let mut side = 0..;
        let halves = nodes.map(|nodes| Half {
            side: side.next().unwrap(),
            at_ms: 0,
            count: Count::default(),
            neighbours: vec![Vec::new(); nodes.len()],
            wake_ms: vec![u64::MAX; nodes.len()],
            nodes,
            keys: Arc::clone(&keys),
            flying: (0..=*one_way_ms.end()).map(|_| Vec::new()).collect(),
            leaving: Vec::new(),
            wakes: BinaryHeap::new(),
            opened: Known::default(),
        });
        let mut network = Self { halves, links: BTreeMap::new() };
        let everybody = Arc::new(keys.iter().copied().collect());
        for node in 0..size {
            network.feed(node, Input::Known(Arc::clone(&everybody)));
        }
        network.join(&links);
        network
    }

    pub(crate) fn at_ms(&self) -> u64 {
        self.halves[0].at_ms
    }

    pub(crate) fn count(&self) -> Count {
        let [a, b] = self.halves.each_ref().map(|half| half.count);
        Count {
            learned: a.learned + b.learned,
            messages: a.messages + b.messages,
            marks: a.marks + b.marks,
            bodies: a.bodies + b.bodies,
        }
    }

    pub(crate) fn join(&mut self, links: &BTreeMap<(usize, usize), u64>) {
        for ((a, b), one_way_ms) in links {
            self.links.insert((*a, *b), *one_way_ms);
            for (one, other) in [(*a, *b), (*b, *a)] {
                let half = &mut self.halves[one % 2];
                half.neighbours[one / 2].push((other, *one_way_ms));
                let key = half.keys[other];
                self.feed(one, Input::Connected(key));
            }
        }
    }

    /// Cuts the links between those below `middle` and the others.
    pub(crate) fn part(&mut self, middle: usize) -> BTreeMap<(usize, usize), u64> {
        let cut = self.links.extract_if(.., |(a, b), _| *a < middle && *b >= middle);
        let cut: BTreeMap<(usize, usize), u64> = cut.collect();
        let stays = |(from, to, _): &Sent| (*from < middle) == (*to < middle);
        for half in &mut self.halves {
            half.flying.iter_mut().for_each(|arriving| arriving.retain(stays));
            half.leaving.retain(|(_, sent)| stays(sent));
        }
        for (a, b) in cut.keys() {
            for (one, other) in [(*a, *b), (*b, *a)] {
                let half = &mut self.halves[one % 2];
                half.neighbours[one / 2].retain(|(neighbour, _)| *neighbour != other);
                let key = half.keys[other];
                self.feed(one, Input::Disconnected(key));
            }
        }
        cut
    }

    pub(crate) fn publish(&mut self, node: usize, news: News) {
        self.halves.iter_mut().for_each(|half| half.opened.keep(&news));
        self.feed(node, Input::Publish(news));
    }

    pub(crate) fn run(&mut self, for_ms: u64) {
        self.run_until(for_ms, |_| false);
    }

    /// Stops as soon as so many have been learned, in all, that it is `done`; looked at after
    /// each millisecond.
    pub(crate) fn run_until(&mut self, for_ms: u64, done: impl Fn(usize) -> bool + Sync) {
        let meeting = Meeting::default();
        let [one, other] = &mut self.halves;
        std::thread::scope(|scope| {
            scope.spawn(|| one.run(for_ms, &meeting, &done));
            other.run(for_ms, &meeting, &done);
        });
    }

    fn feed(&mut self, node: usize, input: Input) {
        self.halves[node % 2].feed(node, input);
    }

    /// How many latest words nodes lack, in all.
    pub(crate) fn missing(&self, ads: &Ads) -> usize {
        let lacks = |node: &Gossip, news: &News| {
            let publisher = &news.mark().publisher;
            node.latest(publisher).is_none_or(|held| held.mark() != news.mark())
        };
        let of = |node| ads.latest.values().filter(|news| lacks(node, news)).count();
        self.halves.iter().flat_map(|half| &half.nodes).map(of).sum()
    }
}

impl Half {
    fn run(&mut self, for_ms: u64, meeting: &Meeting<Word>, done: &impl Fn(usize) -> bool) {
        let meeting = meeting.seat(self.side);
        for round in 1..=for_ms {
            while let Some(Reverse((at_ms, node))) = self.wakes.peek().copied()
                && at_ms <= self.at_ms
            {
                self.wakes.pop();
                if self.wake_ms[node / 2] == at_ms {
                    self.wake_ms[node / 2] = u64::MAX;
                    self.feed(node, Input::Tick);
                }
            }
            let word = (std::mem::take(&mut self.leaving), self.count.learned);
            let (coming, learned) = meeting.exchange(round, word);
            for (slot, sent) in coming {
                self.flying[slot].push(sent);
            }
            if done(self.count.learned + learned) {
                return;
            }
            self.at_ms += 1;
            let mut arriving = self.flying.pop_front().unwrap();
            for (from, to, message) in arriving.drain(..) {
                let message = Opened::open_with(message, &mut self.opened);
                self.feed(to, Input::Received { peer: self.keys[from], message });
            }
            self.flying.push_back(arriving);
        }
    }

    fn feed(&mut self, node: usize, input: Input) {
        let mut verdicts = Vec::new();
        for effect in self.nodes[node / 2].handle(now(self.at_ms), input) {
            match effect {
                Effect::Send { peer, message } => self.send(node, peer, message),
                Effect::Learned(news) => verdicts.push((*news.mark(), Verdict::Accept)),
                Effect::Shunned(_) => panic!("an honest neighbour is shunned"),
            }
        }
        if !verdicts.is_empty() {
            self.count.learned += verdicts.len();
            return self.feed(node, Input::Judged(verdicts));
        }
        if let Some(Deadline::Mono(wake_ms)) = self.nodes[node / 2].wakeup()
            && wake_ms < self.wake_ms[node / 2]
        {
            self.wake_ms[node / 2] = wake_ms.max(self.at_ms);
            self.wakes.push(Reverse((self.wake_ms[node / 2], node)));
        }
    }

    fn send(&mut self, from: usize, peer: PublicKey, message: Message) {
        let is_it = |(other, _): &&(usize, u64)| self.keys[*other] == peer;
        let Some(&(to, delay_ms)) = self.neighbours[from / 2].iter().find(is_it) else {
            panic!("told one that is no neighbour");
        };
        self.count.messages += 1;
        match &message {
            Message::Announce { marks } | Message::Ids { marks, .. } => {
                self.count.marks += marks.len();
            }
            Message::Push { bodies, .. } => self.count.bodies += bodies.len(),
            Message::Pull { .. } | Message::Root { .. } | Message::Buckets { .. } => {}
        }
        let slot = usize::try_from(delay_ms).unwrap() - 1;
        match to % 2 == self.side {
            true => self.flying[slot].push((from, to, message)),
            false => self.leaving.push((slot, (from, to, message))),
        }
    }
}
