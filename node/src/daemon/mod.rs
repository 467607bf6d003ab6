//! A daemon: driver, network, sources of sightings, cluster and admin socket, put
//! together, and taken apart in good order. `mercato run` starts one, the demo two.

pub(crate) mod identity;
mod partners;
mod pods;
pub(crate) mod portable;
mod run;
mod unopened;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use futures::{FutureExt as _, StreamExt as _};
use mercato_agent::{BrokerInput, Config, Input};
use mercato_broker::Command;
use mercato_discovery::{Address, PublicAddress, Report, Sighting, Transport};
use mercato_net::{Limits, Listen, Names, Net, NetConfig, StartError};
use mercato_sources::{DEFAULT_SKIPPED, Dns, Lan, LanConfig};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::admin::{
    Attention, AttentionKind, Event, EventKind, NoTunnels, OperatorApi, Problem, Server, Tunnels,
};
use crate::desk::{self, Standing};
use crate::driver::{self, About, Domains, Driver, Handle, LeaseTunnels, OperatorService, Parts};
use crate::kubernetes::Kubernetes;
use crate::limits;
use crate::resources::{self, Defaults, Ruled};
use crate::store::Disk;
use crate::telemetry::{self, Metrics};
use crate::tunnel::{self, Before, GatewaySettings};
use identity::Identity;
use partners::Partners;
use unopened::unopened;

pub(crate) use run::{HEALTH_PORT, Options, PORT, run};

/// What a daemon is to be.
pub(crate) struct Plan {
    pub(crate) data_dir: PathBuf,
    pub(crate) identity: Identity,
    /// What this cluster says of itself; its key and identity are those of `identity`.
    pub(crate) config: Config,
    pub(crate) listen: Vec<Listen>,
    /// Where the owner says that others reach us; empty: wherever we listen.
    pub(crate) public: Vec<PublicAddress>,
    /// Entries of the owner's list.
    pub(crate) peers: Vec<String>,
    /// Whether peers are searched for on the local network.
    pub(crate) lan: bool,
    /// The name server that is asked for federations and their peers; none: the system's.
    pub(crate) dns: Option<SocketAddr>,
    pub(crate) kubernetes: Option<Arc<dyn Kubernetes>>,
    /// Where the cluster's people are answered, on the loopback; none: nowhere.
    pub(crate) admin_port: Option<u16>,
    /// The gateway of the tunnels; none: there are no tunnels.
    pub(crate) gateway: Option<GatewaySettings>,
    /// Where health and metrics are to be had, if anywhere.
    pub(crate) health: Option<telemetry::At>,
    pub(crate) metrics: Metrics,
    /// What is off, and why.
    pub(crate) off: Vec<Attention>,
    /// What the owner's configuration shares and buys.
    pub(crate) defaults: Defaults,
    /// Told when the daemon is to start again; none: nobody would do it.
    pub(crate) restart: Option<Arc<Notify>>,
}

/// Why the network does not start, and what to do.
fn unstarted(error: StartError) -> anyhow::Error {
    match &error {
        StartError::Keys(_) => error.into(),
        StartError::Listen { source, .. } => {
            let what = format!("{error}: {source}");
            let todo =
                "listen on an address of this machine, at a port that is free: --listen IP:PORT";
            anyhow::Error::new(Problem::failed(what).todo(todo).because(&error))
        }
    }
}

/// A daemon that runs in this process.
pub(crate) struct Daemon {
    pub(crate) api: Arc<dyn OperatorApi>,
    pub(crate) driver: Handle,
    lan: Option<Lan>,
    /// Tasks that end with the daemon.
    tasks: JoinSet<()>,
    _server: Server,
    _health: Option<telemetry::Server>,
}

impl Daemon {
    /// Starts it. Must run within a tokio runtime of several threads.
    pub(crate) async fn start(plan: Plan) -> anyhow::Result<Self> {
        let Plan { data_dir, identity, config, listen, peers, lan, dns, kubernetes, .. } = plan;
        let (mut off, metrics) = (plan.off, plan.metrics);
        let peers: Vec<_> =
            peers.iter().map(|peer| driver::entry(peer)).collect::<Result<_, _>>()?;
        let listed = peers.iter().flat_map(|seen| seen.addresses.clone()).collect();
        let usual_port = listen.iter().find(|at| !at.required).map(|at| at.address.port);
        let store = Disk::open(&data_dir.join(portable::RECORDS)).map_err(unopened)?;
        let dns = dns.map(Dns::at);
        let mut net = NetConfig::new(*identity.seed(), listen, Limits::default());
        (net.public, net.hidden) = (plan.public, plan.gateway.as_ref().map(|it| it.pool));
        net.names = dns.iter().flatten().next().cloned().map_or(net.names, names_at);
        let (net, events) = Net::start(net).map_err(unstarted)?;
        let (name, key) = (identity.name().to_owned(), config.key.public());
        let (tunnels, before) =
            tunnels(plan.gateway, kubernetes.is_some(), &config, &data_dir, &mut off);
        let parts = Parts {
            tunnels: tunnels.clone(),
            config,
            store: Box::new(store),
            net: net.clone(),
            kubernetes: kubernetes.clone(),
            metrics,
        };
        let driver = driver::start(parts).await;
        let driver = driver.context("the records of this cluster cannot be read")?;
        if driver.look(|driver| driver.agent().degraded().is_none()).await? {
            identity.settle().context("the data folder cannot be written")?;
        }
        let mut tasks = JoinSet::new();
        let seen = before.as_ref().map(Before::seen);
        if let Some(cluster) = &kubernetes {
            tell_enforced(&driver, cluster.as_ref()).await;
        }
        if let (Some(before), Some(cluster)) = (before, &kubernetes) {
            tasks.spawn(before.begin(driver.clone(), cluster.clone()).await.keep());
        }
        tasks.spawn(driver::peers::inbound::listen(driver.clone(), events, tunnels));
        seek(&driver, peers, &data_dir, &mut tasks).await;
        if let Some(cluster) = &kubernetes {
            tasks.spawn(tell_market(driver.clone(), cluster.clone()));
        }
        let lan = if lan { search_lan(&driver, key, &mut tasks, &mut off).await } else { None };
        let seen = seen.unwrap_or_else(|| Arc::new(NoTunnels));
        let health = health(plan.health, &driver, &kubernetes, &seen).await?;
        let socket = data_dir.join("admin.sock");
        let at = health.as_ref().map(|server| server.address().to_string());
        let started = started(&name);
        let (restart, tunnels, desk) = (plan.restart, seen, Standing::default());
        let standing = desk.clone();
        let about =
            About { name, data_dir, health: at, usual_port, listed, off, tunnels, desk, restart };
        let ruling = Arc::new(watch::Sender::default());
        let domains = Domains::new(dns.unwrap_or_else(Dns::system));
        domains.follow(&driver).await?;
        let (cluster, rules) = (kubernetes.clone(), ruling.subscribe());
        let service = OperatorService::open(driver.clone(), about, domains, cluster, rules);
        let (unruled, api) = Ruled::over(service, ruling.subscribe());
        settle(&driver, &plan.defaults).await?;
        driver.say(started);
        if let Some(cluster) = kubernetes {
            let (defaults, driver, api) = (plan.defaults, driver.clone(), api.clone());
            tasks.spawn(tell_driver(driver.clone(), cluster.clone()));
            tasks.spawn(desk::serve(cluster.clone(), plan.admin_port, api.clone(), standing));
            tasks.spawn(resources::serve(cluster, driver, unruled, defaults, ruling));
        }
        let server = Server::start(&socket, api.clone())
            .with_context(|| format!("the admin socket {} cannot be opened", socket.display()))?;
        Ok(Self { api, driver, lan, tasks, _server: server, _health: health })
    }

    /// Withdraws the advertisement, leaves the network and ends. Leases run on.
    pub(crate) async fn stop(mut self) {
        if let Some(lan) = self.lan.take() {
            lan.stop().await;
        }
        self.driver.stop().await;
        self.tasks.abort_all();
    }
}

fn started(name: &str) -> Event {
    let text = format!("{name} has started (mercato {})", env!("CARGO_PKG_VERSION"));
    Event::of(EventKind::DaemonStarted, text)
}

async fn health(
    at: Option<telemetry::At>,
    driver: &Handle,
    kubernetes: &Option<Arc<dyn Kubernetes>>,
    tunnels: &Arc<dyn Tunnels>,
) -> anyhow::Result<Option<telemetry::Server>> {
    let Some(at) = at else { return Ok(None) };
    let (cluster, tunnels) = (kubernetes.clone(), tunnels.clone());
    let server = telemetry::Server::start(at, driver.clone(), cluster, tunnels).await;
    let why = || format!("health and metrics cannot be had at {}", at.address);
    Ok(Some(server.with_context(why)?))
}

type TunnelParts = (Option<Arc<dyn LeaseTunnels>>, Option<Before>);

/// The way to the tunnels' task, and the task before it begins; neither where there is to be none.
fn tunnels(
    gateway: Option<GatewaySettings>,
    has_cluster: bool,
    config: &Config,
    data_dir: &Path,
    off: &mut Vec<Attention>,
) -> TunnelParts {
    let Some(gateway) = gateway.filter(|_| has_cluster) else { return (None, None) };
    let parts = tunnel::Parts { config: config.clone(), data_dir, gateway };
    match tunnel::start(parts) {
        Ok((tunnels, before)) => (Some(Arc::new(tunnels)), Some(before)),
        // All else goes on, on a disk that cannot be written, too.
        Err(error) => {
            off.push(Attention::tunnel_off(&format!("{error:#}")));
            (None, None)
        }
    }
}

/// The owner's name server finds the hosts that it names, too.
fn names_at(dns: Dns) -> Names {
    Arc::new(move |name| {
        let dns = dns.clone();
        async move { dns.addresses(&name).await.map_err(std::io::Error::other) }.boxed()
    })
}

/// What the configuration shares, if nothing was said before; what may be bought, always.
async fn settle(driver: &Handle, defaults: &Defaults) -> anyhow::Result<()> {
    let now = |driver: &Driver| {
        let broker = driver.agent().broker();
        (broker.share().cloned(), broker.buy().cloned())
    };
    let (shared, buys) = driver.look(now).await?;
    if let (Some(share), None) = (&defaults.share, shared) {
        let answer = driver.command(Command::Share(Some(share.clone()))).await?;
        answer.context("what the configuration shares cannot be shared")?;
    }
    if defaults.buy != buys {
        let answer = driver.command(Command::Buy(defaults.buy.clone())).await?;
        answer.context("nothing can be bought as the configuration says")?;
    }
    Ok(())
}

/// Where we listen, once that is known for both transports; it may never be.
async fn listening(driver: &Handle) -> Vec<Address> {
    let mut local = Vec::new();
    for _ in 0..limits::LISTEN_LOOKS {
        local = driver.net().local_addresses();
        let on = |transport| local.iter().any(|address| address.transport == transport);
        if on(Transport::Quic) && on(Transport::Tcp) {
            break;
        }
        tokio::time::sleep(limits::LISTEN_LOOK).await;
    }
    local
}

/// Tells what is wrong in the cluster, and which addresses are its pods'.
async fn tell_driver(driver: Handle, cluster: Arc<dyn Kubernetes>) {
    tokio::join!(tell_trouble(driver.clone(), cluster.clone()), hide_pods(driver, cluster));
}

/// Of addresses of this cluster's pods nobody is told.
async fn hide_pods(driver: Handle, cluster: Arc<dyn Kubernetes>) {
    listening(&driver).await;
    pods::hide(driver, cluster).await;
}

/// Tells what guests can be kept to there: nothing is sold that depends on it before that is known.
async fn tell_enforced(driver: &Handle, cluster: &dyn Kubernetes) {
    let enforced = [
        BrokerInput::Isolation(cluster.isolates()),
        BrokerInput::Egress(cluster.enforces_egress()),
    ];
    for input in enforced {
        driver.tell(Input::Broker(input)).await;
    }
}

/// Tells what the cluster has, and which of its pods find no room.
async fn tell_market(driver: Handle, cluster: Arc<dyn Kubernetes>) {
    tokio::join!(tell_inventory(driver.clone(), cluster.clone()), tell_pending(driver, cluster));
}

async fn tell_inventory(driver: Handle, cluster: Arc<dyn Kubernetes>) {
    let mut inventory = cluster.inventory();
    while let Some(inventory) = inventory.next().await {
        driver.tell(Input::Broker(BrokerInput::Inventory(inventory))).await;
    }
}

async fn tell_pending(driver: Handle, cluster: Arc<dyn Kubernetes>) {
    let mut pending = cluster.pending();
    while let Some(demand) = pending.next().await {
        driver.tell(Input::Broker(BrokerInput::Pending(Box::new(demand)))).await;
    }
}

/// Tells of a cluster that does not answer any more, or does again.
async fn tell_trouble(driver: Handle, cluster: Arc<dyn Kubernetes>) {
    let mut before = false;
    loop {
        let trouble = cluster.trouble();
        match &trouble {
            Some(why) if !before => {
                let text = format!("the Kubernetes cluster does not answer: {why}");
                driver.say(Event::of(EventKind::ClusterUnreachable, text));
            }
            None if before => {
                let text = "the Kubernetes cluster answers again";
                driver.say(Event::of(EventKind::ClusterReachable, text));
            }
            Some(_) | None => {}
        }
        before = trouble.is_some();
        tokio::time::sleep(limits::CLUSTER_LOOK).await;
    }
}

/// Tells of the peers of the owner's list, and of those with whom there were leases before.
async fn seek(driver: &Handle, listed: Vec<Sighting>, data_dir: &Path, tasks: &mut JoinSet<()>) {
    let partners = Partners::open(data_dir);
    for sighting in listed.into_iter().chain(partners.sightings()) {
        driver.tell(Input::Sighted(Report::Seen(sighting))).await;
    }
    tasks.spawn(partners.keep(driver.clone()));
}

/// Announces us on the local network, at the ports that we got.
async fn search_lan(
    driver: &Handle,
    peer: mercato_protocol::id::PublicKey,
    tasks: &mut JoinSet<()>,
    off: &mut Vec<Attention>,
) -> Option<Lan> {
    let local = listening(driver).await;
    let port = |transport| {
        local.iter().find(|address| address.transport == transport).map(|address| address.port)
    };
    let config = LanConfig {
        peer,
        quic_port: port(Transport::Quic),
        tcp_port: port(Transport::Tcp),
        skip: DEFAULT_SKIPPED.map(str::to_owned).to_vec(),
    };
    match Lan::start(&config) {
        Ok((lan, mut reports)) => {
            let driver = driver.clone();
            tasks.spawn(async move {
                while let Some(report) = reports.recv().await {
                    driver.tell(Input::Sighted(report)).await;
                }
            });
            Some(lan)
        }
        Err(error) => {
            let text = format!("the local network is not searched: {error}");
            off.push(Attention::of(AttentionKind::LanOff, text));
            None
        }
    }
}
