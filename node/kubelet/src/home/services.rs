//! The services of the namespaces that pods leave, followed as a kubelet follows them, so
//! that no pod waits for a request of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::service_env::service_env;
use crate::cluster::Cluster;
use crate::kind::SERVICE;
use crate::limits;
use crate::watch::{Change, Selection, changes};

/// Variables that a pod is started with.
pub(super) type Environment = Arc<BTreeMap<String, String>>;
type Told = watch::Sender<Option<Environment>>;

/// What pods of a namespace are told of its services. Ends when dropped.
pub(super) struct Services {
    cluster: Cluster,
    environments: BTreeMap<String, watch::Receiver<Option<Environment>>>,
    following: JoinSet<()>,
}

impl Services {
    pub(super) fn new(cluster: Cluster) -> Self {
        Self { cluster, environments: BTreeMap::new(), following: JoinSet::new() }
    }

    /// Waits for the services of a namespace, if they are not known yet.
    pub(super) async fn environment(&mut self, namespace: &str) -> Environment {
        // Bounded by the namespaces that have been opted in.
        let known = self.environments.entry(namespace.to_owned()).or_insert_with(|| {
            let (told, known) = watch::channel(None);
            self.following.spawn(follow(self.cluster.clone(), namespace.to_owned(), told));
            known
        });
        let known = known.wait_for(Option::is_some);
        match tokio::time::timeout(limits::SERVICES_WAIT, known).await {
            Ok(Ok(environment)) => environment.clone().unwrap_or_default(),
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(namespace, "services unknown: pods start without their variables");
                Environment::default()
            }
        }
    }
}

fn follow(cluster: Cluster, namespace: String, told: Told) -> BoxFuture<'static, ()> {
    async move {
        let api = api_server(&cluster).await;
        let mut services = BTreeMap::new();
        let named = |service: Value| (service["metadata"]["name"].to_string(), service);
        let mut changes = changes(&cluster, SERVICE, Selection::namespace(&namespace), named);
        while let Some(change) = changes.next().await {
            match change {
                Change::Synced(all) => services = all.into_iter().collect(),
                Change::Changed((name, service)) => drop(services.insert(name, service)),
                Change::Deleted((name, _)) => drop(services.remove(&name)),
            }
            told.send_replace(Some(Arc::new(service_env(services.values().chain(&api)))));
        }
    }
    .boxed()
}

/// The API server's own service, which stays as it is for the life of a cluster.
async fn api_server(cluster: &Cluster) -> Option<Value> {
    loop {
        match cluster.get(SERVICE, Some("default"), "kubernetes").await {
            Ok(service) => return service,
            Err(failure) => tracing::warn!(%failure, "the API server's own service is unknown"),
        }
        sleep(limits::CONFIRM_RETRY).await;
    }
}
