//! `mercato run`: from settings to a daemon, until a signal.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use mercato_agent::Joined;
use mercato_config::Settings;
use mercato_config::Switch;
use mercato_config::admin_port::{ADMIN_PORT, AdminPort};
use mercato_config::settings::Health;
use mercato_discovery::{Address, Host, PublicAddress, Transport};
use mercato_kubelet::daemon_lease::{self, Holder};
use mercato_kubelet::names::DAEMON_NAMESPACE;
use mercato_net::Listen;
use mercato_protocol::join::JoinToken;
use mercato_protocol::resources::Resources;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use super::portable::RECORDS;
use super::unopened::unopened;
use super::{Daemon, Plan, identity::Identity};
use crate::admin::{
    self, Announced, Attention, AttentionKind, Class, Invitation, OperatorApi, Problem,
};
use crate::driver;
use crate::kubernetes::Kubernetes;
use crate::kubernetes::real::{Certificates, Real, name_servers};
use crate::kubernetes::simulated::Simulated;
use crate::resources::Defaults;
use crate::store;
use crate::telemetry::{self, Metrics};
use crate::tunnel::{GatewaySettings, NamesSettings, NodesSettings};

/// Where peers connect unless the owner says otherwise.
pub(crate) const PORT: u16 = 7474;
/// Where health and metrics are to be had.
pub(crate) const HEALTH_PORT: u16 = 7476;

/// What a command line adds to the settings.
pub(crate) struct Options {
    pub(crate) data_dir: PathBuf,
    /// In the place of a Kubernetes cluster, one that is simulated, of that size.
    pub(crate) simulated: Option<Resources>,
    /// A federation to join, and whether its fingerprint was compared.
    pub(crate) join: Option<(Invitation, bool)>,
}

/// Runs a daemon until it is told to end.
pub(crate) async fn run(settings: Settings, options: Options) -> anyhow::Result<()> {
    let Options { data_dir, simulated, join } = options;
    // What is wrong is said before anything is made.
    let (listen, public) = (listen(&settings.listen)?, public(&settings.public_addresses)?);
    settings.peers.iter().try_for_each(|peer| driver::entry(peer).map(drop))?;
    let name = settings.name.clone().unwrap_or_else(machine_name);
    store::check(&data_dir.join(RECORDS)).map_err(unopened)?;
    let identity = Identity::open(&data_dir, &name).map_err(|error| unusable(&data_dir, error))?;
    if settings.name.is_some() && identity.name() != name {
        let (kept, said) = (identity.name(), &name);
        // Once at the start.
        tracing::warn!(%kept, %said, "a cluster keeps the name of its first start");
    }
    let mut config = identity.config();
    config.jurisdiction = settings.jurisdiction.clone();
    config.region = settings.region.clone();
    config.carbon_g_per_kwh = settings.carbon;
    if let Some(interval) = settings.metering_interval {
        config.metering_interval_s = u32::try_from(interval.0).unwrap_or(u32::MAX);
    }
    let mut off = Vec::new();
    let metrics = Metrics::new();
    let gateway = gateway(&settings, simulated.is_some());
    let kubernetes = cluster(&settings, simulated, &data_dir, &name, &metrics, &mut off).await;
    if settings.lan == Switch::Off {
        let text = "the local network is not searched: turned off";
        off.push(Attention::of(AttentionKind::LanOff, text));
    }
    let restart = Arc::new(Notify::new());
    let plan = Plan {
        listen,
        public,
        peers: settings.peers.clone(),
        lan: settings.lan == Switch::On,
        dns: settings.dns,
        data_dir,
        identity,
        config,
        gateway,
        kubernetes,
        admin_port: admin_port(settings.kubernetes.admin_port),
        health: health(settings.health),
        metrics,
        off,
        restart: Some(restart.clone()),
        defaults: Defaults {
            share: settings.share.as_ref().map(mercato_config::Share::policy),
            buy: settings.buy.as_ref().map(mercato_config::Buy::policy),
        },
    };
    let (cluster, life) = (plan.config.cluster(), shows_life(&plan));
    let mut end = signal(SignalKind::terminate())?;
    let daemon = Daemon::start(plan).await?;
    let life = tokio::spawn(life);
    for attention in daemon.api.status().await?.attention {
        // Once at the start.
        tracing::warn!("{attention}");
    }
    tracing::info!(name, cluster = %cluster.short(), "running");
    if let Some((invitation, compared)) = join {
        enter(&*daemon.api, &invitation, compared).await?;
    }
    let again = told(&mut end, &restart).await?;
    tracing::info!("stopping: the offer is withdrawn, leases run on");
    daemon.stop().await;
    life.abort();
    if again { Err(start_again()) } else { Ok(()) }
}

/// Waits until it is to end; whether it is to start again.
async fn told(end: &mut Signal, restart: &Notify) -> std::io::Result<bool> {
    tokio::select! {
        _ = end.recv() => Ok(false),
        ended = tokio::signal::ctrl_c() => ended.map(|()| false),
        () = restart.notified() => Ok(true),
    }
}

/// Renews the daemon's Lease in its cluster, for ever, once that answers.
fn shows_life(plan: &Plan) -> impl Future<Output = ()> + use<> {
    let (daemon, name) = (plan.config.cluster().to_string(), plan.identity.name().to_owned());
    let kubernetes = plan.kubernetes.clone();
    async move {
        let Some(kubernetes) = kubernetes else { return };
        // In a simulated one nobody looks.
        let Some(cluster) = kubernetes.resources().await else { return };
        let of = kubernetes.uid().unwrap_or_default();
        daemon_lease::keep(cluster, Holder { daemon, name, cluster: of }).await;
    }
}

/// Why the data folder cannot be used, and what to do.
fn unusable(data_dir: &Path, error: anyhow::Error) -> anyhow::Error {
    if error.is::<Problem>() {
        return error;
    }
    let causes = error.chain().map(ToString::to_string).collect();
    let what = format!("the data folder {} cannot be used: {error:#}", data_dir.display());
    let problem = Problem { causes, ..Problem::failed(what) };
    let is_of_disk = error.root_cause().is::<std::io::Error>();
    let todo = "choose one that this user can write: --data-dir DIR";
    anyhow::Error::new(if is_of_disk { problem.todo(todo) } else { problem })
}

/// Becomes the same program anew, as the same process: whoever watches over it sees no end.
/// Comes back only with the reason why it could not.
fn start_again() -> anyhow::Error {
    let mut args = std::env::args_os();
    let mut program = Command::new("/proc/self/exe");
    if let Some(name) = args.next() {
        program.arg0(name);
    }
    anyhow::Error::new(program.args(args).exec()).context("the daemon cannot start again")
}

/// Joins a federation, unless that was done at an earlier start.
async fn enter(
    api: &dyn OperatorApi,
    invitation: &Invitation,
    compared: bool,
) -> Result<(), Problem> {
    let joined = api.federations().await?;
    let accept = |announced: &Announced| match compared {
        true => Ok(()),
        false => Err(Problem::new(Class::Usage, format!("{} is not joined yet", announced.name))
            .todo(format!("fingerprint: {}", announced.id))
            .todo("compare the fingerprint with its operator's first, then name it:")
            .todo(format!("mercato run --join {}@FINGERPRINT", announced.domain))),
    };
    let id = match invitation {
        Invitation::Token(text) => {
            let token = text.parse::<JoinToken>().ok();
            let belongs = |one: &Joined| {
                let federation = token.as_ref().map(|token| token.federation);
                Some(one.id) == federation && one.until_ms.is_some()
            };
            if joined.iter().any(belongs) {
                return Ok(());
            }
            admin::join(api, invitation, accept).await?
        }
        Invitation::Domain { name, fingerprint } => match api.lookup(name.clone()).await {
            Ok(announced) => admin::go_by(api, announced, *fingerprint, accept).await?,
            Err(problem) if joined.iter().any(|one| admin::is_by(one, name)) => {
                // Once at the start.
                tracing::warn!(%problem, "the federation is known from an earlier start");
                return Ok(());
            }
            Err(problem) => return Err(problem),
        },
    };
    tracing::info!(federation = %id.short(), "joined");
    Ok(())
}

async fn cluster(
    settings: &Settings,
    simulated: Option<Resources>,
    data_dir: &Path,
    name: &str,
    metrics: &Metrics,
    off: &mut Vec<Attention>,
) -> Option<Arc<dyn Kubernetes>> {
    if let Some(size) = simulated {
        return Some(Arc::new(Simulated::start(name, size)));
    }
    if settings.kubernetes.enabled == Switch::Off {
        let text = "no cluster to share from or to buy for: Kubernetes is turned off";
        off.push(Attention::of(AttentionKind::ClusterOff, text));
        return None;
    }
    let nodes = settings.gateway.nodes.clone();
    let certificates = Certificates::kept_in(data_dir);
    match Real::start(&settings.kubernetes, nodes, metrics.clone(), certificates).await {
        Ok(real) => Some(Arc::new(real)),
        Err(error) => {
            let text = format!("no cluster to share from or to buy for: {error:#}");
            off.push(Attention::of(AttentionKind::ClusterOff, text));
            None
        }
    }
}

/// The gateway, if the owner has turned it on and the cluster is one that packets reach.
fn gateway(settings: &Settings, is_simulated: bool) -> Option<GatewaySettings> {
    let mercato_config::gateway::Gateway { enabled, port, addresses, pool, pool_v6, nodes } =
        &settings.gateway;
    let nodes = NodesSettings {
        port: nodes.port.get(),
        overlay_port: nodes.overlay_port.get(),
        vni: nodes.vni.get(),
        gate: nodes.gate_port.get(),
        has_gate: nodes.image.is_some(),
    };
    let (port, addresses) = (port.get(), addresses.clone());
    let kubernetes = &settings.kubernetes;
    let names = NamesSettings { servers: name_servers(&kubernetes.guests) };
    let (pool, pool_v6) = (*pool, *pool_v6);
    let settings = GatewaySettings { port, addresses, pool, pool_v6, nodes, names };
    (*enabled == Switch::On && !is_simulated).then_some(settings)
}

/// Where health and metrics are to be had: for this machine alone unless the owner says
/// otherwise.
fn health(configured: Health) -> Option<telemetry::At> {
    let usual = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), HEALTH_PORT);
    match configured {
        Health::Usual => Some(telemetry::At { address: usual, required: false }),
        Health::At(address) => Some(telemetry::At { address, required: true }),
        Health::Off => None,
    }
}

/// Where the cluster's people are answered: in a pod of the chart, unless the owner says otherwise.
fn admin_port(configured: AdminPort) -> Option<u16> {
    match configured {
        AdminPort::Usual => {
            let namespace = std::fs::read_to_string(POD_NAMESPACE).unwrap_or_default();
            (namespace.trim() == DAEMON_NAMESPACE).then_some(ADMIN_PORT.get())
        }
        AdminPort::At(port) => Some(port.get()),
        AdminPort::Off => None,
    }
}

/// What each pod with an account has: the name of its namespace.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Both transports on every address of the owner's; otherwise on all interfaces.
fn listen(configured: &[String]) -> Result<Vec<Listen>, Problem> {
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT);
    let mut wanted = Vec::new();
    for text in configured {
        let address: SocketAddr = text.parse().map_err(|_| {
            Problem::new(Class::Usage, format!("listen {text:?} is no address"))
                .todo("write IP:PORT, for example 0.0.0.0:7474")
        })?;
        wanted.push((address, true));
    }
    if wanted.is_empty() {
        wanted.push((any, false));
    }
    let both = |(address, required): (SocketAddr, bool)| {
        [Transport::Quic, Transport::Tcp].map(|transport| Listen {
            address: Address { host: Host::Ip(address.ip()), port: address.port(), transport },
            required,
        })
    };
    Ok(wanted.into_iter().flat_map(both).collect())
}

/// Where others are told to connect.
fn public(configured: &[String]) -> Result<Vec<PublicAddress>, Problem> {
    let parse = |text: &String| {
        text.parse().map_err(|error| {
            Problem::new(Class::Usage, format!("public address {text:?}: {error}"))
                .todo("write HOST or HOST:PORT, for example 203.0.113.7 or hub.example:7474")
        })
    };
    configured.iter().map(parse).collect()
}

fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().split('.').next().unwrap_or_default();
    if name.is_empty() { "cluster".to_owned() } else { name.to_owned() }
}
