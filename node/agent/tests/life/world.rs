//! Two daemons in virtual time: what a driver does around the agent, crashes included.

mod step_back;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use mercato_agent::{
    Agent, BrokerInput, Config, Effect, Gate, Input, LeaseInput, Notice, Records, TunnelInput, Work,
};
use mercato_broker::{Command, Refusal, Reply};
use mercato_discovery::{DialFailure, Report, Sighting, SightingId, Source};
use mercato_gossip::{Interner, Opened};
use mercato_offload::home;
use mercato_offload::key::PodId;
use mercato_protocol::envelope::{KeyPair, Signed, Signers, Trust};
use mercato_protocol::id::{ClusterId, ContractId, FederationId, PublicKey};
use mercato_protocol::identity::{ClusterIdentity, Identity};
use mercato_protocol::negotiation::Message;
use mercato_protocol::time::Now;

use crate::cluster::Cluster;

const START_MS: u64 = 1_800_000_000_000;

pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) agent: Agent,
    gate: Gate,
    pub(crate) cluster: Cluster,
    /// Commands that wait for their answer.
    pub(crate) asked: BTreeMap<u64, Command>,
    pub(crate) replies: Vec<Result<Reply, Refusal>>,
    pub(crate) notices: Vec<Notice>,
    /// Effects and writes so far.
    pub(crate) steps: usize,
    /// After so many the daemon crashes, once.
    pub(crate) crash_at: Option<usize>,
    /// From this step on so many writes fail.
    pub(crate) fail_at: Option<usize>,
    /// After so many an input is refused, and whether leases had a part in it.
    pub(crate) refuse_at: Option<(usize, bool)>,
    life: u64,
}

impl Node {
    /// What is on disk.
    pub(crate) fn records(&self) -> &Records {
        self.gate.records()
    }
}

/// An input on its way to a node, of the life in which it was caused.
struct Coming {
    node: usize,
    input: Input,
    life: u64,
    /// Through the link, if so.
    link: Option<u64>,
}

pub(crate) struct World {
    pub(crate) now_ms: u64,
    pub(crate) nodes: [Node; 2],
    coming: BTreeMap<(u64, u64), Coming>,
    count: u64,
    /// Of the connection that is up.
    link: Option<u64>,
    /// Who has said something of which lease, and is not done.
    pub(crate) speaks: BTreeSet<(usize, ContractId)>,
    /// By whom what was said in negotiations, and whether once.
    pub(crate) said: Vec<(usize, Signed<Message>, bool)>,
}

/// An agent that numbers keys for itself.
pub(crate) fn restore(
    config: Config,
    seed: [u8; 32],
    records: &Records,
    degraded: Option<String>,
) -> Agent {
    Agent::restore(config, seed, Interner::new(1), records, degraded)
}

impl World {
    pub(crate) fn new() -> Self {
        let node = |seed: u8, name: &str| {
            let key = Arc::new(KeyPair::from_seed(&[seed; 32]));
            let identity = Identity::found(&key, name, at(0)).unwrap();
            let config = Config { metering_interval_s: 30, ..Config::new(key, identity) };
            Node {
                agent: restore(config.clone(), [seed; 32], &Records::default(), None),
                config,
                gate: Gate::default(),
                cluster: Cluster::default(),
                asked: BTreeMap::new(),
                replies: Vec::new(),
                notices: Vec::new(),
                steps: 0,
                crash_at: None,
                fail_at: None,
                refuse_at: None,
                life: 0,
            }
        };
        let nodes = [node(1, "Rome"), node(2, "turin")];
        let mut world = Self {
            now_ms: 1,
            nodes,
            coming: BTreeMap::new(),
            count: 0,
            link: None,
            speaks: BTreeSet::new(),
            said: Vec::new(),
        };
        (0..2).for_each(|node| world.begin(node));
        world
    }

    fn begin(&mut self, node: usize) {
        self.list(node);
        greeting().into_iter().for_each(|input| self.tell(node, input));
        if self.link.is_some() {
            self.connected(node, true);
        }
    }

    /// The owner lists the other.
    pub(crate) fn list(&mut self, node: usize) {
        let other = self.key(1 - node);
        self.see(node, Source::List, other.to_string(), other);
    }

    fn see(&mut self, node: usize, source: Source, instance: String, peer: PublicKey) {
        let id = SightingId { source, instance };
        let addresses = vec!["/ip4/192.0.2.1/tcp/7474".parse().unwrap()];
        let sighting = Sighting { id, peer: Some(peer), addresses };
        self.tell(node, Input::Sighted(Report::Seen(sighting)));
    }

    /// Thousands say where they are, of whom no dial reaches any.
    pub(crate) fn crowd(&mut self, node: usize) {
        for n in 0..4_000u16 {
            let mut key = [9; 32];
            key[..2].copy_from_slice(&n.to_be_bytes());
            self.see(node, Source::Peer(PublicKey(key)), String::new(), PublicKey(key));
        }
    }

    /// It sees the other no more.
    pub(crate) fn lose_sight(&mut self, node: usize) {
        let other = self.key(1 - node);
        let ids = [(Source::List, other.to_string()), (Source::Peer(other), String::new())];
        for (source, instance) in ids {
            let id = SightingId { source, instance };
            self.tell(node, Input::Sighted(Report::Gone(id)));
        }
    }

    /// The connection breaks.
    pub(crate) fn part(&mut self) {
        self.link = None;
        for node in 0..2 {
            self.tell(node, Input::Disconnected(self.key(1 - node)));
        }
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    pub(crate) fn cluster_id(&self, node: usize) -> ClusterId {
        self.nodes[node].config.cluster()
    }

    pub(crate) fn key(&self, node: usize) -> PublicKey {
        self.nodes[node].config.key.public()
    }

    pub(crate) fn owner(&self, node: usize) -> ClusterIdentity {
        self.nodes[node].config.identity.open_identity(at(self.now_ms)).unwrap()
    }

    fn come(&mut self, node: usize, input: Input, link: Option<u64>) {
        let life = self.nodes[node].life;
        self.count += 1;
        self.coming.insert((self.now_ms + 1, self.count), Coming { node, input, life, link });
    }

    pub(crate) fn tell(&mut self, node: usize, input: Input) {
        self.come(node, input, None);
    }

    pub(crate) fn command(&mut self, node: usize, command: Command) {
        self.count += 1;
        let number = self.count;
        self.nodes[node].asked.insert(number, command.clone());
        self.tell(node, Input::Broker(BrokerInput::Command(number, Box::new(command))));
    }

    /// Lets so much time pass.
    pub(crate) fn pass(&mut self, ms: u64) {
        let until_ms = self.now_ms + ms;
        while self.now_ms < until_ms {
            self.step();
        }
    }

    /// Lets the next thing happen.
    pub(crate) fn step(&mut self) {
        let wakes = (0..2).filter_map(|node| {
            let deadline = self.nodes[node].agent.wakeup()?;
            Some((self.now_ms + deadline.remaining_ms(at(self.now_ms)), node))
        });
        let wake = wakes.min();
        let arrival = self.coming.first_key_value().map(|((at_ms, _), _)| *at_ms);
        match (arrival, wake) {
            (Some(at_ms), wake) if wake.is_none_or(|(wake_ms, _)| at_ms <= wake_ms) => {
                self.now_ms = self.now_ms.max(at_ms);
                let (_, coming) = self.coming.pop_first().unwrap();
                let current = self.nodes[coming.node].life == coming.life;
                if current && (coming.link.is_none() || coming.link == self.link) {
                    self.handle(coming.node, coming.input);
                }
            }
            (_, Some((at_ms, node))) => {
                self.now_ms = self.now_ms.max(at_ms);
                self.handle(node, Input::Tick);
            }
            (_, None) => panic!("nothing will ever happen"),
        }
    }

    fn handle(&mut self, node: usize, input: Input) {
        let now = at(self.now_ms);
        let this = &mut self.nodes[node];
        let answer = this.agent.handle(now, input);
        this.gate.pass(answer).unwrap();
        loop {
            let released = self.nodes[node].gate.release();
            let this = &mut self.nodes[node];
            if let Some(effect) = released {
                self.perform(node, effect);
            } else if let Some(changes) = this.gate.write() {
                assert_eq!(this.agent.degraded(), None, "{changes:?}");
                if this.fail_at.is_some_and(|step| this.steps >= step) {
                    this.gate.failed();
                    this.fail_at = None;
                    return self.restart(node, Some("the disk is full".into()));
                }
                this.gate.written();
            } else if this.refuse_at.is_some_and(|(step, _)| this.steps >= step) {
                return self.step_back(node);
            } else {
                return;
            }
            self.nodes[node].steps += 1;
            if self.nodes[node].crash_at == Some(self.nodes[node].steps) {
                return self.crash(node);
            }
        }
    }

    /// The daemon is gone with all that it had not written, and starts again.
    fn crash(&mut self, node: usize) {
        let this = &mut self.nodes[node];
        this.gate = Gate::new(this.gate.records().clone());
        if self.link.take().is_some() {
            let gone = self.key(node);
            self.tell(1 - node, Input::Disconnected(gone));
        }
        self.restart(node, None);
    }

    /// The agent is rebuilt from what is on disk; connections stay.
    pub(crate) fn restart(&mut self, node: usize, degraded: Option<String>) {
        let this = &mut self.nodes[node];
        this.life += 1;
        this.asked.clear();
        let seed = [u8::try_from(this.life % 200).unwrap(); 32];
        let config = this.config.clone();
        this.agent = restore(config, seed, this.gate.records(), degraded);
        this.cluster.unfollow();
        self.begin(node);
    }

    fn connected(&mut self, node: usize, dialled: bool) {
        let peer = self.owner(1 - node);
        self.come(node, Input::Connected { peer, dialled }, self.link);
    }

    fn is_silent(&mut self, node: usize, contract: ContractId) -> Vec<Input> {
        self.speaks.remove(&(node, contract));
        vec![]
    }

    fn perform(&mut self, node: usize, effect: Effect) {
        let (lan, now) = (FederationId::lan(), at(self.now_ms));
        let other = 1 - node;
        let [me, there] = [node, other].map(|it| self.key(it));
        let this = &mut self.nodes[node];
        let inputs = match effect {
            Effect::Persist(_) => unreachable!("the gate keeps it"),
            Effect::Dial { attempt, peer, .. } if peer != Some(there) => {
                vec![Input::Dialled { attempt, result: Err(DialFailure::Unreachable) }]
            }
            Effect::Dial { attempt, .. } => {
                if self.link.is_none() {
                    self.count += 1;
                    self.link = Some(self.count);
                    self.connected(node, true);
                    self.connected(other, false);
                }
                vec![Input::Dialled { attempt, result: Ok(there) }]
            }
            Effect::Gossip { peer, message } => {
                assert_eq!(peer, there);
                let message = Opened::open(message, lan, now);
                self.come(other, Input::Gossip { peer: me, message }, self.link);
                vec![]
            }
            Effect::Negotiation { message, once, .. } => {
                self.said.push((node, message.clone(), once));
                let keys = BTreeMap::from([(me, this.config.cluster())]);
                let trust = Trust { federation: lan, signers: Signers::Known(&keys) };
                let message = message.open(trust, now).unwrap();
                self.come(other, Input::Broker(BrokerInput::Message(Box::new(message))), self.link);
                vec![]
            }
            Effect::Workload { contract, frame, .. } => {
                self.speaks.insert((node, contract));
                let input = Input::Lease(contract, LeaseInput::Frame { peer: me, frame });
                self.come(other, input, self.link);
                vec![]
            }
            Effect::Lease(desire) => this.cluster.follow(*desire),
            Effect::Forget(_) => {
                this.cluster.unfollow();
                vec![]
            }
            Effect::CloseStreams(of) => self.is_silent(node, of),
            Effect::Work(contract, Work::Home(work)) => this.cluster.at_home(contract, work),
            Effect::Work(contract, Work::Guest(work)) => this.cluster.at_provider(contract, work),
            Effect::Carry(contract, pod, address) => carried(contract, pod, address),
            Effect::Map(contract, of) => this.cluster.map(contract, of),
            Effect::Unmap(_, pod) => this.cluster.unmap(&pod),
            Effect::OwnRanges(own) => this.cluster.name_own(own),
            Effect::Reply(number, reply) => {
                this.asked.remove(&number);
                this.replies.push(reply);
                vec![]
            }
            Effect::Notice(notice) => {
                this.notices.push(notice);
                vec![]
            }
            Effect::Block(..)
            | Effect::HangUp(_)
            | Effect::Refuse(..)
            | Effect::Ranks(_)
            | Effect::Rank(..)
            | Effect::CarrySecond(..)
            | Effect::Federation(..)
            | Effect::Join { .. }
            | Effect::Introduce => vec![],
        };
        inputs.into_iter().for_each(|input| self.tell(node, input));
    }
}

/// What every daemon hears at its start.
pub(crate) fn greeting() -> Vec<Input> {
    let range = |text: &str| text.parse().unwrap();
    vec![
        Input::Broker(BrokerInput::Addresses(vec!["/ip4/192.0.2.1/tcp/7474".into()])),
        Input::Broker(BrokerInput::Isolation(true)),
        Input::Tunnel(TunnelInput::Pool(Some(range("10.200.0.0/13")))),
        Input::Tunnel(TunnelInput::Own([range("10.42.0.0/24")].into())),
        Input::Broker(BrokerInput::Inventory(crate::story::inventory())),
    ]
}

/// Home's gateway does what it is asked at once.
fn carried(contract: ContractId, pod: PodId, address: IpAddr) -> Vec<Input> {
    vec![Input::Lease(contract, LeaseInput::Home(home::Input::Carried(pod, address, true)))]
}

pub(crate) fn at(ms: u64) -> Now {
    Now { mono_ms: ms, wall_ms: START_MS + ms }
}
