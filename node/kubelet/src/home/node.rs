//! A virtual node: the object that a home cluster takes for a node, its Lease
//! and its status, kept true while the lease lives and removed with it. How a
//! link or a lease stands is told from outside; a link that is down is not a
//! node that is down.

mod leaving;
mod names;
mod news;
#[cfg(test)]
mod tests;
mod tunnel;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mercato_offload::placement::NodeLabels;
use mercato_offload::placement::spec::{NodeSpec, Transitions};
use mercato_offload::put_back::{Meddling, writer};
use mercato_protocol::id::ContractId;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::apiserver::cluster::{Answer, Cluster, Deletion};
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::{LEASE, NODE};
use crate::format::clock;
use crate::limits;
use crate::names::CONTRACT;
use crate::pace::every;
use crate::repeated::Repeated;
use crate::warn_once;
pub use names::{Name, NodeNames};
use news::NodeEar;
pub use news::NodeNews;
use tunnel::Told;

/// A virtual node that is kept in its cluster until it is removed; dropping
/// this leaves the node to the cluster's own node controller.
pub struct VirtualNode {
    cluster: Cluster,
    wanted: watch::Sender<Arc<NodeSpec>>,
    state: watch::Receiver<NodeState>,
    keeping: AbortHandle,
}

/// How a virtual node stands in its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    /// The node was not written to the cluster yet.
    Starting,
    /// As wanted, with a fresh Lease.
    Kept,
    /// The last write failed; it is tried again.
    Failing(Failure),
}

impl VirtualNode {
    /// Makes the node and keeps it so, also where somebody else changes it, as `news` tells.
    pub fn start(cluster: Cluster, spec: NodeSpec, news: &NodeNews) -> Self {
        let (wanted, wants) = watch::channel(Arc::new(spec));
        let (report, state) = watch::channel(NodeState::Starting);
        let keeping = tokio::spawn(keep(cluster.clone(), wants, report, news.listen(&cluster)));
        let keeping = keeping.abort_handle();
        Self { cluster, wanted, state, keeping }
    }

    /// Wants it so from now on; what it is already costs nothing. The name must stay.
    pub fn update(&self, change: impl FnOnce(&mut NodeSpec)) {
        self.wanted.send_if_modified(|spec| {
            let before = spec.clone();
            change(Arc::make_mut(spec));
            *spec != before
        });
    }

    /// How it stands, to be waited on.
    pub fn state(&self) -> watch::Receiver<NodeState> {
        self.state.clone()
    }

    /// Removes the node and its Lease; only if they are this lease's.
    pub fn remove(self) -> Answer<()> {
        self.keeping.abort();
        let spec = self.wanted.borrow().clone();
        remove(&self.cluster, &spec.name, &spec.contract.to_string())
    }
}

impl Drop for VirtualNode {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

/// Removes what a lease's node left in the cluster, also after a restart.
pub fn remove(cluster: &Cluster, name: &str, contract: &str) -> Answer<()> {
    let (cluster, name, contract) = (cluster.clone(), name.to_owned(), contract.to_owned());
    async move {
        let Some(node) = cluster.get(NODE, None, &name).await? else { return Ok(()) };
        if node["metadata"]["labels"][CONTRACT] != contract {
            return Ok(());
        }
        let uid = node["metadata"]["uid"].as_str().map(str::to_owned);
        cluster.delete(LEASE, Some(LEASES), &name, Deletion::default()).await?;
        cluster.delete(NODE, None, &name, Deletion { uid, grace: None }).await?;
        Ok(())
    }
    .boxed()
}

/// Removes the node of a lease, whatever it is called.
pub fn remove_all(cluster: &Cluster, contract: &ContractId) -> Answer<()> {
    let (cluster, contract) = (cluster.clone(), contract.to_string());
    async move {
        match existing(&cluster).await?.get(&contract) {
            Some(name) => remove(&cluster, name, &contract).await,
            None => Ok(()),
        }
    }
    .boxed()
}

/// Names of the virtual nodes of ours in a cluster, by contract: what a restart
/// finds, and what of it no lease stands for any more.
pub fn existing(cluster: &Cluster) -> Answer<BTreeMap<String, String>> {
    let found = cluster.list(NODE, None, &format!("labelSelector={CONTRACT}"));
    async move {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let named = |node: &Value| {
            let metadata = &node["metadata"];
            (text(&metadata["labels"][CONTRACT]), text(&metadata["name"]))
        };
        Ok(found.await?.iter().map(named).collect())
    }
    .boxed()
}

/// At which port each virtual node of ours is said to have its kubelet API, by name: a restart finds
/// there where each was.
pub fn ports(cluster: &Cluster) -> Answer<BTreeMap<String, u16>> {
    let found = cluster.list(NODE, None, &format!("labelSelector={CONTRACT}"));
    async move {
        let port = |node: &Value| {
            let port = &node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"];
            let port = u16::try_from(port.as_u64()?).ok()?;
            Some((node["metadata"]["name"].as_str()?.to_owned(), port))
        };
        Ok(found.await?.iter().filter_map(port).collect())
    }
    .boxed()
}

/// What a virtual node of that name shows of its provider's nodes; nothing, where there is none.
pub fn labels(cluster: &Cluster, name: &str) -> Answer<NodeLabels> {
    let found = cluster.get(NODE, None, name);
    async move {
        let node = found.await?.unwrap_or_default();
        let labels = &node["metadata"]["labels"];
        let is_ours = labels[CONTRACT].is_string();
        Ok(if is_ours { NodeLabels::of_virtual_node(labels) } else { NodeLabels::default() })
    }
    .boxed()
}

/// Lease and status until the end of time: the Lease every ten seconds, the
/// status when it is to be another, and both again if somebody has changed or
/// deleted them, which is looked for whenever the node has changed, and now and then.
fn keep(
    cluster: Cluster,
    mut wants: watch::Receiver<Arc<NodeSpec>>,
    report: watch::Sender<NodeState>,
    mut ear: NodeEar,
) -> BoxFuture<'static, ()> {
    async move {
        let (mut kept, mut repeated) = (Kept::default(), Repeated::default());
        let (mut told, mut leaving) = (Told::default(), leaving::Told::default());
        let mut meddled = None;
        let mut tick = every(limits::LEASE_RENEWAL);
        let name = wants.borrow().name.clone();
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = ear.hears_of(&name) => {
                    // What comes with it, such as our own writes, is looked at once.
                    tokio::time::sleep(limits::NODE_REST).await;
                    let spec = wants.borrow().clone();
                    match kept.changed(&cluster, &spec).await {
                        Changed::No => continue,
                        Changed::ByOthers(how) => meddled = Some(how),
                        Changed::InStatus => {}
                    }
                }
                changed = wants.changed() => if changed.is_err() { return },
            }
            let spec = wants.borrow_and_update().clone();
            let state = match kept.renew(&cluster, &spec).await {
                Ok(wait) => {
                    if !wait.is_zero() {
                        tick.reset_after(wait.min(limits::LEASE_RENEWAL));
                    }
                    if repeated.is_over() {
                        tracing::info!(node = spec.name, "a virtual node is kept again");
                    }
                    told.tell(&cluster, &spec, kept.uid.clone()).await;
                    leaving.tell(&cluster, &spec, kept.uid.clone()).await;
                    if let Some(how) = meddled.take_if(|_| kept.is_written) {
                        ear.tell(&spec.name, kept.uid.clone(), how).await;
                    }
                    NodeState::Kept
                }
                Err(failure) => {
                    warn_once!(repeated, failure; node = spec.name, "a virtual node could not be kept");
                    kept = Kept { transitions: kept.transitions, ..Kept::default() };
                    tick.reset_after(limits::LEASE_RETRY);
                    NodeState::Failing(failure)
                }
            };
            report.send_if_modified(|last| {
                let differs = *last != state;
                *last = state;
                differs
            });
        }
    }
    .boxed()
}

/// What was last written of the node, so that only changes are written.
#[derive(Default)]
struct Kept {
    uid: Option<String>,
    spec: Option<Arc<NodeSpec>>,
    transitions: Transitions,
    /// It was written just now.
    is_written: bool,
}

/// What became of a node since it was written.
enum Changed {
    /// It is as it was, or was not written so yet.
    No,
    /// Somebody has changed or deleted it.
    ByOthers(Meddling),
    /// Only its status is another, as a node controller writes it.
    InStatus,
}

impl Kept {
    /// Says how long the node has to wait until it may be written to, where it changes too often: its
    /// Lease does not wait for that.
    async fn renew(
        &mut self,
        cluster: &Cluster,
        spec: &Arc<NodeSpec>,
    ) -> Result<Duration, Failure> {
        let changed = self.spec.as_ref() != Some(spec);
        self.is_written = false;
        let wait = cluster.pace(NODE, None, &spec.name, limits::NODE_WRITES);
        if self.uid.is_some() && !wait.is_zero() {
            // As it was, until its turn comes.
        } else if changed || !self.holds(cluster, spec).await? {
            let node = self.write(cluster, spec).await?;
            self.uid = node["metadata"]["uid"].as_str().map(str::to_owned);
            (self.spec, self.is_written) = (Some(spec.clone()), true);
        }
        let lease = json!({
            "metadata": { "namespace": LEASES, "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": spec.name, "uid": self.uid }] },
            "spec": {
                "holderIdentity": spec.name,
                "leaseDurationSeconds": limits::LEASE_SECONDS,
                "renewTime": clock::now_micro(),
            },
        });
        cluster.apply(LEASE, Some(LEASES), &spec.name, lease).await?;
        Ok(if changed && self.spec.as_ref() != Some(spec) { wait } else { Duration::ZERO })
    }

    /// Whether the node that was written is there, as it was written: nobody has deleted
    /// it, and no node controller has taken it for dead.
    async fn holds(&mut self, cluster: &Cluster, spec: &NodeSpec) -> Result<bool, Failure> {
        let node = cluster.get(NODE, None, &spec.name).await?.unwrap_or_default();
        Ok(self.is_same(&node) && spec.holds(&mut self.transitions, &node))
    }

    /// What became of it since it was written so.
    async fn changed(&mut self, cluster: &Cluster, spec: &Arc<NodeSpec>) -> Changed {
        if self.spec.as_ref() != Some(spec) {
            return Changed::No;
        }
        let Ok(found) = cluster.get(NODE, None, &spec.name).await else { return Changed::No };
        match found {
            Some(node) if self.is_same(&node) && spec.holds(&mut self.transitions, &node) => {
                Changed::No
            }
            Some(node) if self.is_same(&node) && !spec.is_edited(&node) => Changed::InStatus,
            Some(node) if self.is_same(&node) => {
                Changed::ByOthers(Meddling::Edited(writer(&node, &spec.applied())))
            }
            Some(_) | None => Changed::ByOthers(Meddling::Deleted),
        }
    }

    fn is_same(&self, node: &Value) -> bool {
        self.uid.as_deref() == node["metadata"]["uid"].as_str()
    }

    async fn write(&mut self, cluster: &Cluster, spec: &NodeSpec) -> Result<Value, Failure> {
        match cluster.get(NODE, None, &spec.name).await? {
            Some(node) if !spec.owns(&node) => {
                let text = format!("node {} exists and is not of this contract", spec.name);
                return Err(Failure::conflict(text));
            }
            // Without its taint the admission policies let nothing of it be written.
            Some(node) => taint(cluster, spec, &node).await?,
            None => drop(cluster.create(NODE, None, spec.created()).await?),
        }
        let node = cluster.apply(NODE, None, &spec.name, spec.applied()).await?;
        taint(cluster, spec, &node).await?;
        self.transitions.learn(&node["status"]["conditions"]);
        let status = spec.status(&mut self.transitions, &clock::now());
        cluster.apply_status(NODE, None, &spec.name, status).await
    }
}

/// Gives a node the taints that it is to have, where it has others of ours.
async fn taint(cluster: &Cluster, spec: &NodeSpec, node: &Value) -> Result<(), Failure> {
    let Some(taints) = spec.taints(&node["spec"]["taints"]) else { return Ok(()) };
    // The list is one field: others' taints stay, and the version guards them.
    let version = &node["metadata"]["resourceVersion"];
    let patch = json!({ "metadata": { "resourceVersion": version }, "spec": { "taints": taints } });
    cluster.merge(NODE, None, &spec.name, None, patch).await.map(drop)
}

/// Where kubelets keep their Leases.
const LEASES: &str = "kube-node-lease";
