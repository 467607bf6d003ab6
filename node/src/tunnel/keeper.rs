//! The task that keeps the gateway, the machine and each peer in step with leases and pods.

mod api;
mod egress;
mod gateway;
mod guests;
mod isolation;
mod losses;
mod mends;
mod names;
mod nodes;
mod own_machine;
mod second;
mod silence;
mod step;
mod unopened;
mod untold;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use mercato_agent::{Config, Input, TunnelInput, TunnelNews};
use mercato_machine::Marks;
use mercato_offload::key::Uid;
use mercato_offload::placement::export::Consent;
use mercato_protocol::id::{ClusterId, ContractId};
use tokio::sync::mpsc;
use tokio::task::block_in_place;

use self::api::OwnApi;
use self::egress::OwnEgress;
use self::guests::OwnGuests;
use self::losses::Losses;
use self::mends::Mends;
use self::names::OwnNames;
use self::own_machine::OwnMachine;
use self::silence::Silences;
use self::unopened::Unopened;
use self::untold::Untold;
use super::door::Door;
use super::end::End;
use super::event::Event;
use super::ground::Ground;
use super::machine::{self, GatewaySettings};
use super::nodes::{Nodes, PodNodes};
use super::peers::Peers;
use super::second::Second;
use super::secrets::Secrets;
use super::seen::Seen;
use super::words::{Heard, Said, TunnelHandle};
use crate::admin::Tunnels;
use crate::driver::Handle;
use crate::kubernetes::{Kubernetes, PodPlace};
use crate::limits;
use crate::nodes::control::NodeEvent;

/// All that the task knows and does.
pub(crate) struct Keeper {
    driver: Handle,
    config: Config,
    kubernetes: Arc<dyn Kubernetes>,
    ground: Ground,
    /// The agent knows of this pool.
    pool: Option<IpNet>,
    secrets: Arc<Secrets>,
    heard: Heard,
    seen: Arc<Seen>,
    events: mpsc::Receiver<Event>,
    tell: mpsc::Sender<Event>,
    peers: Peers,
    end: End,
    pods: Vec<PodPlace>,
    /// What the owners of home's namespaces have opened to guests elsewhere.
    consent: Consent,
    pod_nodes: PodNodes,
    knows_pods: bool,
    watches_pods: bool,
    nodes: Nodes,
    own_machine: OwnMachine,
    /// When this run of the daemon began.
    begun: Instant,
    door: Door,
    own_guests: OwnGuests,
    own_names: OwnNames,
    own_egress: OwnEgress,
    own_api: OwnApi,
    mends: Mends,
    untold: Untold,
    unopened: Unopened,
    /// Since when nodes are told that they need nothing any more.
    dismisses: Option<Instant>,
    /// The ranges of leases, as nodes are told of them.
    lease_ranges: BTreeMap<ContractId, Arc<Vec<IpNet>>>,
    node_events: mpsc::Receiver<NodeEvent>,
    watches_machines: bool,
    asks_network: bool,
    blocks: BTreeSet<IpNet>,
    ranges_told: BTreeMap<ClusterId, BTreeSet<IpNet>>,
    news: BTreeMap<ContractId, Told>,
    mapped: BTreeMap<(ContractId, Uid), Mapped>,
    second: Second,
    silences: Silences,
    losses: Losses,
}

/// What was told of a pod.
#[derive(Clone, Copy)]
struct Mapped {
    /// For which of the agent's words.
    said: u64,
    done: bool,
    /// By which address of IPv6 too.
    second: Option<IpAddr>,
}

/// What was told of the tunnel of a lease.
struct Told {
    /// For which of the agent's words.
    said: u64,
    news: TunnelNews,
    /// Why no packets pass, if so.
    why: Option<String>,
    at: Instant,
}

impl Told {
    /// Whether there is nothing to tell yet besides: a peer may give one reason after the other.
    fn holds(&self, news: TunnelNews, why: &Option<String>) -> bool {
        let is_another = self.why.is_some() && why.is_some();
        let is_early = is_another && self.at.elapsed() < limits::TUNNEL_PROBE;
        self.news == news && (self.why == *why || is_early)
    }
}

/// What the task is made of.
pub(crate) struct Parts<'a> {
    pub(crate) config: Config,
    pub(crate) data_dir: &'a Path,
    /// What the owner says of it.
    pub(crate) gateway: GatewaySettings,
}

/// Opens what is kept and finds out whether a gateway can run here; gives the way to the task, and
/// the task, which [`Keeper::keep`] starts.
pub(crate) fn start(parts: Parts<'_>) -> anyhow::Result<(TunnelHandle, Before)> {
    let Parts { config, data_dir, gateway: settings } = parts;
    let secrets = Secrets::open(data_dir, config.copied)?;
    let (tunnels, heard) = TunnelHandle::new(settings.api());
    let ground = Ground::look(settings, Marks::default());
    let seen = Arc::new(Seen::new(ground.own(None)));
    Ok((tunnels, Before { config, ground, secrets, heard, seen }))
}

/// The task before the driver is there.
pub(crate) struct Before {
    config: Config,
    ground: Ground,
    secrets: Secrets,
    heard: Heard,
    seen: Arc<Seen>,
}

impl Before {
    /// What people are to see of it.
    pub(crate) fn seen(&self) -> Arc<dyn Tunnels> {
        self.seen.clone()
    }

    /// The task of this driver, which has it from then on.
    pub(crate) async fn begin(self, driver: Handle, kubernetes: Arc<dyn Kubernetes>) -> Keeper {
        let Self { config, ground, secrets, heard, seen } = self;
        let (tell, events) = mpsc::channel(limits::TUNNEL_EVENTS);
        let (tell_node, node_events) = mpsc::channel(limits::TUNNEL_EVENTS);
        let (links, told) = sync_channel(limits::TUNNEL_EVENTS);
        let passed_on = tell.clone();
        // Ends with the task, whose end is the last sender's.
        std::thread::spawn(move || {
            while let Ok(event) = told.recv() {
                if passed_on.blocking_send(Event::Link(event)).is_err() {
                    return;
                }
            }
        });
        let pool = ground.pool();
        driver.tell(Input::Tunnel(TunnelInput::Pool(pool))).await;
        let secrets = Arc::new(secrets);
        let peers = Peers::new(&config, driver.clone(), secrets.clone(), tell.clone());
        let own_api = OwnApi::new(kubernetes.clone());
        let door = Door::new(kubernetes.clone(), secrets.clone(), tell.clone(), tell_node);
        Keeper {
            driver,
            config,
            kubernetes,
            ground,
            pool,
            secrets,
            heard,
            seen,
            events,
            tell,
            peers,
            end: End::new(Marks::default(), links),
            pods: Vec::new(),
            consent: Consent::default(),
            pod_nodes: PodNodes::new(),
            knows_pods: false,
            watches_pods: false,
            nodes: Nodes::default(),
            own_machine: OwnMachine::default(),
            begun: Instant::now(),
            door,
            own_guests: OwnGuests::default(),
            own_names: OwnNames::default(),
            own_egress: OwnEgress::default(),
            own_api,
            mends: Mends::default(),
            untold: Untold::default(),
            unopened: Unopened::default(),
            dismisses: None,
            lease_ranges: BTreeMap::new(),
            node_events,
            watches_machines: false,
            asks_network: false,
            blocks: BTreeSet::new(),
            ranges_told: BTreeMap::new(),
            news: BTreeMap::new(),
            mapped: BTreeMap::new(),
            second: Second::default(),
            silences: Silences::default(),
            losses: Losses::default(),
        }
    }
}

impl Keeper {
    /// Keeps everything in step until it is dropped.
    pub(crate) async fn keep(mut self) {
        self.begin();
        loop {
            let said = self.heard.now();
            self.step(&said).await;
            self.rest(Instant::now() + self.pause()).await;
        }
    }

    /// How long it is looked for what time alone changes no more.
    fn pause(&self) -> Duration {
        let is_idle = self.peers.iter().next().is_none() && self.end.key().is_none();
        let is_ready = self.pool.is_some() && self.nodes.is_known();
        let pause = match (is_idle && !self.own_guests.waits(), is_ready) {
            (false, _) => limits::TUNNEL_LOOK,
            (true, false) => limits::TUNNEL_PROBE,
            (true, true) => limits::TUNNEL_IDLE,
        };
        // Then nodes are waited for no longer.
        let gathers = limits::NODE_GATHER.saturating_sub(self.begun.elapsed());
        if gathers.is_zero() { pause } else { pause.min(gathers) }
    }

    /// Takes what happens until there is something to do, or until then.
    async fn rest(&mut self, until: Instant) {
        loop {
            tokio::select! {
                () = self.heard.more() => return,
                Some(asked) = self.heard.asks.recv() => {
                    return self.peers.on_asked(asked, &self.heard.now());
                }
                Some(event) = self.events.recv() => return self.on_event(event),
                Some(event) = self.node_events.recv() => if self.on_node(event) { return },
                () = tokio::time::sleep_until(until.into()) => return,
            }
        }
    }

    /// What a run before this one has left goes, unless a lease needs it.
    fn begin(&mut self) {
        let said = self.heard.now();
        let partners = said.partners();
        if let Err(error) = block_in_place(|| self.secrets.retain(&partners)) {
            // Once at the start.
            tracing::warn!("{error:#}");
        }
        if let Err(error) = block_in_place(|| machine::nobody_listens(self.end.marks())) {
            // Whoever may not do so has set nothing up either.
            tracing::debug!("whom guests reach on this machine is not known: {error:#}");
        }
        if self.pool.is_some() {
            if partners.is_empty() {
                self.end.clean();
            }
            self.watch_pods();
            self.watch_machines();
            match block_in_place(|| machine::nodes(self.end.marks())) {
                Ok(before) => self.nodes.remember(before),
                // What the gateway needs of the kernel fails likewise, and is said then.
                Err(error) => tracing::debug!("the way to nodes is not known: {error:#}"),
            }
            let had = block_in_place(|| machine::has_second(self.end.marks()));
            self.second.remember(!partners.is_empty() && had.unwrap_or_default());
        }
        self.ask_network();
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Answered { cluster, number, answer } => {
                self.peers.on_answered(cluster, number, answer);
            }
            Event::Link(event) => self.peers.on_link(event),
            Event::Pods(pods) => {
                self.pod_nodes = pod_nodes(&pods);
                self.second.learn(&pods);
                self.pods = pods;
                self.knows_pods = true;
            }
            Event::Machines(machines) => {
                self.own_machine.learn(machines);
                self.ask_network();
            }
            Event::Consent(consent) => self.consent = consent,
            // Whatever it is, it is looked at in the next step.
            Event::Guests => {}
            Event::Told(told) => self.door.on_told(told),
            Event::Network(network) => {
                self.asks_network = false;
                self.ground.take_network(network);
            }
        }
    }
}

/// On which node each pod is, by each of its addresses.
fn pod_nodes(pods: &[PodPlace]) -> PodNodes {
    let of = |pod: &PodPlace| [pod.address, pod.second].into_iter().flatten();
    pods.iter().flat_map(|pod| of(pod).map(|at| (at, pod.node.clone()))).collect()
}
