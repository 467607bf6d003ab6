//! The boundary over a real cluster: the kubelet room, one task for each lease.

mod guest;
mod home;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use mercato_broker::{Inventory, PoolInventory, Side};
use mercato_config::settings;
use mercato_kubelet::offload_namespace::{
    OptIn, OptIns, Reach, Strategy, Webhook, opt_in, opt_out,
};
use mercato_kubelet::stream::{self, Opened, Refused};
use mercato_kubelet::{Account, Cluster, inventory, rights};
use mercato_protocol::stream::Request;

use super::{Kubernetes, LeaseTask};
use crate::admin::{self, Offload};

/// A cluster, with the daemon's own account on it. Clones are the same.
#[derive(Clone)]
pub(crate) struct Real(Arc<Shared>);

struct Shared {
    cluster: Cluster,
    account: Account,
    /// The API server's address.
    server: String,
    version: String,
    /// Where the API server reaches this daemon.
    address: IpAddr,
    opt_ins: OptIns,
}

impl Real {
    /// Connects to the cluster that the settings, the environment or the pod name. Also
    /// tells which rights are missing: a line each.
    pub(crate) async fn connect(
        settings: &settings::Kubernetes,
    ) -> anyhow::Result<(Self, Vec<String>)> {
        let config = config(settings.kubeconfig.as_deref(), settings.context.clone()).await?;
        let server = config.cluster_url.to_string();
        let host =
            config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = config.cluster_url.port_u16().unwrap_or(443);
        let cluster = Cluster::new(kube::Client::try_from(config)?);
        let version =
            cluster.version().await.with_context(|| format!("{server} does not answer"))?;
        let account = Account::ask(&cluster).await.context("the account is not known")?;
        let missing =
            rights::missing(&cluster).await.context("the account's rights are not known")?;
        let missing = missing
            .iter()
            .map(|one| format!("no right to {}: {}", one.right, one.purpose))
            .collect();
        let address = address_towards(&host, port)
            .with_context(|| format!("no address from which {server} is reached"))?;
        let at = SocketAddr::new(address, 0);
        let webhook = Webhook::serve(at, Reach::Address(at)).await?;
        let opt_ins = OptIns::start(cluster.clone(), account.clone(), Some(webhook));
        let shared = Shared { cluster, account, server, version, address, opt_ins };
        Ok((Self(Arc::new(shared)), missing))
    }
}

async fn config(path: Option<&Path>, context: Option<String>) -> anyhow::Result<kube::Config> {
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    match path {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)?;
            Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?)
        }
        None if options.context.is_some() => Ok(kube::Config::from_kubeconfig(&options).await?),
        None => kube::Config::infer().await.map_err(|error| {
            let hint = "neither a kubeconfig nor a pod's account is found";
            anyhow::Error::new(error).context(hint)
        }),
    }
}

/// The address from which packets to the API server leave; nothing is sent.
fn address_towards(host: &str, port: u16) -> std::io::Result<IpAddr> {
    let any = if host.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect((host, port))?;
    Ok(socket.local_addr()?.ip())
}

impl Kubernetes for Real {
    fn describe(&self) -> String {
        format!("{} ({}), as {}", self.0.server, self.0.version, self.0.account.user)
    }

    fn inventory(&self) -> BoxStream<'static, Inventory> {
        let pool = |pool: inventory::Pool| PoolInventory {
            platform: pool.platform,
            allocatable: pool.allocatable,
            requested: pool.requested,
            largest_pod: pool.largest_pod,
            gpus: pool.gpus,
        };
        let all = inventory::watch(&self.0.cluster);
        all.map(move |all| Inventory { pools: all.pools.into_iter().map(pool).collect() }).boxed()
    }

    /// There is no gateway yet that could enforce it, and a CNI is not taken at its word.
    fn isolates(&self) -> bool {
        false
    }

    fn follow(&self, task: LeaseTask) -> BoxFuture<'static, ()> {
        let shared = self.0.clone();
        match task.desire.side {
            Side::Consumer => home::follow(shared, task).boxed(),
            Side::Provider => guest::follow(shared, task).boxed(),
        }
    }

    fn offload(&self, offload: Offload) -> BoxFuture<'static, Result<(), String>> {
        let strategy = match offload.strategy {
            admin::Strategy::Local => Strategy::Local,
            admin::Strategy::Remote => Strategy::Remote,
            admin::Strategy::Both => Strategy::Both,
        };
        let how = OptIn { strategy, api_access: offload.api_access };
        let done = opt_in(&self.0.cluster, &offload.namespace, how);
        done.map(|done| done.map_err(|failure| failure.to_string())).boxed()
    }

    fn unoffload(&self, namespace: String) -> BoxFuture<'static, Result<(), String>> {
        let done = opt_out(&self.0.cluster, &namespace);
        done.map(|done| done.map_err(|failure| failure.to_string())).boxed()
    }

    fn open(
        &self,
        namespace: String,
        pod: String,
        request: Request,
    ) -> BoxFuture<'static, Result<Opened, Refused>> {
        stream::open_on_cluster(&self.0.cluster, &namespace, &pod, request)
    }
}
