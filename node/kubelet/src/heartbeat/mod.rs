//! Keeps the virtual nodes of a daemon that is away: renews their Leases in its place, so that the
//! cluster's controllers do not take what runs elsewhere for lost, and says on each node since when
//! it is so. Under an account of its own, which may do nothing else.
//!
//! It has no records and no state: any number of them may run, and each may start anew at any time.
//! By the nodes' own Leases they would take each other for the daemon; by its own ([`daemon_lease`])
//! they do not, since none but the daemon writes that. That a node is right again once the daemon is
//! back is left to the daemon, which takes off what was said here.
//!
//! [`daemon_lease`]: crate::daemon_lease

mod vigil;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use mercato_offload::placement::spec::Absence;
use mercato_protocol::time::Now;
use serde_json::{Value, json};

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::events::{self, About, EventType};
use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::{LEASE, NODE};
use crate::apiserver::watch::{Change, Selection, changes};
use crate::daemon_lease::DaemonLease;
use crate::format::clock;
use crate::names::{CONTRACT, DAEMON_LEASE, DAEMON_NAMESPACE};
use crate::{Repeated, RepeatedEach, every, limits, warn_once};
use vigil::{Away, Node, Standing, Vigil};

/// Follows the virtual nodes and their daemon, and keeps the nodes while it is away, for so long after
/// its last sign of life: for ever.
pub fn keep(cluster: Cluster, keep_alive: Duration) -> BoxFuture<'static, ()> {
    let which = Selection::default().labels(CONTRACT.to_owned());
    let mut changes = changes(&cluster, NODE, which, |node| Node::read(&node));
    let mut this = Heartbeat::new(cluster, keep_alive);
    async move {
        let mut look = every(limits::HEARTBEAT_LOOK);
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(change) => this.take(change),
                    None => return,
                },
                _ = look.tick() => this.look().await,
            }
        }
    }
    .boxed()
}

struct Heartbeat {
    cluster: Cluster,
    start: Instant,
    nodes: BTreeMap<String, Node>,
    vigil: Vigil,
    standing: Standing,
    /// Nodes that say that the daemon is away.
    told: BTreeSet<String>,
    unread: Repeated,
    unkept: RepeatedEach,
    untold: RepeatedEach,
}

impl Heartbeat {
    fn new(cluster: Cluster, keep_alive: Duration) -> Self {
        Self {
            cluster,
            start: Instant::now(),
            nodes: BTreeMap::new(),
            vigil: Vigil::new(keep_alive),
            standing: Standing::Lives,
            told: BTreeSet::new(),
            unread: Repeated::default(),
            unkept: RepeatedEach::default(),
            untold: RepeatedEach::default(),
        }
    }

    fn take(&mut self, change: Change<Option<Node>>) {
        match change.known() {
            Some(Change::Synced(nodes)) => {
                self.nodes.clear();
                nodes.into_iter().for_each(|node| self.know(node));
            }
            Some(Change::Changed(node)) => self.know(node),
            Some(Change::Deleted(node)) => drop(self.nodes.remove(&node.name)),
            None => {}
        }
    }

    fn know(&mut self, node: Node) {
        if self.nodes.len() < limits::HEARTBEAT_NODES || self.nodes.contains_key(&node.name) {
            self.nodes.insert(node.name.clone(), node);
        }
    }

    async fn look(&mut self) {
        match self.cluster.get(LEASE, Some(DAEMON_NAMESPACE), DAEMON_LEASE).await {
            Ok(lease) => {
                if self.unread.is_over() {
                    tracing::info!("the daemon's Lease is read again");
                }
                self.vigil.see(self.now(), lease.as_ref().map(DaemonLease::read).as_ref());
            }
            Err(failure) => {
                let failure = failure.of_install();
                warn_once!(self.unread, failure; "the daemon's Lease cannot be read: nobody sees whether it is away");
            }
        }
        let standing = self.vigil.standing(self.now());
        self.say(&standing);
        match standing {
            Standing::Away(away) => self.stand_in(&away).await,
            Standing::Lives | Standing::Lost => {
                self.vigil.rest();
                self.told.clear();
            }
        }
    }

    fn say(&mut self, standing: &Standing) {
        let nodes = self.nodes.len();
        match (&self.standing, standing) {
            (Standing::Lives | Standing::Lost, Standing::Away(_)) => {
                // Once for each time that it goes.
                tracing::warn!(nodes, "the daemon is away: its virtual nodes are kept");
            }
            (Standing::Lives | Standing::Away(_), Standing::Lost) => {
                // Once for each time that it does not come back.
                tracing::warn!(
                    nodes,
                    "the daemon is away for too long: its nodes are kept no more"
                );
            }
            (Standing::Away(_) | Standing::Lost, Standing::Lives) => {
                tracing::info!(nodes, "the daemon is back");
            }
            (Standing::Lives, Standing::Lives)
            | (Standing::Away(_), Standing::Away(_))
            | (Standing::Lost, Standing::Lost) => {}
        }
        self.standing = *standing;
    }

    /// Renews what is due first: what nodes say can wait.
    async fn stand_in(&mut self, away: &Away) {
        let kept: Vec<_> = self.nodes.values().filter(|node| away.keeps(node)).cloned().collect();
        self.renew(away, self.vigil.due(self.now(), &kept)).await;
        let untold = kept.into_iter().filter(|node| !self.told.contains(&node.name)).collect();
        self.tell(away, untold).await;
    }

    async fn renew(&mut self, away: &Away, due: Vec<Node>) {
        if due.is_empty() {
            return;
        }
        self.unkept.begin();
        for (node, kept) in self.each(away, due, renew).await {
            match kept {
                Ok(()) => self.vigil.renewed(self.now(), node.name),
                Err(failure) => {
                    let repeated = self.unkept.of(&node.name);
                    warn_once!(repeated, failure; node = node.name, "a virtual node's Lease cannot be renewed");
                }
            }
        }
    }

    async fn tell(&mut self, away: &Away, untold: Vec<Node>) {
        self.untold.begin();
        for (node, told) in self.each(away, untold, tell).await {
            match told {
                Ok(()) => drop(self.told.insert(node.name)),
                Err(failure) => {
                    let repeated = self.untold.of(&node.name);
                    warn_once!(repeated, failure; node = node.name, "a virtual node does not say that the daemon is away");
                }
            }
        }
    }

    /// Does it for each of the nodes, some at a time.
    async fn each(
        &self,
        away: &Away,
        nodes: Vec<Node>,
        write: impl Fn(Cluster, Node, Away) -> Answer<()>,
    ) -> Vec<(Node, Result<(), Failure>)> {
        let writes: Vec<_> =
            nodes.iter().map(|node| write(self.cluster.clone(), node.clone(), *away)).collect();
        let written = stream::iter(writes).buffered(limits::HEARTBEAT_WRITES).collect::<Vec<_>>();
        nodes.into_iter().zip(written.await).collect()
    }

    fn now(&self) -> Now {
        let mono_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { mono_ms, wall_ms: clock::now_ms() }
    }
}

/// Renews a node's Lease, and changes nothing else of it; one that is gone is not made anew.
fn renew(cluster: Cluster, node: Node, away: Away) -> Answer<()> {
    let patch = json!({ "spec": { "renewTime": clock::micro_from_ms(away.now_ms) } });
    async move {
        match cluster.merge(LEASE, Some(LEASES), &node.name, None, patch).await {
            Err(failure) if failure.class == Class::Missing => Ok(()),
            renewed => renewed.map(drop),
        }
    }
    .boxed()
}

/// Says on a node that the daemon is away, unless another has said so. The version guards what the
/// daemon, back again, has written meanwhile.
fn tell(cluster: Cluster, node: Node, away: Away) -> Answer<()> {
    async move {
        let (name, absence) = (&node.name, away.of(&node));
        let Some(mut object) = cluster.get(NODE, None, name).await? else { return Ok(()) };
        if Node::read(&object).is_none() {
            return Ok(());
        }
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        if let Some(taints) = Absence::taints(&object) {
            let metadata = json!({ "resourceVersion": version(&object) });
            let patch = json!({ "metadata": metadata, "spec": { "taints": taints } });
            object = cluster.merge(NODE, None, name, None, patch).await?;
        }
        if absence.is_told(&object) {
            return Ok(());
        }
        let mut patch = absence.status(&clock::now());
        patch["metadata"] = json!({ "resourceVersion": version(&object) });
        cluster.strategic(NODE, None, name, Some("status"), patch).await?;
        let about = About {
            api_version: "v1".to_owned(),
            kind: NODE.kind.to_owned(),
            namespace: None,
            name: name.clone(),
            uid: object["metadata"]["uid"].as_str().map(str::to_owned),
        };
        let (kind, reason) = (EventType::Warning, Absence::REASON);
        let told = events::write_once(&cluster, about, kind, reason, &absence.message()).await;
        if let Err(failure) = told {
            tracing::debug!(%failure, node = name, reason, "an event is lost");
        }
        Ok(())
    }
    .boxed()
}

/// Where kubelets keep their Leases.
const LEASES: &str = "kube-node-lease";

#[cfg(test)]
mod tests;
