//! What home's side of a lease is made with, and what its tasks have in common.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use mercato_offload::home::Input;
use mercato_offload::key::ObjectKey;
use mercato_offload::placement::claims::Mounts;
use mercato_offload::placement::export::{BoundNode, Departure, Leave};
use mercato_protocol::id::{ClusterId, ContractId};
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::environments::Environments;
use super::pods::{Pods, Seen};
use super::reflected::{Leads, Ranges};
use crate::apiserver::cluster::Cluster;
use crate::apiserver::life::Life;
use crate::bodies::Bodies;
use crate::bucket::Bucket;
use crate::offload_namespace::Known;

/// What home's side of a lease is told once.
#[derive(Debug, Clone)]
pub struct HomeConfig {
    /// The virtual node that stands for the lease.
    pub node: String,
    /// The lease that the node stands for.
    pub contract: ContractId,
    /// The cluster that provides the lease.
    pub provider: ClusterId,
    /// Where home's API server reaches the node, which is the pods' hostIP.
    pub host_ip: IpAddr,
    /// Whom tokens may be for that leave home with pods.
    pub audiences: BTreeSet<String>,
    /// What this cluster calls itself, where guests may find its names.
    pub domain: Option<String>,
    /// At which address inside the tunnel its API server is reached by guests that have access; none:
    /// nowhere.
    pub api: Option<IpAddr>,
}

/// What the tasks of home's side of one lease have in common.
pub(super) struct Shared {
    pub(super) config: HomeConfig,
    pub(super) cluster: Cluster,
    pub(super) bodies: Bodies,
    pub(super) environments: Arc<Environments>,
    pub(super) opted_in: watch::Receiver<Known>,
    pub(super) pods: Arc<Pods>,
    /// Pods that somebody has asked for by name, to be told of like any other.
    pub(super) asked: mpsc::Sender<Seen>,
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) ranges: Ranges,
    /// Where Services of open namespaces lead.
    pub(super) leads: Leads,
    /// Claims that the provider holds, and of which home has neither a volume nor a wish.
    pub(super) strays: watch::Sender<Vec<ObjectKey>>,
    /// What pods call their claims at the provider.
    pub(super) mounts: watch::Sender<Arc<Mounts>>,
    pub(super) events: Bucket,
    /// One lease does not take all the requests of a cluster, nor their memory.
    pub(super) turns: Semaphore,
    pub(super) stop: CancellationToken,
}

impl Shared {
    /// The life of a namespace, if it may be read now.
    pub(super) fn life(&self, namespace: &str) -> Option<Life> {
        self.opted_in.borrow().as_ref().and_then(|known| known.life(namespace))
    }

    /// What becomes of a pod of the node, by what is known of its namespace now.
    pub(super) fn departure(&self, pod: &Value, opted_in: &Known) -> Departure {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let leave = opted_in.as_ref().map_or(Leave::Soon, |known| known.leave(namespace));
        let HomeConfig { node: name, contract, provider, host_ip, audiences, domain, api } =
            &self.config;
        let (host_ip, domain, api) = (Some(*host_ip), domain.as_deref(), *api);
        let node = BoundNode { name, contract, provider, host_ip, audiences, domain, api };
        Departure::of(pod, leave, node)
    }

    /// Waits where the driver is behind; nothing is lost, nothing piles up.
    pub(super) async fn tell(&self, input: Input) {
        // An error means that the driver has gone, and this side with it.
        let _ = self.inputs.send(input).await;
    }
}
