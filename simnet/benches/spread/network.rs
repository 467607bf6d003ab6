//! Many gossips in virtual time, and the links between them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use mercato_gossip::{Effect, Gossip, Input, Interner, News, Opened, Verdict};
use mercato_protocol::envelope::KeyPair;
use mercato_protocol::gossip::Message;
use mercato_protocol::id::PublicKey;
use mercato_protocol::time::Deadline;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

use crate::ads::{Ads, Known, keys, now};
use crate::directories::Directories;
use crate::meeting::Meeting;

/// Neighbours that each chooses itself.
const CHOSEN: usize = 4;

/// Nodes, the links between them, and what is on its way. One thread has all, or two have half
/// of the nodes each. No link is faster than a step: for so long nobody hears of what another
/// does, so that each node in turn lives through a step alone, and threads meet after each.
pub(crate) struct Network {
    parts: Vec<Part>,
    /// By both ends, the smaller first.
    links: BTreeMap<(usize, usize), Link>,
}

/// The other end of a link.
#[derive(Clone)]
struct Neighbour {
    node: usize,
    key: PublicKey,
    one_way_ms: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct Link {
    one_way_ms: u64,
    /// Who chose the other.
    dialler: usize,
}

/// The nodes whose number, by the count of parts, leaves the same.
struct Part {
    side: usize,
    parts: usize,
    step_ms: u64,
    /// Where the next step begins: what flies is counted from there.
    at_ms: u64,
    count: Count,
    nodes: Vec<Gossip>,
    neighbours: Vec<Vec<Neighbour>>,
    keys: Arc<[PublicKey]>,
    /// What arrives in each of the next steps.
    flying: VecDeque<Vec<Sent>>,
    /// What is on its way to the other part.
    leaving: Vec<Sent>,
    wakes: BinaryHeap<Reverse<(u64, usize)>>,
    wake_ms: Vec<u64>,
    opened: Known,
    directories: Option<Directories>,
}

/// A message from one node to another.
struct Sent {
    from: usize,
    to: usize,
    /// When it arrives.
    at_ms: u64,
    message: Message,
}

/// What a node is to take in, and when; its wake-up where nothing arrives.
type Event = (usize, u64, Option<(usize, Message)>);

/// What one part has for the other: what is on its way, and how much it has learned.
type Word = (Vec<Sent>, usize);

/// What happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) learned: usize,
    pub(crate) messages: u64,
    pub(crate) marks: usize,
    pub(crate) bodies: usize,
}

impl Network {
    pub(crate) fn new(
        size: usize,
        seed: u64,
        one_way_ms: RangeInclusive<u64>,
        step_ms: u64,
        parts: usize,
    ) -> Self {
        assert!(step_ms <= *one_way_ms.start(), "nothing arrives in the step in which it is sent");
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let keys: Arc<[PublicKey]> = keys(size).iter().map(KeyPair::public).collect();
        let mut links = BTreeMap::new();
        for node in 0..size {
            for _ in 0..CHOSEN {
                let other = rng.random_range(0..size);
                if other != node {
                    let ends = (node.min(other), node.max(other));
                    let link =
                        || Link { one_way_ms: rng.random_range(one_way_ms.clone()), dialler: node };
                    links.entry(ends).or_insert_with(link);
                }
            }
        }
        let interners: Vec<Interner> = (0..parts).map(|_| Interner::new(rng.random())).collect();
        let mut nodes: Vec<Vec<Gossip>> = (0..parts).map(|_| Vec::new()).collect();
        for (node, key) in keys.iter().enumerate() {
            let interner = interners[node % parts].clone();
            nodes[node % parts].push(Gossip::new(*key, rng.random(), interner));
        }
        let part = |(side, nodes): (usize, Vec<Gossip>)| Part {
            side,
            parts,
            at_ms: 0,
            count: Count::default(),
            neighbours: vec![Vec::new(); nodes.len()],
            wake_ms: vec![u64::MAX; nodes.len()],
            nodes,
            keys: Arc::clone(&keys),
            step_ms,
            flying: (0..=*one_way_ms.end() / step_ms + 1).map(|_| Vec::new()).collect(),
            leaving: Vec::new(),
            wakes: BinaryHeap::new(),
            opened: Known::default(),
            directories: None,
        };
        let parts = nodes.into_iter().enumerate().map(part).collect();
        let mut network = Self { parts, links: BTreeMap::new() };
        let everybody = Arc::new(keys.iter().copied().collect());
        for node in 0..size {
            network.feed(node, Input::Known(Arc::clone(&everybody)));
        }
        network.join(&links);
        network
    }

    /// Each has a directory from now on. Of one part.
    pub(crate) fn direct(&mut self) {
        let [part] = &mut self.parts[..] else { panic!("one part") };
        let mut directories = Directories::new(&part.keys);
        for ((a, b), link) in &self.links {
            directories.connect(*a, part.keys[*b], link.dialler == *a);
            directories.connect(*b, part.keys[*a], link.dialler == *b);
        }
        part.directories = Some(directories);
    }

    pub(crate) fn directories(&self) -> Option<&Directories> {
        self.parts[0].directories.as_ref()
    }

    pub(crate) fn at_ms(&self) -> u64 {
        self.parts[0].at_ms
    }

    pub(crate) fn count(&self) -> Count {
        let add = |a: Count, b: Count| Count {
            learned: a.learned + b.learned,
            messages: a.messages + b.messages,
            marks: a.marks + b.marks,
            bodies: a.bodies + b.bodies,
        };
        self.parts.iter().map(|part| part.count).fold(Count::default(), add)
    }

    pub(crate) fn join(&mut self, links: &BTreeMap<(usize, usize), Link>) {
        for ((a, b), link) in links {
            self.links.insert((*a, *b), *link);
            for (one, other) in [(*a, *b), (*b, *a)] {
                let (part, at) = self.of(one);
                let (key, one_way_ms) = (part.keys[other], link.one_way_ms);
                part.neighbours[at].push(Neighbour { node: other, key, one_way_ms });
                self.feed(one, Input::Connected(key));
            }
        }
    }

    /// Cuts the links between those below `middle` and the others.
    pub(crate) fn part(&mut self, middle: usize) -> BTreeMap<(usize, usize), Link> {
        let cut = self.links.extract_if(.., |(a, b), _| *a < middle && *b >= middle);
        let cut: BTreeMap<(usize, usize), Link> = cut.collect();
        let stays = |sent: &Sent| (sent.from < middle) == (sent.to < middle);
        for part in &mut self.parts {
            part.flying.iter_mut().for_each(|arriving| arriving.retain(stays));
            part.leaving.retain(stays);
        }
        for (a, b) in cut.keys() {
            for (one, other) in [(*a, *b), (*b, *a)] {
                let (part, at) = self.of(one);
                part.neighbours[at].retain(|neighbour| neighbour.node != other);
                let key = part.keys[other];
                self.feed(one, Input::Disconnected(key));
            }
        }
        cut
    }

    pub(crate) fn publish(&mut self, node: usize, news: News) {
        self.parts.iter_mut().for_each(|part| part.opened.keep(&news));
        self.feed(node, Input::Publish(news));
    }

    pub(crate) fn run(&mut self, for_ms: u64) {
        self.run_until(for_ms, |_| false);
    }

    /// Stops as soon as so many have been learned, in all, that it is `done`; looked at after
    /// each step.
    pub(crate) fn run_until(&mut self, for_ms: u64, done: impl Fn(usize) -> bool + Sync) {
        let meeting = Meeting::default();
        match &mut self.parts[..] {
            [all] => all.run(for_ms, |_, _| Word::default(), &done),
            [one, other] => std::thread::scope(|scope| {
                scope.spawn(|| {
                    let seat = meeting.seat(0);
                    one.run(for_ms, |round, word| seat.exchange(round, word), &done);
                });
                let seat = meeting.seat(1);
                other.run(for_ms, |round, word| seat.exchange(round, word), &done);
            }),
            _ => panic!("one part or two"),
        }
    }

    /// The part that has this node, and where.
    fn of(&mut self, node: usize) -> (&mut Part, usize) {
        let parts = self.parts.len();
        (&mut self.parts[node % parts], node / parts)
    }

    fn feed(&mut self, node: usize, input: Input) {
        let (part, _) = self.of(node);
        part.feed(part.at_ms, node, input);
    }

    /// How many latest words nodes lack, in all.
    pub(crate) fn missing(&self, ads: &Ads) -> usize {
        let lacks = |node: &Gossip, news: &News| {
            let publisher = &news.mark().publisher;
            node.latest(publisher).is_none_or(|held| held.mark() != news.mark())
        };
        let of = |node| ads.latest.values().filter(|news| lacks(node, news)).count();
        self.parts.iter().flat_map(|part| &part.nodes).map(of).sum()
    }
}

impl Part {
    /// Gives a word for that of the other part before each step.
    fn run(
        &mut self,
        for_ms: u64,
        exchange: impl Fn(u64, Word) -> Word,
        done: &impl Fn(usize) -> bool,
    ) {
        for round in 1..=for_ms / self.step_ms {
            let word = (std::mem::take(&mut self.leaving), self.count.learned);
            let (coming, learned) = exchange(round, word);
            coming.into_iter().for_each(|sent| self.fly(sent));
            if done(self.count.learned + learned) {
                return;
            }
            self.step();
        }
    }

    fn step(&mut self) {
        let begins_ms = self.at_ms;
        let end_ms = begins_ms + self.step_ms;
        self.at_ms = end_ms;
        let mut arriving = self.flying.pop_front().unwrap();
        let arrivals = arriving.drain(..);
        let arrivals = arrivals.map(|sent| (sent.to, sent.at_ms, Some((sent.from, sent.message))));
        let mut events: Vec<Event> = arrivals.collect();
        self.flying.push_back(arriving);
        while let Some(Reverse((at_ms, node))) = self.wakes.peek().copied()
            && at_ms < end_ms
        {
            self.wakes.pop();
            if self.wake_ms[node / self.parts] == at_ms {
                events.push((node, at_ms, None));
            }
        }
        events.sort_by_key(|(node, at_ms, _)| (*node, *at_ms));
        for of_one in events.chunk_by_mut(|(one, ..), (other, ..)| one == other) {
            let node = of_one[0].0;
            for (_, at_ms, arrival) in of_one {
                self.wake_until(node, begins_ms, *at_ms);
                if let Some((from, message)) = arrival.take() {
                    let message = Opened::open_with(message, &mut self.opened);
                    let input = Input::Received { peer: self.keys[from], message };
                    self.feed(*at_ms, node, input);
                }
            }
            self.wake_until(node, begins_ms, end_ms - 1);
        }
        if let Some(directories) = &mut self.directories {
            directories.wake(end_ms - 1);
        }
    }

    /// Lets a node do what it is to do from one time until another.
    fn wake_until(&mut self, node: usize, from_ms: u64, until_ms: u64) {
        let wake_ms = |part: &Self| part.wake_ms[node / part.parts];
        while wake_ms(self) <= until_ms {
            let at_ms = wake_ms(self).max(from_ms);
            self.wake_ms[node / self.parts] = u64::MAX;
            self.feed(at_ms, node, Input::Tick);
        }
    }

    fn fly(&mut self, sent: Sent) {
        let steps = sent.at_ms / self.step_ms - self.at_ms / self.step_ms;
        self.flying[usize::try_from(steps).unwrap()].push(sent);
    }

    fn feed(&mut self, at_ms: u64, node: usize, input: Input) {
        let effects = self.nodes[node / self.parts].handle(now(at_ms), input);
        let mut verdicts = Vec::with_capacity(effects.len());
        for effect in effects {
            match effect {
                Effect::Send { peer, message } => self.send(at_ms, node, peer, message),
                Effect::Learned(news) => {
                    if let Some(directories) = &mut self.directories {
                        directories.see(at_ms, node, &news);
                    }
                    verdicts.push((*news.mark(), Verdict::Accept));
                }
                Effect::Banned(_) => panic!("an honest neighbour is banned"),
            }
        }
        if !verdicts.is_empty() {
            self.count.learned += verdicts.len();
            return self.feed(at_ms, node, Input::Judged(verdicts));
        }
        if let Some(Deadline::Mono(wake_ms)) = self.nodes[node / self.parts].wakeup()
            && wake_ms < self.wake_ms[node / self.parts]
        {
            self.wake_ms[node / self.parts] = wake_ms.max(at_ms);
            self.wakes.push(Reverse((self.wake_ms[node / self.parts], node)));
        }
    }

    fn send(&mut self, at_ms: u64, from: usize, peer: PublicKey, message: Message) {
        let mut neighbours = self.neighbours[from / self.parts].iter();
        let Some(neighbour) = neighbours.find(|neighbour| neighbour.key == peer) else {
            panic!("told one that is no neighbour");
        };
        let (to, at_ms) = (neighbour.node, at_ms + neighbour.one_way_ms);
        self.count.messages += 1;
        match &message {
            Message::Announce { marks } | Message::Ids { marks, .. } => {
                self.count.marks += marks.len();
            }
            Message::Push { bodies, .. } => self.count.bodies += bodies.len(),
            Message::Pull { .. } | Message::Root { .. } | Message::Buckets { .. } => {}
        }
        let sent = Sent { from, to, at_ms, message };
        match to % self.parts == self.side {
            true => self.fly(sent),
            false => self.leaving.push(sent),
        }
    }
}
