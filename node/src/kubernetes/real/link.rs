//! The way to the API server: found with back-off when it does not answer at the start,
//! watched from then on. What is done over it goes on by itself once it answers again;
//! here it is known, and said, that it does not.

use std::error::Error;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use mercato_config::gateway::Nodes;
use mercato_config::settings;
use mercato_kubelet::guest::stored::ClusterStored;
use mercato_kubelet::guest::usage::Meters;
use mercato_kubelet::home::ClusterClaims;
use mercato_kubelet::home::node::{NodeNames, NodeNews};
use mercato_kubelet::offload_namespace::{Freed, OptIns, Reach, Webhook};
use mercato_kubelet::{Account, Cluster, Upkeep, diagnose, rights};
use mercato_offload::forge::Gate;
use mercato_offload::placement::export::Scope;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::certificates::Certificates;
use super::examine::called_like_ours;
use super::retry::Backoff;
use super::shared::Shared;
use super::{cluster_domain, name_servers};
use crate::limits;
use crate::telemetry::{Metrics, Requests};

/// How the API server is reached.
pub(super) struct Link {
    /// What is known since it first answered.
    pub(super) shared: Option<Arc<Shared>>,
    /// Why it does not answer now, if so.
    pub(super) trouble: Option<String>,
    /// Rights that the daemon's account lacks, a line each.
    pub(super) missing: Vec<String>,
    /// Nodes of others that are called as virtual ones are.
    pub(super) called_like_ours: Vec<String>,
}

impl Link {
    /// One that has not been tried.
    pub(super) fn to(server: &str) -> Self {
        let trouble = Some(format!("{server} has not answered yet"));
        Self { shared: None, trouble, missing: Vec::new(), called_like_ours: Vec::new() }
    }
}

/// Keeps `link` true, for ever. `first` is tried first; later
/// the settings are read again, since credentials change.
pub(super) async fn keep(
    first: anyhow::Result<kube::Config>,
    settings: settings::Kubernetes,
    nodes: Nodes,
    metrics: Metrics,
    certificates: Certificates,
    stored: ClusterStored,
    link: &watch::Sender<Link>,
) {
    let mut backoff = Backoff::default();
    let mut config = first;
    let shared = loop {
        let connected = match config {
            Ok(config) => connect(config, &settings, &nodes, &metrics, &certificates).await,
            Err(error) => Err(error),
        };
        match connected {
            Ok(shared) => break Arc::new(Shared { stored, ..shared }),
            Err(error) => tell_trouble(link, format!("{error:#}")),
        }
        backoff.wait().await;
        config = read(&settings).await;
    };
    tracing::info!(server = shared.server, version = shared.version, "the cluster answers");
    link.send_modify(|link| (link.shared, link.trouble) = (Some(shared.clone()), None));
    watch_over(&shared, link).await;
}

async fn watch_over(shared: &Shared, link: &watch::Sender<Link>) {
    let mut rights_at: Option<Instant> = None;
    loop {
        let stale = rights_at.is_none_or(|at| at.elapsed() >= limits::RIGHTS_LOOK);
        let looks = stale && (rights_at.is_none() || !link.borrow().called_like_ours.is_empty());
        if looks && let Ok(nodes) = diagnose::nodes_called_like_ours(&shared.cluster).await {
            tell_nodes(link, nodes);
        }
        if stale && (rights_at.is_none() || !link.borrow().missing.is_empty()) {
            if let Ok(missing) = rights::missing(&shared.cluster).await {
                tell_missing(link, &missing);
            }
            rights_at = Some(Instant::now());
        }
        sleep(limits::CLUSTER_LOOK).await;
        match shared.cluster.version().await {
            Ok(_) if link.borrow().trouble.is_some() => {
                tracing::info!(server = shared.server, "the cluster answers again");
                link.send_modify(|link| link.trouble = None);
            }
            Ok(_) => {}
            Err(failure) => tell_trouble(link, format!("{}: {failure}", silent(&shared.server))),
        }
    }
}

/// The CA of the certificate that the API server shows the webhook, if one is asked for.
async fn webhook_client_ca(settings: &settings::Kubernetes) -> anyhow::Result<Option<String>> {
    let Some(file) = &settings.webhook_client_ca else { return Ok(None) };
    let read = tokio::fs::read_to_string(file).await;
    let read = read
        .with_context(|| format!("kubernetes.webhookClientCa: {} cannot be read", file.display()));
    read.map(Some)
}

fn silent(server: &str) -> String {
    format!("{server} does not answer")
}

/// Each reason is logged once, until it changes.
fn tell_trouble(link: &watch::Sender<Link>, why: String) {
    link.send_if_modified(|link| {
        let news = link.trouble.as_ref() != Some(&why);
        if news {
            // Once for each reason.
            tracing::warn!(why, "no cluster for now; it is tried again");
        }
        link.trouble = Some(why);
        news
    });
}

fn tell_nodes(link: &watch::Sender<Link>, nodes: Vec<String>) {
    link.send_if_modified(|link| {
        let news = link.called_like_ours != nodes;
        if news {
            // Once until it is another list.
            nodes.iter().for_each(|name| tracing::warn!("{}", called_like_ours(name)));
        }
        link.called_like_ours = nodes;
        news
    });
}

fn tell_missing(link: &watch::Sender<Link>, missing: &[rights::Missing]) {
    let line = |one: &rights::Missing| format!("no right to {}: {}", one.right, one.purpose);
    let missing: Vec<String> = missing.iter().map(line).collect();
    link.send_if_modified(|link| {
        let news = link.missing != missing;
        if news {
            // Once until it is another list.
            missing.iter().for_each(|line| tracing::warn!("{line}"));
        }
        link.missing = missing;
        news
    });
}

/// Makes the acquaintance of the cluster.
async fn connect(
    config: kube::Config,
    settings: &settings::Kubernetes,
    nodes: &Nodes,
    metrics: &Metrics,
    certificates: &Certificates,
) -> anyhow::Result<Shared> {
    let server = config.cluster_url.to_string();
    let host = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = config.cluster_url.port_u16().unwrap_or(443);
    let client = ClientBuilder::try_from(config.clone())?;
    let client = client.with_layer(&Requests(metrics.clone())).build();
    let cluster = Cluster::new(client).reached_by(config);
    let version = cluster.version().await.with_context(|| silent(&server))?;
    let account = Account::ask(&cluster).await.context("the account is not known")?;
    let uid = match cluster.uid().await {
        Ok(uid) => Some(uid),
        Err(failure) if failure.is_transient() => return Err(failure).context("kube-system"),
        // It is among the rights that are missing.
        Err(_) => None,
    };
    let address = match settings.address {
        Some(address) => address,
        None => address_towards(&host, port)
            .with_context(|| format!("no address from which {server} is reached"))?,
    };
    let scope = match settings.offload {
        settings::Offload::Chosen => Scope::Labelled,
        settings::Offload::All => Scope::All,
    };
    let webhook = webhook(cluster.clone(), settings, address).await?;
    let kept = Upkeep::start(cluster.clone());
    let (account_of, keeper) = (account.clone(), kept.clone());
    let opt_ins = OptIns::start(cluster.clone(), account_of, Some(webhook), scope, keeper);
    let (meters, claims_of) = (Meters::new(cluster.clone()), cluster.clone());
    let domain = cluster_domain::of_cluster(&cluster, settings).await?;
    let has_login = !nodes.image_pull_secrets.is_empty();
    let gate = Gate { image: nodes.image.clone(), port: nodes.gate_port, has_login };
    Ok(Shared {
        node_news: Arc::new(NodeNews::new(kept.clone())),
        node_names: NodeNames::default(),
        leavers: Arc::default(),
        kept,
        cluster,
        account,
        server,
        host: (host, port),
        version,
        uid,
        address,
        certificates: certificates.clone(),
        audiences: settings.token_audiences.clone(),
        name_servers: name_servers::of_guests(&settings.guests),
        domain,
        user_namespaces: settings.guests.user_namespaces,
        gate,
        logins: nodes.image_pull_secrets.clone(),
        scope,
        claims: Arc::new(ClusterClaims::new(claims_of, opt_ins.known())),
        opt_ins,
        freed: Freed::default(),
        sold: watch::Sender::default(),
        bindings: watch::Sender::default(),
        left_out: watch::Sender::default(),
        storage_class: watch::Sender::default(),
        zones: watch::Sender::default(),
        spot: tokio::sync::Mutex::default(),
        serving: std::sync::Mutex::default(),
        unmade: std::sync::Mutex::default(),
        strays: std::sync::Mutex::default(),
        meters,
        stored: ClusterStored::default(),
    })
}

/// The webhook, served at the address: at its port, or at a free one.
async fn webhook(
    cluster: Cluster,
    settings: &settings::Kubernetes,
    address: IpAddr,
) -> anyhow::Result<Webhook> {
    let settings::Kubernetes { webhook, .. } = settings;
    let at = SocketAddr::new(address, webhook.port.map_or(0, NonZeroU16::get));
    let reach = match &webhook.service {
        Some(service) => Reach::Service {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            port: service.port.get(),
        },
        None => Reach::Address(at),
    };
    let served = Webhook::serve(cluster, at, reach, webhook_client_ca(settings).await?).await;
    served.with_context(|| match webhook.port {
        Some(port) => format!("the webhook cannot be served at {address}, port {port}"),
        None => "the webhook cannot be served".to_owned(),
    })
}

/// What a person calls the cluster that the settings or the environment name, which may
/// not be there yet. None if they leave it to what is found.
pub(super) fn named(settings: &settings::Kubernetes) -> Option<String> {
    let files = || std::env::var_os("KUBECONFIG").filter(|files| !files.is_empty());
    match (&settings.kubeconfig, &settings.context) {
        (Some(path), _) => Some(format!("the cluster of {}", path.display())),
        (None, Some(context)) => Some(format!("the cluster of the context {context}")),
        (None, None) => files().map(|files| format!("the cluster of {}", files.display())),
    }
}

/// The cluster that the settings, the environment or the pod name.
pub(super) async fn read(settings: &settings::Kubernetes) -> anyhow::Result<kube::Config> {
    let context = settings.context.clone();
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let mut config = match settings.kubeconfig.as_deref() {
        Some(path) => from_file(path, &options).await?,
        None if options.context.is_some() => {
            kube::Config::from_kubeconfig(&options).await.map_err(|error| told(&error))?
        }
        None => kube::Config::infer().await.map_err(|error| {
            let hint = "neither a kubeconfig nor a pod's account is found";
            told(error.source().unwrap_or(&error)).context(hint)
        })?,
    };
    // Audit logs tell programs apart by it.
    config.headers.push((USER_AGENT, HeaderValue::from_static(limits::SOFTWARE)));
    Ok(config)
}

async fn from_file(path: &Path, options: &KubeConfigOptions) -> anyhow::Result<kube::Config> {
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| told(&error))?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, options).await;
    config.map_err(|error| told(&error).context(format!("the kubeconfig {}", path.display())))
}

/// What an error of kube's says, which has the words of its causes already.
fn told(error: &(dyn Error + 'static)) -> anyhow::Error {
    if let Some(KubeconfigError::ReadConfig(why, path)) = error.downcast_ref() {
        return anyhow::anyhow!("the kubeconfig {} cannot be read: {why}", path.display());
    }
    anyhow::anyhow!("{error}")
}

/// The address from which packets to the API server leave; nothing is sent.
fn address_towards(host: &str, port: u16) -> std::io::Result<IpAddr> {
    let any = if host.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect((host, port))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Real;
    use super::*;
    use crate::kubernetes::Kubernetes as _;

    const NOBODY: &str = r#"{ "clusters": [{ "name": "c", "cluster": { "server": "https://127.0.0.1:1" } }],
        "users": [], "contexts": [{ "name": "c", "context": { "cluster": "c" } }], "current-context": "c" }"#;

    #[tokio::test]
    async fn a_kubeconfig_that_comes_later_is_taken_up() {
        // Another test may have been first.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("later");
        let settings =
            settings::Kubernetes { kubeconfig: Some(file.clone()), ..Default::default() };
        let real =
            Real::start(&settings, Nodes::default(), Metrics::new(), Certificates::approved_here())
                .await
                .unwrap();
        let says = async |words: &str| {
            let mut link = real.link.clone();
            let says = |link: &Link| link.trouble.as_ref().is_some_and(|why| why.contains(words));
            let waited = tokio::time::timeout(Duration::from_secs(30), link.wait_for(says)).await;
            waited.unwrap().unwrap().trouble.clone().unwrap()
        };
        let why = says("cannot be read").await;
        assert_eq!(why.matches("No such file").count(), 1, "{why}");
        assert!(real.describe().contains(&file.display().to_string()), "{}", real.describe());
        std::fs::write(&file, NOBODY).unwrap();
        says("https://127.0.0.1:1/ does not answer").await;
    }
}
