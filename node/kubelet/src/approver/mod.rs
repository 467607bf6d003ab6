//! Approves the serving certificates of virtual nodes in the place of a person: under an account of
//! its own, since the daemon, which asks for them, must not approve what it asks for.
//!
//! What is not exactly such a request is left alone: never denied, since it is somebody's.

mod review;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::{CSR, NODE, POD};
use crate::apiserver::watch::{Change, Selection, changes};
use crate::limits;
use crate::pace::every;
use crate::repeated::Repeated;
use crate::warn_once;
use review::{Asked, Verdict};

/// Follows the cluster's requests, and approves those of virtual nodes, for ever. A certificate is for
/// `addresses`, or for an address of a node that the chart's daemon runs on, and for no other.
pub fn approve(cluster: Cluster, addresses: BTreeSet<IpAddr>) -> BoxFuture<'static, ()> {
    let fields = format!("spec.signerName={}", review::SIGNER);
    let read = |request: Value| review::is_of_daemon(&request).then(|| name(&request)).flatten();
    let mut changes = changes(&cluster, CSR, Selection::default().fields(fields), read);
    let mut this = Approver { cluster, addresses, waiting: BTreeMap::new() };
    async move {
        let mut look = every(limits::APPROVER_LOOK);
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(change) => this.take(change),
                    None => return,
                },
                // A request may come before its node.
                _ = look.tick() => {}
            }
            this.look().await;
        }
    }
    .boxed()
}

struct Approver {
    cluster: Cluster,
    addresses: BTreeSet<IpAddr>,
    /// Requests of the daemon that are not decided, with why each waits.
    waiting: BTreeMap<String, Repeated>,
}

impl Approver {
    fn take(&mut self, change: Change<Option<String>>) {
        match change.known() {
            Some(Change::Synced(names)) => {
                self.waiting.retain(|name, _| names.contains(name));
                names.into_iter().for_each(|name| self.wait(name));
            }
            Some(Change::Changed(name)) => self.wait(name),
            Some(Change::Deleted(name)) => drop(self.waiting.remove(&name)),
            None => {}
        }
    }

    fn wait(&mut self, name: String) {
        if self.waiting.len() < limits::CERTIFICATE_REQUESTS {
            self.waiting.entry(name).or_default();
        }
    }

    async fn look(&mut self) {
        for (name, mut repeated) in std::mem::take(&mut self.waiting) {
            match self.decide(&name).await {
                Ok(Decided::Over) => {}
                Ok(Decided::Waits(why)) => {
                    warn_once!(repeated, why; request = name, "a certificate request waits");
                    self.waiting.insert(name, repeated);
                }
                Err(failure) => {
                    warn_once!(repeated, failure; request = name, "a certificate request waits");
                    self.waiting.insert(name, repeated);
                }
            }
        }
    }

    /// Looks at a request as it is now: what is approved is what was looked at, even where another
    /// has taken its name meanwhile.
    async fn decide(&self, name: &str) -> Result<Decided, Failure> {
        let Some(request) = self.cluster.get(CSR, None, name).await? else {
            return Ok(Decided::Over);
        };
        if !review::is_of_daemon(&request) || review::is_decided(&request) {
            return Ok(Decided::Over);
        }
        let asked = match Asked::read(&request) {
            Ok(asked) => asked,
            Err(why) => {
                // Once for each request, which cannot become another.
                tracing::warn!(why, request = name, "a certificate request is left alone");
                return Ok(Decided::Over);
            }
        };
        let node = self.cluster.get(NODE, None, &asked.node).await?;
        let allowed =
            daemons_addresses(&self.cluster).await?.union(&self.addresses).copied().collect();
        match asked.holds(node.as_ref(), &allowed) {
            Verdict::Waits(why) => Ok(Decided::Waits(why)),
            Verdict::Holds => {
                self.cluster.merge(CSR, None, name, Some("approval"), approval(&request)).await?;
                tracing::info!(
                    request = name,
                    node = asked.node,
                    "a certificate request is approved"
                );
                Ok(Decided::Over)
            }
        }
    }
}

enum Decided {
    /// It is approved, or not for this to decide.
    Over,
    /// It is looked at again.
    Waits(String),
}

/// Where the chart's daemon runs, as its node's kubelet says: the daemon has no word in it.
fn daemons_addresses(cluster: &Cluster) -> Answer<BTreeSet<IpAddr>> {
    let query = "labelSelector=app.kubernetes.io/component%3Ddaemon";
    let pods = cluster.list(POD, Some(NAMESPACE), query);
    async move {
        let pods = match pods.await {
            // Without the namespace there is no daemon of the chart's.
            Err(failure) if failure.class == Class::Missing => Vec::new(),
            pods => pods?,
        };
        let of_daemon = |pod: &&Value| {
            let runs_as = &pod["spec"]["serviceAccountName"];
            // On a virtual node the daemon itself says where a pod is; one that is over is anywhere.
            let node = pod["spec"]["nodeName"].as_str().unwrap_or(review::NODES);
            let runs = pod["status"]["phase"] == "Running" && !node.starts_with(review::NODES);
            runs && *runs_as == DAEMON && pod["spec"]["hostNetwork"] == true
        };
        let hosts = |pod: &Value| {
            let more = pod["status"]["hostIPs"].as_array().cloned().unwrap_or_default();
            let more = more.into_iter().map(|host| host["ip"].clone());
            [pod["status"]["hostIP"].clone()].into_iter().chain(more).collect::<Vec<_>>()
        };
        let hosts = pods.iter().filter(of_daemon).flat_map(hosts);
        Ok(hosts.filter_map(|host| host.as_str()?.parse().ok()).collect())
    }
    .boxed()
}

/// The uid and the version keep it from being of anything else.
fn approval(request: &Value) -> Value {
    let metadata = &request["metadata"];
    json!({
        "metadata": { "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"] },
        "status": { "conditions": [{ "type": "Approved", "status": "True",
            "reason": "MercatoVirtualNode",
            "message": "asked by mercato's daemon for a virtual node of its own" }] },
    })
}

fn name(request: &Value) -> Option<String> {
    request["metadata"]["name"].as_str().map(str::to_owned)
}

/// Of the daemon, as the chart and `config/deploy/rbac.yaml` have them.
const NAMESPACE: &str = "mercato";
const DAEMON: &str = "mercato";

#[cfg(test)]
mod tests;
