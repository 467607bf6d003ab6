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

/// Nodes, the links between them, and what is on its way.
pub(crate) struct Network {
    pub(crate) at_ms: u64,
    pub(crate) learned: usize,
    pub(crate) messages: u64,
    pub(crate) marks: usize,
    pub(crate) bodies: usize,
    nodes: Vec<Gossip>,
    keys: Vec<PublicKey>,
    /// One way, by both ends, the smaller first.
    links: BTreeMap<(usize, usize), u64>,
    neighbours: Vec<Vec<(usize, u64)>>,
    /// What arrives in each of the next milliseconds.
    flying: VecDeque<Vec<(usize, usize, Message)>>,
    wakes: BinaryHeap<Reverse<(u64, usize)>>,
    wake_ms: Vec<u64>,
    opened: Known,
}

/// Everything that was ever published, by where its bytes are: whoever passes it on
/// passes on these very bytes.
#[derive(Default)]
struct Known {
    items: HashMap<usize, Arc<Item>>,
    bodies: HashMap<usize, Arc<Body>>,
    /// Keeps the bytes where they are.
    kept: Vec<News>,
    at: Now,
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
        let publication = news.publication().publication();
        let at = self.at;
        let opened = publication.open(FederationId::lan(), at).unwrap();
        self.items.insert(place(&publication), Arc::new(Item::new(opened)));
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
        let keys: Vec<PublicKey> = (0..size).map(|n| keys(n).public()).collect();
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
        let everybody = Arc::new(keys.iter().copied().collect());
        let mut network = Self {
            at_ms: 0,
            learned: 0,
            messages: 0,
            marks: 0,
            bodies: 0,
            nodes: keys.iter().map(|key| Gossip::new(*key, rng.random())).collect(),
            keys,
            links: BTreeMap::new(),
            neighbours: vec![Vec::new(); size],
            flying: (0..=*one_way_ms.end()).map(|_| Vec::new()).collect(),
            wakes: BinaryHeap::new(),
            wake_ms: vec![u64::MAX; size],
            opened: Known::default(),
        };
        for node in 0..size {
            network.feed(node, Input::Known(Arc::clone(&everybody)));
        }
        network.join(&links);
        network
    }

    pub(crate) fn join(&mut self, links: &BTreeMap<(usize, usize), u64>) {
        for ((a, b), one_way_ms) in links {
            self.links.insert((*a, *b), *one_way_ms);
            self.neighbours[*a].push((*b, *one_way_ms));
            self.neighbours[*b].push((*a, *one_way_ms));
            self.feed(*a, Input::Connected(self.keys[*b]));
            self.feed(*b, Input::Connected(self.keys[*a]));
        }
    }

    /// Cuts the links between those below `middle` and the others.
    pub(crate) fn part(&mut self, middle: usize) -> BTreeMap<(usize, usize), u64> {
        let cut = self.links.extract_if(.., |(a, b), _| *a < middle && *b >= middle);
        let cut: BTreeMap<(usize, usize), u64> = cut.collect();
        for arriving in &mut self.flying {
            arriving.retain(|(from, to, _)| (*from < middle) == (*to < middle));
        }
        for (a, b) in cut.keys() {
            self.neighbours[*a].retain(|(other, _)| other != b);
            self.neighbours[*b].retain(|(other, _)| other != a);
            self.feed(*a, Input::Disconnected(self.keys[*b]));
            self.feed(*b, Input::Disconnected(self.keys[*a]));
        }
        cut
    }

    pub(crate) fn publish(&mut self, node: usize, news: News) {
        self.opened.at = now(self.at_ms);
        self.opened.keep(&news);
        self.feed(node, Input::Publish(news));
    }

    pub(crate) fn run(&mut self, for_ms: u64) {
        self.run_until(for_ms, |_| false);
    }

    /// Stops as soon as `done`, looked at after each millisecond.
    pub(crate) fn run_until(&mut self, for_ms: u64, done: impl Fn(&Self) -> bool) {
        for _ in 0..for_ms {
            while let Some(Reverse((at_ms, node))) = self.wakes.peek().copied()
                && at_ms <= self.at_ms
            {
                self.wakes.pop();
                if self.wake_ms[node] == at_ms {
                    self.wake_ms[node] = u64::MAX;
                    self.feed(node, Input::Tick);
                }
            }
            if done(self) {
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
        for effect in self.nodes[node].handle(now(self.at_ms), input) {
            match effect {
                Effect::Send { peer, message } => self.send(node, peer, message),
                Effect::Learned(news) => verdicts.push((*news.mark(), Verdict::Accept)),
                Effect::Shunned(_) => panic!("an honest neighbour is shunned"),
            }
        }
        if !verdicts.is_empty() {
            self.learned += verdicts.len();
            return self.feed(node, Input::Judged(verdicts));
        }
        if let Some(Deadline::Mono(wake_ms)) = self.nodes[node].wakeup()
            && wake_ms < self.wake_ms[node]
        {
            self.wake_ms[node] = wake_ms.max(self.at_ms);
            self.wakes.push(Reverse((self.wake_ms[node], node)));
        }
    }

    fn send(&mut self, from: usize, peer: PublicKey, message: Message) {
        let is_it = |(other, _): &&(usize, u64)| self.keys[*other] == peer;
        let Some(&(to, delay_ms)) = self.neighbours[from].iter().find(is_it) else {
            panic!("told one that is no neighbour");
        };
        self.messages += 1;
        match &message {
            Message::Announce { marks } | Message::Ids { marks, .. } => self.marks += marks.len(),
            Message::Push { bodies, .. } => self.bodies += bodies.len(),
            Message::Pull { .. } | Message::Root { .. } | Message::Buckets { .. } => {}
        }
        let slot = usize::try_from(delay_ms).unwrap() - 1;
        self.flying[slot].push((from, to, message));
    }

    /// How many latest words nodes lack, in all.
    pub(crate) fn missing(&self, ads: &Ads) -> usize {
        let lacks = |node: &Gossip, news: &News| {
            let publisher = &news.mark().publisher;
            node.latest(publisher).is_none_or(|held| held.mark() != news.mark())
        };
        let of = |node| ads.latest.values().filter(|news| lacks(node, news)).count();
        self.nodes.iter().map(of).sum()
    }
}
