//! A consumer with pods that find no room, a scheduler that binds them to virtual nodes, and several
//! providers.

mod scheduler;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use mercato_broker::{
    Broker, BurstNews, BurstPolicy, BurstWord, Command, Config, Deal, Desired, Effect, Input,
    NodeChoice, Record, RecordKey, SharePolicy, Side, Standing, burst_of,
};
use mercato_protocol::ad::{Ad, OpenedBody};
use mercato_protocol::envelope::{KeyPair, Signed, Signers, Trust};
use mercato_protocol::id::{ClusterId, FederationId, NegotiationId, PublicKey};
use mercato_protocol::identity::Identity;
use mercato_protocol::negotiation::Message;
use mercato_protocol::resources::Resources;
use mercato_protocol::time::Now;

use crate::terms::{buys, inventory};

pub(crate) const START_MS: u64 = 1_800_000_000_000;
/// The consumer; the others are providers.
pub(crate) const HOME: usize = 0;

pub(crate) struct Node {
    pub(crate) broker: Broker,
    config: Config,
    records: BTreeMap<RecordKey, Record>,
    local: VecDeque<Input>,
    share: Option<SharePolicy>,
    restarts: u64,
    /// It neither hears nor says anything.
    pub(crate) is_dead: bool,
}

/// A pod of home: where it is, if it is anywhere.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) namespace: String,
    pub(crate) cpu_millis: u64,
    since_ms: u64,
    pub(crate) to: NodeChoice,
    pub(crate) on: Option<NegotiationId>,
}

pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    pub(crate) now_ms: u64,
    pub(crate) pods: BTreeMap<String, Pod>,
    /// Virtual nodes that are there and ready.
    pub(crate) shown: BTreeSet<NegotiationId>,
    /// Until then none of them takes pods: home has no links.
    pub(crate) closed_until_ms: u64,
    /// The scheduler binds no pod.
    pub(crate) binds_none: bool,
    /// Namespaces of which it binds no pod, though all that is asked for is there.
    pub(crate) stuck: BTreeSet<String>,
    pub(crate) news: Vec<BurstNews>,
    /// Home dies before its effect of this number.
    pub(crate) crash_at: Option<usize>,
    pub(crate) effects: usize,
    wire: VecDeque<(usize, Signed<Message>)>,
    known: BTreeMap<PublicKey, ClusterId>,
}

fn founded(seed: u8) -> Node {
    let key = Arc::new(KeyPair::from_seed(&[seed + 1; 32]));
    let at = Now { mono_ms: 0, wall_ms: START_MS };
    let name = ["home", "turin", "lyon", "graz"][usize::from(seed)];
    let identity = Identity::found(&key, name, at).unwrap();
    let config = Config::new(key, identity);
    Node {
        broker: Broker::restore(config.clone(), u64::from(seed), []),
        config,
        records: BTreeMap::new(),
        local: VecDeque::new(),
        share: None,
        restarts: 0,
        is_dead: false,
    }
}

impl World {
    /// Home buys so, of providers that share so; it trusts all of them, and has seen their offers.
    pub(crate) fn new(bursts: BurstPolicy, shares: &[SharePolicy]) -> Self {
        let count = u8::try_from(shares.len()).unwrap();
        let nodes: Vec<Node> = (0..=count).map(founded).collect();
        let known = nodes.iter().map(|n| (n.config.key.public(), n.config.cluster())).collect();
        let mut world = Self {
            nodes,
            now_ms: START_MS,
            pods: BTreeMap::new(),
            shown: BTreeSet::new(),
            closed_until_ms: 0,
            binds_none: false,
            stuck: BTreeSet::new(),
            news: Vec::new(),
            crash_at: None,
            effects: 0,
            wire: VecDeque::new(),
            known,
        };
        world.command(HOME, Command::Buy(Some(buys(bursts))));
        for (n, share) in shares.iter().enumerate() {
            world.nodes[n + 1].share = Some(share.clone());
            world.input(n + 1, Input::Inventory(inventory()));
            world.command(n + 1, Command::Share(Some(share.clone())));
            world.command(HOME, Command::Peer(world.cluster(n + 1), Standing::Trusted));
        }
        world
    }

    pub(crate) fn cluster(&self, node: usize) -> ClusterId {
        self.nodes[node].config.cluster()
    }

    fn now(&self) -> Now {
        Now { mono_ms: self.now_ms - START_MS, wall_ms: self.now_ms }
    }

    pub(crate) fn command(&mut self, node: usize, command: Command) {
        self.input(node, Input::Command(0, Box::new(command)));
    }

    pub(crate) fn input(&mut self, node: usize, input: Input) {
        if self.nodes[node].is_dead {
            return;
        }
        let now = self.now();
        for effect in self.nodes[node].broker.handle(now, input) {
            if node == HOME {
                self.effects += 1;
                if self.crash_at == Some(self.effects) {
                    return self.crash();
                }
            }
            self.perform(node, effect);
        }
        self.check();
    }

    fn perform(&mut self, node: usize, effect: Effect) {
        let us = &mut self.nodes[node];
        match effect {
            Effect::Persist(record) => drop(us.records.insert(record.key(), record)),
            Effect::Forget(key) => drop(us.records.remove(&key)),
            Effect::Send { to, message } => {
                let to = self.nodes.iter().position(|node| node.config.cluster() == to).unwrap();
                self.wire.push_back((to, message));
            }
            Effect::Publish { header, body } => {
                let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
                let header = header.open(trust, self.now()).unwrap();
                let ad = Ad::assemble(&header, &OpenedBody::open(&body.0).unwrap()).unwrap();
                self.nodes[HOME].local.push_back(Input::Ad(Box::new(ad)));
            }
            Effect::Lease(lease) => {
                let id = lease.contract.id;
                match (lease.side, lease.desired) {
                    (Side::Consumer, Desired::Open) => us.local.push_back(Input::Usable(id)),
                    (Side::Consumer, Desired::Drained) => {
                        self.shown.remove(&id.into());
                        let of_it = self.pods.values_mut().filter(|it| it.on == Some(id.into()));
                        for pod in of_it {
                            (pod.on, pod.since_ms) = (None, self.now_ms);
                        }
                        us.local.push_back(Input::CleanedUp(id));
                    }
                    (Side::Provider, Desired::Drained) => us.local.push_back(Input::CleanedUp(id)),
                    _ => {}
                }
            }
            Effect::Burst(news) => self.news.push(*news),
            Effect::Withdraw(_) | Effect::Reply(..) => {}
        }
    }

    /// Home's daemon dies, and starts again from its disk. The cluster says again what it is.
    pub(crate) fn crash(&mut self) {
        self.crash_at = None;
        let us = &mut self.nodes[HOME];
        us.restarts += 1;
        let records = us.records.values().cloned();
        us.broker = Broker::restore(us.config.clone(), 100 + us.restarts, records);
        us.local.clear();
        self.input(HOME, Input::Tick);
        for n in 1..self.nodes.len() {
            // They say their offers again; a new one stands for that.
            let share = self.nodes[n].share.clone();
            self.command(n, Command::Share(None));
            self.command(n, Command::Share(share));
        }
    }

    /// Pods are made of which each asks for so much.
    pub(crate) fn pods(&mut self, namespace: &str, count: usize, cpu_millis: u64) {
        let (to, since_ms, namespace) = (NodeChoice::any(), self.now_ms, namespace.to_owned());
        let pod = Pod { namespace, cpu_millis, since_ms, to, on: None };
        let first = self.pods.len();
        self.pods.extend((first..first + count).map(|n| (format!("{n:04}"), pod.clone())));
    }

    fn deliver(&mut self, to: usize, message: &Signed<Message>) {
        let trust = Trust { federation: FederationId::lan(), signers: Signers::Known(&self.known) };
        let opened = message.open(trust, self.now()).unwrap();
        let from = self.nodes.iter().find(|it| it.config.cluster() == opened.from).unwrap();
        if !from.is_dead {
            self.input(to, Input::Message(Box::new(opened)));
        }
    }

    /// What is said arrives, and clusters report, until nobody has anything to say.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            if let Some((to, message)) = self.wire.pop_front() {
                self.deliver(to, &message);
                continue;
            }
            let next = (0..self.nodes.len()).find(|n| !self.nodes[*n].local.is_empty());
            let Some(node) = next else { return };
            let input = self.nodes[node].local.pop_front().unwrap();
            if let Input::Usable(id) = input {
                self.shown.insert(id.into());
            }
            self.input(node, input);
        }
        panic!("they never stop talking");
    }

    /// Time passes, second by second.
    pub(crate) fn run(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.schedule();
            self.settle();
            self.now_ms += 1_000;
            for node in 0..self.nodes.len() {
                let wakeup = self.nodes[node].broker.wakeup();
                if wakeup.is_some_and(|deadline| deadline.is_due(self.now())) {
                    self.input(node, Input::Tick);
                }
            }
            self.settle();
        }
        self.schedule();
        self.settle();
    }

    pub(crate) fn running(&self) -> Vec<&Deal> {
        let deals = self.nodes[HOME].broker.deals();
        deals.filter(|deal| burst_of(deal).is_some() && deal.end().is_none()).collect()
    }

    pub(crate) fn bought(&self) -> Vec<&Deal> {
        let deals = self.nodes[HOME].broker.deals();
        let mut all: Vec<&Deal> =
            deals.filter(|deal| burst_of(deal).is_some() && deal.lease().is_some()).collect();
        all.sort_by_key(|deal| deal.agreement().unwrap().contract.not_before_ms);
        all
    }

    pub(crate) fn bound(&self) -> usize {
        self.pods.values().filter(|pod| pod.on.is_some()).count()
    }

    pub(crate) fn words(&self) -> BTreeSet<BurstWord> {
        self.news.iter().map(|news| news.word).collect()
    }

    /// The sum of what is marked never exceeds what the owner allows.
    fn check(&self) {
        let home = &self.nodes[HOME].broker;
        let Some(now) = mercato_broker::bursts_now(home) else { return };
        let (most, bought) = (&now.policy.most, &now.bought);
        assert!(most.checked_sub(bought).is_ok(), "{bought:?} is bought, {most:?} allowed");
    }
}

pub(crate) fn asked(cpu_millis: u64) -> Resources {
    Resources { cpu_millis, memory_bytes: 64 << 20, pods: 1, ..Resources::default() }
}
