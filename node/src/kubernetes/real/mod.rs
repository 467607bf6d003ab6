//! A real cluster: does on it, with the daemon's own account, what the agent wants of a
//! lease's part in it. How it is done is `mercato-kubelet`'s, what to do is the agent's;
//! here is the life of a lease, a task for each.
//!
//! Everything is level-triggered, and found again by our labels after a restart.

mod at_home;
mod at_provider;
mod meaning;
mod retry;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use mercato_broker::{Inventory, PoolInventory, Side};
use mercato_config::settings::{self, Switch};
use mercato_kubelet::certificate::Serving;
use mercato_kubelet::offload_namespace::{
    Leave, OptIn, OptIns, Reach, Scope, Strategy, Webhook, opt_in, opt_out,
};
use mercato_kubelet::stream::{self, Opened, Refused};
use mercato_kubelet::usage::Meters;
use mercato_kubelet::{Account, Cluster, Failure, inventory, rights};
use mercato_protocol::id::ContractId;
use mercato_protocol::stream::{Request, Usage};
use mercato_protocol::workload::Uid;
use tokio::sync::watch;

use super::{Kubernetes, LeaseTask};
use crate::admin::{self, Offload};
use crate::limits;

/// A cluster, with the daemon's own account on it. Clones are the same.
#[derive(Clone)]
pub(crate) struct Real(Arc<Shared>);

struct Shared {
    cluster: Cluster,
    account: Account,
    /// The API server's address.
    server: String,
    version: String,
    /// Where kubelet APIs and the webhook listen, and the API server finds them. It is the
    /// pods' hostIP.
    address: IpAddr,
    /// Whether the daemon approves its virtual nodes' certificate requests.
    approve_serving: bool,
    /// Virtual nodes are there for all pods.
    scope: Scope,
    opt_ins: OptIns,
    /// Contracts whose guests need the priority class of spot ones.
    spot: tokio::sync::Mutex<BTreeSet<ContractId>>,
    /// Certificates by virtual node.
    serving: Mutex<BTreeMap<String, watch::Receiver<Serving>>>,
    meters: Meters,
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
        let address = match settings.address {
            Some(address) => address,
            None => address_towards(&host, port)
                .with_context(|| format!("no address from which {server} is reached"))?,
        };
        let scope = match settings.offload {
            settings::Offload::Chosen => Scope::Labelled,
            settings::Offload::All => Scope::All,
        };
        let at = SocketAddr::new(address, 0);
        let webhook = Webhook::serve(at, Reach::Address(at)).await?;
        let opt_ins = OptIns::start(cluster.clone(), account.clone(), Some(webhook), scope);
        let approve_serving = settings.approve_serving == Switch::On;
        let meters = Meters::new(cluster.clone());
        let shared = Shared {
            cluster,
            account,
            server,
            version,
            address,
            approve_serving,
            scope,
            opt_ins,
            spot: tokio::sync::Mutex::default(),
            serving: Mutex::default(),
            meters,
        };
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
        let side = task.desire.borrow().side;
        match side {
            Side::Consumer => at_home::follow(self.0.clone(), task),
            Side::Provider => at_provider::follow(self.0.clone(), task),
        }
    }

    fn offload(&self, offload: Offload) -> BoxFuture<'static, Result<(), String>> {
        let strategy = match offload.strategy {
            admin::Strategy::Local => Strategy::Local,
            admin::Strategy::Remote => Strategy::Remote,
            admin::Strategy::Both => Strategy::Both,
        };
        let how = OptIn { strategy, api_access: offload.api_access };
        let marked = opt_in(&self.0.cluster, &offload.namespace, how);
        self.marked(offload.namespace, Some(how), marked)
    }

    fn unoffload(&self, namespace: String) -> BoxFuture<'static, Result<(), String>> {
        if self.0.scope == Scope::All {
            let hint = format!(
                "the configuration lets all namespaces leave: \
                mercato offload {namespace} --strategy local"
            );
            return async move { Err(hint) }.boxed();
        }
        let marked = opt_out(&self.0.cluster, &namespace);
        self.marked(namespace, None, marked)
    }

    fn attention(&self) -> Vec<String> {
        self.0.serving().iter().filter_map(waiting).collect()
    }

    fn open(
        &self,
        namespace: String,
        pod: String,
        request: Request,
    ) -> BoxFuture<'static, Result<Opened, Refused>> {
        stream::open_on_cluster(&self.0.cluster, &namespace, &pod, request)
    }

    fn usage(
        &self,
        contract: ContractId,
        namespaces: Vec<String>,
        after: Option<Uid>,
    ) -> BoxFuture<'static, Result<Usage, Refused>> {
        self.0.meters.page(contract, namespaces, after)
    }
}

impl Real {
    /// Waits until a namespace that was marked is followed as it was marked.
    fn marked(
        &self,
        namespace: String,
        how: Option<OptIn>,
        marked: impl Future<Output = Result<(), Failure>> + Send + 'static,
    ) -> BoxFuture<'static, Result<(), String>> {
        let mut known = self.0.opt_ins.known();
        let wanted = how.map_or(Leave::Never, Leave::Now);
        async move {
            marked.await.map_err(|failure| failure.to_string())?;
            let holds = known.wait_for(|known| {
                known.as_ref().is_some_and(|known| known.leave(&namespace) == wanted)
            });
            match tokio::time::timeout(limits::OPT_IN, holds).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(_)) | Err(_) => {
                    Err(format!("namespace {namespace} is marked, and not ready yet"))
                }
            }
        }
        .boxed()
    }
}

impl Shared {
    fn serving(&self) -> MutexGuard<'_, BTreeMap<String, watch::Receiver<Serving>>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a person has to do for a virtual node's certificate.
fn waiting((node, serving): (&String, &watch::Receiver<Serving>)) -> Option<String> {
    let Serving::Waiting { request } = &*serving.borrow() else { return None };
    let approve = format!("kubectl certificate approve {request}");
    (!request.is_empty()).then(|| format!("node {node} waits for its certificate: {approve}"))
}
