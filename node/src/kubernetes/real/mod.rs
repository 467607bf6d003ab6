//! A real cluster: does on it, with the daemon's own account, what the agent wants of a
//! lease's part in it. How it is done is `mercato-kubelet`'s, what to do is the agent's;
//! here is the life of a lease, a task for each.
//!
//! Everything is level-triggered, and found again by our labels after a restart.

mod at_home;
mod at_provider;
mod attention;
mod bursts;
mod certificates;
mod cluster_domain;
mod examine;
mod leaving;
mod link;
mod market;
mod name_servers;
mod retry;
mod servers;
mod shared;

use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use mercato_broker::{
    BurstNews, BurstPolicy, DevicePolicy, Inventory, PodDemand, Side, StoragePolicy,
};
use mercato_config::gateway::Nodes;
use mercato_config::settings;
use mercato_kubelet::crd::EventType;
use mercato_kubelet::guest::stored::ClusterStored;
use mercato_kubelet::guest::stream::{self as api, Opened, Refused};
use mercato_kubelet::inventory::{BurstWatch, OwnersWord, own_nodes};
use mercato_kubelet::offload_namespace::{Waiting, waiting};
use mercato_kubelet::{Cluster, inventory};
use mercato_offload::placement::StoredBy;
use mercato_offload::placement::export::Consent;
use mercato_protocol::contract::Terms;
use mercato_protocol::id::ContractId;
use mercato_protocol::kubelet_stream::{NodeFacts, RefusedReason, Request, Usage};
use mercato_protocol::resources::Resources;
use mercato_protocol::workload::Uid;
use tokio::sync::watch;

pub(crate) use certificates::Certificates;
pub(crate) use name_servers::of_guests as name_servers;

use super::{ClusterNetwork, Kubernetes, LeaseTask, NodeMachine, PodPlace, ToldOfNode};
use crate::admin::{Attention, Offload};
use crate::doctor::Finding;
use crate::telemetry::Metrics;
use link::Link;
use shared::Shared;

/// How the cluster is reached that the settings, the environment or the pod name.
pub(crate) async fn config(settings: &settings::Kubernetes) -> anyhow::Result<kube::Config> {
    link::read(settings).await
}

/// A client of the cluster that the settings name, for who is not a daemon.
pub(crate) async fn client(settings: &settings::Kubernetes) -> anyhow::Result<kube::Client> {
    Ok(kube::Client::try_from(config(settings).await?)?)
}

/// Nothing is waited for any more.
const STOPPING: &str = "the daemon is stopping";

/// A cluster, with the daemon's own account on it, whether it answers now or not.
pub(crate) struct Real {
    /// The address of the API server.
    server: String,
    scope: settings::Offload,
    link: watch::Receiver<Link>,
    /// What the owner says of devices and of storage.
    word: watch::Sender<OwnersWord>,
    /// How pods without room are watched; none: nothing may be bought for them.
    bursts: watch::Sender<Option<BurstWatch>>,
    /// What guests fill of its etcd.
    stored: ClusterStored,
}

impl Real {
    /// Begins to look for the cluster that the settings, the environment or the pod name,
    /// and for as long as it takes, also where its kubeconfig is still to come. As `nodes` says
    /// guests are held back whose contracts require isolation.
    ///
    /// # Errors
    /// When none is named, and none is found.
    pub(crate) async fn start(
        settings: &settings::Kubernetes,
        nodes: Nodes,
        metrics: Metrics,
        certificates: Certificates,
    ) -> anyhow::Result<Self> {
        let (first, server) = match (link::read(settings).await, link::named(settings)) {
            (Ok(config), _) => {
                let server = config.cluster_url.to_string();
                (Ok(config), server)
            }
            (Err(error), Some(named)) => (Err(error), named),
            (Err(error), None) => return Err(error),
        };
        let scope = settings.offload;
        let (tell, link) = watch::channel(Link::to(&server));
        let (settings, stored) = (settings.clone(), ClusterStored::default());
        let filled = stored.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = tell.closed() => {}
                () = link::keep(first, settings, nodes, metrics, certificates, filled, &tell) => {}
            }
        });
        Ok(Self {
            server,
            scope,
            link,
            word: watch::Sender::default(),
            bursts: watch::Sender::default(),
            stored,
        })
    }

    /// What is known of the cluster, once it has answered.
    fn known(&self) -> BoxFuture<'static, Option<Arc<Shared>>> {
        let mut link = self.link.clone();
        async move {
            let answered = link.wait_for(|link| link.shared.is_some()).await.ok()?;
            answered.shared.clone()
        }
        .boxed()
    }

    /// The same for what cannot wait.
    fn now(&self) -> Result<Arc<Shared>, String> {
        let link = self.link.borrow();
        link.shared.clone().ok_or_else(|| link.trouble.clone().unwrap_or_default())
    }
}

impl Kubernetes for Real {
    fn describe(&self) -> String {
        let link = self.link.borrow();
        let silent = link.trouble.as_ref().map_or("", |_| ", which does not answer now");
        match &link.shared {
            Some(shared) => {
                format!("{} ({}), as {}{silent}", self.server, shared.version, shared.account.user)
            }
            None => format!("{}{silent}", self.server),
        }
    }

    fn uid(&self) -> Option<String> {
        self.link.borrow().shared.as_ref()?.uid.clone()
    }

    fn trouble(&self) -> Option<String> {
        self.link.borrow().trouble.clone()
    }

    fn inventory(&self) -> BoxStream<'static, Inventory> {
        let (known, word) = (stream::once(self.known()).filter_map(ready), self.word.subscribe());
        known.flat_map(move |shared| market::inventory(shared, word.clone())).boxed()
    }

    fn pending(&self) -> BoxStream<'static, PodDemand> {
        let (known, word) = (stream::once(self.known()).filter_map(ready), self.bursts.subscribe());
        known.flat_map(move |shared| bursts::pending(&shared, word.clone())).boxed()
    }

    fn tell_bursts(&self, bursts: Option<&BurstPolicy>) {
        let word = bursts.map(bursts::watched);
        self.bursts.send_if_modified(|now| std::mem::replace(now, word) != word);
    }

    fn tell_pods(&self, news: &BurstNews) {
        if let Ok(shared) = self.now() {
            bursts::tell_pods(&shared, news);
        }
    }

    fn tell_devices(&self, said: &DevicePolicy) {
        let said = market::word(said);
        self.word.send_if_modified(|now| {
            let said = OwnersWord { storage: now.storage.clone(), ..said };
            let differs = *now != said;
            *now = said;
            differs
        });
    }

    fn tell_storage(&self, shared: Option<&StoragePolicy>) {
        let storage = market::storage(shared);
        self.word.send_if_modified(|now| {
            let differs = now.storage != storage;
            now.storage = storage;
            differs
        });
    }

    fn tell_stored(&self, bound: Option<u64>, shared: Option<Resources>) {
        self.stored.set_bounds(bound, shared);
    }

    fn stored(&self) -> Option<StoredBy> {
        Some(self.stored.stored())
    }

    fn pods(&self) -> BoxStream<'static, Vec<PodPlace>> {
        let known = stream::once(self.known()).filter_map(ready);
        known.flat_map(|shared| inventory::places(&shared.cluster)).boxed()
    }

    fn machines(&self) -> BoxStream<'static, Vec<NodeMachine>> {
        let known = stream::once(self.known()).filter_map(ready);
        known.flat_map(|shared| inventory::machines(&shared.cluster)).boxed()
    }

    fn tell_nodes(
        &self,
        at: SocketAddr,
        certificate: String,
    ) -> BoxFuture<'static, Result<(), String>> {
        let known = self.known();
        async move {
            let shared = known.await.ok_or_else(|| STOPPING.to_owned())?;
            let said = own_nodes::tell_nodes(&shared.cluster, at, &certificate).await;
            said.map_err(|failure| failure.to_string())
        }
        .boxed()
    }

    fn tell_of_node(&self, told: ToldOfNode) -> BoxFuture<'static, Result<(), String>> {
        let known = self.known();
        async move {
            let shared = known.await.ok_or_else(|| STOPPING.to_owned())?;
            let ToldOfNode { node, warns, reason, text } = told;
            let kind = if warns { EventType::Warning } else { EventType::Normal };
            let said = own_nodes::tell_of_node(&shared.cluster, &node, kind, reason, &text).await;
            said.map_err(|failure| failure.to_string())
        }
        .boxed()
    }

    fn node_of(&self, token: String) -> BoxFuture<'static, Result<String, String>> {
        let known = self.known();
        async move {
            let shared = known.await.ok_or_else(|| STOPPING.to_owned())?;
            let named = own_nodes::node_of(&shared.cluster, &token).await;
            named.map_err(|failure| failure.to_string())
        }
        .boxed()
    }

    fn network(&self) -> BoxFuture<'static, Result<ClusterNetwork, String>> {
        let known = self.known();
        async move {
            let Some(shared) = known.await else { return Ok(ClusterNetwork::default()) };
            let told = inventory::ranges(&shared.cluster).await;
            let ranges = told.map_err(|failure| failure.to_string())?;
            let domain = Some(shared.domain.clone());
            let servers = servers::all(shared).await;
            let servers = servers.iter().filter_map(|(host, _)| host.parse().ok()).collect();
            Ok(ClusterNetwork { ranges, domain, servers })
        }
        .boxed()
    }

    fn api_servers(&self) -> BoxFuture<'static, Vec<(String, u16)>> {
        match self.now() {
            Ok(shared) => servers::all(shared).boxed(),
            Err(_) => ready(Vec::new()).boxed(),
        }
    }

    fn consent(&self) -> BoxStream<'static, Consent> {
        stream::once(self.known()).filter_map(ready).flat_map(servers::consent).boxed()
    }

    /// The gateway closes guests, and says itself whether it does on all nodes; a CNI is not taken at
    /// its word.
    fn isolates(&self) -> bool {
        false
    }

    /// The gateway keeps them to it, and says itself whether it does on all nodes.
    fn enforces_egress(&self) -> bool {
        false
    }

    fn follow(&self, task: LeaseTask) -> BoxFuture<'static, ()> {
        let known = self.known();
        async move {
            let side = task.desire.borrow().side;
            let Some(shared) = known.await else { return };
            match side {
                Side::Consumer => at_home::follow(shared, task).await,
                Side::Provider => at_provider::follow(shared, task).await,
            }
        }
        .boxed()
    }

    fn offload(&self, offload: Offload) -> BoxFuture<'static, Result<(), String>> {
        let shared = self.now();
        async move { leaving::offload(&*shared?, offload).await }.boxed()
    }

    fn offloads_all(&self) -> bool {
        self.scope == settings::Offload::All
    }

    fn unoffload(&self, namespace: String) -> BoxFuture<'static, Result<Vec<String>, String>> {
        if self.offloads_all() {
            let hint = format!(
                "the configuration lets all namespaces leave: \
                mercato offload {namespace} --strategy local"
            );
            return async move { Err(hint) }.boxed();
        }
        let shared = self.now();
        async move { leaving::unoffload(&*shared?, namespace).await }.boxed()
    }

    fn waiting(&self, namespace: String) -> BoxFuture<'static, Result<Waiting, String>> {
        let shared = self.now();
        async move {
            let waiting = waiting(&shared?.cluster, &namespace).await;
            waiting.map_err(|failure| failure.to_string())
        }
        .boxed()
    }

    fn examine(&self) -> BoxFuture<'static, Vec<Finding>> {
        // Before the link is looked at: whoever looks twice waits for a change that waits for it.
        let described = self.describe();
        let link = self.link.borrow();
        examine::examine(described, link.shared.clone(), link.trouble.clone())
    }

    fn resources(&self) -> BoxFuture<'static, Option<Cluster>> {
        let known = self.known();
        async move { known.await.map(|shared| shared.cluster.clone()) }.boxed()
    }

    fn held(&self) -> usize {
        self.link.borrow().shared.as_ref().map_or(0, |shared| shared.cluster.held().len())
    }

    fn attention(&self) -> Vec<Attention> {
        attention::of(&self.link.borrow())
    }

    fn open(
        &self,
        namespace: String,
        pod: String,
        request: Request,
    ) -> BoxFuture<'static, Result<Opened, Refused>> {
        match self.now() {
            Ok(shared) => api::open_on_cluster(&shared.cluster, &namespace, &pod, request),
            Err(why) => unavailable(why),
        }
    }

    fn usage(
        &self,
        contract: ContractId,
        namespaces: Vec<String>,
        after: Option<Uid>,
    ) -> BoxFuture<'static, Result<Usage, Refused>> {
        match self.now() {
            Ok(shared) => shared.meters.page(contract, namespaces, after),
            Err(why) => unavailable(why),
        }
    }

    fn node_facts(&self, terms: &Terms) -> Result<NodeFacts, Refused> {
        let refused = |why: String| Refused::new(RefusedReason::Unavailable, why);
        let shared = self.now().map_err(refused)?;
        market::node_facts(&shared, terms)
    }
}

fn unavailable<T: Send + 'static>(why: String) -> BoxFuture<'static, Result<T, Refused>> {
    ready(Err(Refused::new(RefusedReason::Unavailable, why))).boxed()
}
