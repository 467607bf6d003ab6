//! The one place with a clock: owns the agent, feeds it, keeps its records, and has its
//! effects performed once they may be seen.
//!
//! What the effects come to is in `effects`; what peers say comes in through `peers`; a
//! lease's work in a cluster is that of [`crate::kubernetes`].

pub(crate) mod clock;
mod effects;
mod handle;
mod operator;
#[cfg(test)]
mod oversized;
pub(crate) mod peers;
mod queues;
mod rebuild;
pub(crate) mod records;
mod rules;
#[cfg(test)]
mod tests;
mod tunnels;
pub(crate) mod workload;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mercato_agent::{
    Agent, Ahead, Answer, Ask, BrokerInput, Config, FederationInput, Gate, Input, Records,
};
use mercato_broker::{Broker, Command, Refusal, Reply, shared};
use mercato_discovery::Address;
use mercato_gossip::Interner;
use mercato_kubelet::{AllBodies, Repeated};
use mercato_net::{Net, Session};
use mercato_offload::placement::spec::TunnelWord;
use mercato_protocol::id::{ContractId, PublicKey};
use mercato_protocol::resources::Resource;
use mercato_protocol::time::Now;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::admin::Event;
use crate::kubernetes::{Kubernetes, LeaseHandle};
use crate::limits;
use crate::store::{Store, StoreError};
use crate::telemetry::Metrics;
use clock::Clock;
use operator::told::Told;
use rules::Rules;
use workload::outbound::Outbound;
use world::World;

pub(crate) use handle::Gone;
pub(crate) use operator::domains::Domains;
pub(crate) use operator::{About, OperatorService, entry};
pub(crate) use peers::streams::Streams;
pub(crate) use tunnels::LeaseTunnels;

/// What a daemon is made of.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) store: Box<dyn Store>,
    pub(crate) net: Net,
    pub(crate) kubernetes: Option<Arc<dyn Kubernetes>>,
    pub(crate) metrics: Metrics,
    /// The way to the tunnels' task; none: this daemon has none.
    pub(crate) tunnels: Option<Arc<dyn LeaseTunnels>>,
}

/// What reaches the driver by its handle.
pub(crate) enum Message {
    Input(Input),
    /// The network has met a peer.
    Met(PublicKey, Session),
    /// Void once that session with the peer is over.
    In(PublicKey, Session, Input),
    /// To be answered once all that comes of it is on disk; dropped, if that fails.
    Word(Input, oneshot::Sender<()>),
    Command(Command, oneshot::Sender<Result<Reply, Refusal>>),
    Ask(Ask, oneshot::Sender<Answer>),
    Look(Box<dyn FnOnce(&Driver) + Send>),
    Stop(oneshot::Sender<()>),
}

/// The way to the driver. Clones are the same.
#[derive(Clone)]
pub(crate) struct Handle {
    messages: mpsc::Sender<Message>,
    /// The events, for the journal and whoever listens.
    told: broadcast::Sender<Event>,
    /// A peer has connected, or a lease has begun.
    begun: watch::Sender<()>,
    net: Net,
    metrics: Metrics,
    us: Arc<Us>,
}

/// Who we are, as it is said to peers.
struct Us {
    config: Config,
    /// How far the clocks of those who are connected were ahead of ours, in ms.
    ahead: Mutex<BTreeMap<PublicKey, i64>>,
}

/// The agent and all that it takes to do what it wants.
pub(crate) struct Driver {
    config: Config,
    agent: Agent,
    gate: Gate,
    store: Box<dyn Store>,
    clock: Clock,
    net: Net,
    kubernetes: Option<Arc<dyn Kubernetes>>,
    tunnels: Option<Arc<dyn LeaseTunnels>>,
    handle: Handle,
    leases: BTreeMap<ContractId, LeaseHandle>,
    /// The memory that what crosses takes, under all leases.
    bodies: AllBodies,
    outbound: BTreeMap<ContractId, Outbound>,
    replies: BTreeMap<u64, oneshot::Sender<Result<Reply, Refusal>>>,
    /// Who waits for an answer about the federation.
    askers: BTreeMap<u64, oneshot::Sender<Answer>>,
    asked: u64,
    world: World,
    /// With whom the network is connected.
    sessions: BTreeMap<PublicKey, Session>,
    /// Words whose consequences are not on disk yet.
    taken: Vec<oneshot::Sender<()>>,
    /// When writing is tried again, if it failed: monotonic milliseconds.
    retry_ms: Option<u64>,
    /// What people were told already.
    told: Told,
    /// Why it still fails, and what was too large to be kept.
    unwritable: Repeated,
    refused: Repeated,
    rules: Rules,
    /// The agent is ahead of its records: it goes on from them, once they are written.
    ahead: Option<Ahead>,
}

/// Starts the driver over the records of the store. Must run within a tokio runtime of
/// several threads.
pub(crate) async fn start(parts: Parts) -> Result<Handle, StoreError> {
    let (messages, received) = mpsc::channel(limits::INPUTS);
    let mut driver = Driver::new(parts, messages)?;
    // What its records imply is on disk before anything else.
    driver.feed(Input::Tick);
    driver.settle().await;
    let handle = driver.handle.clone();
    tokio::spawn(driver.run(received));
    Ok(handle)
}

/// The agent that these records tell of, alone in this process.
fn restore(config: &Config, records: &Records, degraded: Option<String>) -> Agent {
    let interner = Interner::new(rand::random());
    Agent::restore(config.clone(), rand::random(), interner, records, degraded)
}

/// Tells the cluster what its owner's word on it is now.
fn tell_cluster(cluster: &dyn Kubernetes, broker: &Broker) {
    if let Some(devices) = broker.devices() {
        cluster.tell_devices(devices);
    }
    let share = broker.share();
    let stores = share.filter(|share| share.amounts.contains_key(&Resource::Storage));
    cluster.tell_storage(stores.map(|share| &*share.storage));
    cluster.tell_bursts(broker.buy().and_then(|buy| buy.bursts.as_deref()));
    cluster.tell_stored(share.and_then(|share| share.objects), shared(broker));
}

impl Driver {
    fn new(parts: Parts, messages: mpsc::Sender<Message>) -> Result<Self, StoreError> {
        let Parts { config, store, net, kubernetes, metrics, tunnels } = parts;
        let (records, degraded) = (records::read(&*store)?, store.failure());
        let clock = Clock::start();
        let again_ms = clock.now().mono_ms + limits::STORE_RETRY_MS;
        let retry_ms = degraded.is_some().then_some(again_ms);
        Ok(Self {
            agent: restore(&config, &records, degraded),
            gate: Gate::new(records),
            store,
            clock,
            handle: Handle::new(messages, net.clone(), &config, metrics),
            config,
            net,
            kubernetes,
            tunnels,
            leases: BTreeMap::new(),
            bodies: AllBodies::default(),
            outbound: BTreeMap::new(),
            replies: BTreeMap::new(),
            askers: BTreeMap::new(),
            asked: 0,
            world: World::default(),
            sessions: BTreeMap::new(),
            taken: Vec::new(),
            retry_ms,
            told: Told::default(),
            unwritable: Repeated::default(),
            refused: Repeated::default(),
            rules: Rules::new(clock.now().mono_ms),
            ahead: None,
        })
    }

    async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        loop {
            let message = tokio::select! {
                message = messages.recv() => message,
                () = tokio::time::sleep(self.pause()) => Some(Message::Input(Input::Tick)),
            };
            let mut next = message;
            // Several answers are written as one group.
            for _ in 0..limits::GROUP {
                match next {
                    Some(Message::Stop(done)) => return self.stop(done).await,
                    Some(message) => self.take(message),
                    None => return,
                }
                if self.ahead.is_some() {
                    break;
                }
                match messages.try_recv() {
                    Ok(message) => next = Some(message),
                    Err(_) => break,
                }
            }
            self.settle().await;
            self.recover().await;
            self.rules.look(self.clock.now().mono_ms, self.agent.broker());
        }
    }

    fn pause(&self) -> Duration {
        let now = self.clock.now();
        let wakeup = self.agent.wakeup().map(|deadline| deadline.remaining_ms(now));
        let retry = self.retry_ms.map(|at_ms| at_ms.saturating_sub(now.mono_ms));
        let ms = wakeup.into_iter().chain(retry).min().unwrap_or(limits::IDLE_MS);
        Duration::from_millis(ms.min(limits::IDLE_MS))
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Input(input) => {
                self.feed(input);
            }
            Message::Met(peer, session) => drop(self.sessions.insert(peer, session)),
            Message::In(peer, session, input) => {
                if self.lasts(&peer, session) {
                    self.feed(input);
                }
            }
            Message::Word(word, taken) => {
                // Who said it hears no answer otherwise, and says it again.
                if self.agent.degraded().is_none() && self.feed(word) {
                    self.taken.push(taken);
                }
            }
            Message::Command(command, reply) => {
                self.asked += 1;
                self.replies.insert(self.asked, reply);
                self.feed(Input::Broker(BrokerInput::Command(self.asked, Box::new(command))));
            }
            Message::Ask(ask, reply) => {
                self.asked += 1;
                self.askers.insert(self.asked, reply);
                self.feed(Input::Federation(FederationInput::Ask(self.asked, ask)));
            }
            Message::Look(look) => look(self),
            // Taken by the loop.
            Message::Stop(_) => {}
        }
    }

    /// Whether all that comes of it can be kept.
    fn feed(&mut self, input: Input) -> bool {
        tracing::trace!(?input);
        self.world.note(&input);
        self.on_peer(&input);
        let mut asked = None;
        if let Input::Broker(BrokerInput::Command(number, _))
        | Input::Federation(FederationInput::Ask(number, _)) = &input
        {
            asked = Some(*number);
        }
        let began = Instant::now();
        let answer = self.agent.handle(self.clock.now(), input);
        self.handle.metrics().handled(began.elapsed());
        match self.gate.pass(answer) {
            Ok(()) => true,
            Err(ahead) => {
                self.refuse(asked, ahead);
                false
            }
        }
    }

    /// Writes what is to be written, and performs what may be seen.
    async fn settle(&mut self) {
        let mut rebuilt = false;
        loop {
            while let Some(effect) = self.gate.release() {
                self.perform(effect);
            }
            let Some(batch) = self.gate.write().map(records::batch) else {
                if let Some(ahead) = self.ahead.take() {
                    self.step_back(ahead);
                    continue;
                }
                if let Some(cluster) = &self.kubernetes {
                    tell_cluster(&**cluster, self.agent.broker());
                }
                for taken in self.taken.drain(..) {
                    // Whoever said it may have gone.
                    let _ = taken.send(());
                }
                return;
            };
            let began = Instant::now();
            let written = tokio::task::block_in_place(|| self.store.commit(&batch));
            self.handle.metrics().committed(written.is_ok(), began.elapsed());
            match written {
                Ok(_) => self.gate.written(),
                Err(error) if !rebuilt => {
                    rebuilt = true;
                    self.rebuild(Some(error.to_string()));
                }
                // What it wants to keep at once, told of the world again, waits for the
                // disk, and with it all that hangs on it: otherwise this had no end.
                Err(_) => {
                    self.gate.failed();
                }
            }
        }
    }

    /// Takes the advertisement back and leaves the network. Leases run on.
    async fn stop(&mut self, done: oneshot::Sender<()>) {
        self.asked += 1;
        self.feed(Input::Broker(BrokerInput::Command(self.asked, Box::new(Command::Stop))));
        self.settle().await;
        self.net.stop().await;
        // Whoever asked may have gone.
        let _ = done.send(());
    }

    /// The present, by both clocks.
    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    /// The agent, to look at.
    pub(crate) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Whether this session with a peer is not over.
    fn lasts(&self, peer: &PublicKey, session: Session) -> bool {
        self.sessions.get(peer) == Some(&session)
    }

    /// The part of a lease in this cluster, to look at.
    pub(crate) fn lease(&self, contract: &ContractId) -> Option<&LeaseHandle> {
        self.leases.get(contract)
    }

    /// The keys of the peers with which there are leases.
    pub(crate) fn partners(&self) -> BTreeSet<PublicKey> {
        self.leases.values().map(LeaseHandle::peer).collect()
    }

    /// Where those of them are met that are connected.
    pub(crate) fn met(&self) -> BTreeMap<PublicKey, Address> {
        let partners = self.partners().into_iter();
        partners.filter_map(|peer| Some((peer, self.net.listens_at(peer)?))).collect()
    }

    /// A lease's virtual node says so of its tunnel.
    pub(crate) fn set_tunnel(&self, contract: &ContractId, word: TunnelWord) {
        if let Some(lease) = self.leases.get(contract) {
            lease.set_tunnel(word);
        }
    }

    /// The records that are on disk.
    pub(crate) fn records(&self) -> &Records {
        self.gate.records()
    }

    /// The cluster, if there is one.
    pub(crate) fn kubernetes(&self) -> Option<Arc<dyn Kubernetes>> {
        self.kubernetes.clone()
    }
}
