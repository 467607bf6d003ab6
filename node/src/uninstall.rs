//! All that Mercato has made in a cluster goes: with the daemon's help where it runs, and without.
//! What was installed (accounts, rights, policies, definitions of resources) is left to whoever
//! installed it.

mod daemon;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use mercato_kubelet::guest::namespace::SPOT;
use mercato_kubelet::offload_namespace::{Stranded, deletion};
use mercato_kubelet::{limits, names};
use mercato_protocol::text::Line;
use serde_json::{Value, json};

use self::daemon::Daemon;
use crate::admin::{Client, Deal, OperatorApi, Problem, Request};
use crate::kubernetes::site::{LEASE, Site, items, until, within};
use crate::present::deal::peer;

/// The programs on the nodes, where they are installed.
const NODES: &str = "/apis/apps/v1/namespaces/mercato-nodes/daemonsets/mercato-node";
const NAMESPACES: &str = "/api/v1/namespaces";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// What gives the account of the chart's job its rights, the last that goes.
const JOB: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/mercato-uninstall";
/// What lets it ask a daemon on another node.
const JOB_CONNECTS: &str =
    "/apis/rbac.authorization.k8s.io/v1/namespaces/mercato/rolebindings/mercato-uninstall";
const CLASS: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const RESOURCES: &str = "/apis/mercato.dev/v1alpha1";
/// The plurals of those that wait for the daemon before they vanish.
const HELD: [&str; 4] = ["contracts", "marketpolicies", "namespaceoffloads", "orders"];

/// How long each thing is waited for.
struct Patience {
    /// For other clusters to agree that a contract is over; one that is not reached learns of it never.
    ending: Duration,
    /// For the daemon's pod to end; Kubernetes gives it 30 s.
    stopping: Duration,
    /// For a sign of a daemon that nobody has found: as long as its Lease promises.
    sign: Duration,
    /// For nodes to remove what tunnels need: far above what it takes.
    cleaning: Duration,
    /// For namespaces to go: far above what it takes where nobody else holds them.
    going: Duration,
}

/// All of it is shorter than the deadline of the chart's job.
const PATIENCE: Patience = Patience {
    ending: Duration::from_secs(60),
    stopping: Duration::from_secs(60),
    sign: limits::DAEMON_LEASE,
    cleaning: Duration::from_secs(60),
    going: Duration::from_secs(60),
};

/// A cluster that Mercato leaves, and its daemon, which may be gone already.
pub(crate) struct Leaving {
    site: Site,
    daemon: Daemon,
    /// Daemons on this machine that are not this cluster's, a line each.
    others: Vec<String>,
    patience: Patience,
}

impl Leaving {
    /// Finds the cluster's daemon: at one of these sockets, or in its pod.
    ///
    /// # Errors
    /// When the cluster does not answer, or it is not to be known whether there is one.
    pub(crate) async fn from(
        site: Site,
        is_named: bool,
        sockets: Vec<Client>,
        pod: Box<dyn OperatorApi>,
    ) -> Result<Self, Problem> {
        let mut others = Vec::new();
        let daemon = Daemon::find(&site, is_named, sockets, pod, &mut others).await?;
        Ok(Self { site, daemon, others, patience: PATIENCE })
    }

    /// Which daemons on this machine are left alone, and why, a line each.
    pub(crate) fn others(&self) -> &[String] {
        &self.others
    }

    /// Whether there is a daemon that may be asked.
    pub(crate) fn has_daemon(&self) -> bool {
        self.daemon.api().is_some()
    }

    /// What there is of Mercato's, a line each: contracts as the daemon knows them, objects as
    /// kubectl calls them.
    ///
    /// # Errors
    /// When the cluster does not answer, or the daemon fails.
    pub(crate) async fn found(&self) -> Result<Vec<String>, Problem> {
        let mut found = Vec::new();
        // Of which daemon, since a person knows it by its name.
        if let (Some(api), Some(deals)) = (self.daemon.api(), self.daemon.deals().await?) {
            let us = api.status().await?.name;
            let line =
                |deal: &Deal| format!("contract {} of {us} with {}", deal.id.short(), peer(deal));
            found.extend(deals.iter().map(line));
        }
        found.extend(self.site.ours().await?);
        for node in self.site.virtual_nodes().await? {
            let bound = self.site.bound(&node).await?;
            let line =
                |[namespace, pod]: &[String; 2]| format!("pod/{pod} in {namespace}, on {node}");
            found.extend(bound.iter().map(line));
        }
        let requests = self.site.requests().await?;
        found.extend(requests.iter().map(|one| format!("certificatesigningrequest/{one}")));
        let short = |path: &str, group: &str| path.replacen(&format!("{group}/"), "", 1);
        let held = self.held().await?;
        found.extend(held.keys().map(|path| format!("finalizer of {}", short(path, RESOURCES))));
        found.extend(self.bindings().await?.iter().map(|path| short(path, RBAC)));
        if self.site.get(&format!("{CLASS}/{SPOT}")).await?.is_some() {
            found.push(format!("priorityclass/{SPOT}"));
        }
        if daemon::is_on(&self.site).await? {
            found.push("pods of deployment/mercato in mercato, which is scaled to 0".to_owned());
        }
        for (path, kind) in [(JOB, "clusterrolebinding"), (JOB_CONNECTS, "rolebinding")] {
            if self.site.get(path).await?.is_some() {
                found.push(format!("{kind}/mercato-uninstall, by which helm uninstall does this"));
            }
        }
        if self.site.get(LEASE).await?.is_some() {
            found.push("lease/daemon in mercato".to_owned());
        }
        if self.site.get(NODES).await?.is_some() {
            found.push("what tunnels need on the nodes of daemonset/mercato-node".to_owned());
        }
        Ok(found)
    }

    /// Ends what the daemon has agreed, then the daemon of the chart, then removes all that is left. Says
    /// what it could not do and nothing waits for.
    ///
    /// # Errors
    /// When the cluster refuses something, the daemon's pod does not end, or a daemon that the
    /// chart has not installed still runs, here or elsewhere: nothing is removed then.
    pub(crate) async fn perform(&self) -> Result<Vec<String>, Problem> {
        let mut left = Vec::new();
        self.end_contracts(&mut left).await?;
        let stopped = daemon::stop(&self.site, self.patience.stopping).await?;
        // The one that was asked has ended with its pod; of another one nothing is known.
        if !(stopped && self.has_daemon()) {
            self.daemon.is_over(&self.site, &left, self.patience.sign).await?;
        }
        for (path, finalizers) in self.held().await? {
            self.let_go(&path, &finalizers).await?;
        }
        for path in self.bindings().await? {
            self.site.delete(&path, None).await?;
        }
        let homes = self.site.labelled(NAMESPACES, names::OFFLOAD).await?;
        for namespace in &homes {
            self.unmark(namespace).await?;
        }
        let namespaces = self.site.remove(&[], &[]).await?;
        for namespace in &homes {
            left.extend(self.free(namespace).await?);
        }
        self.site.delete(&format!("{CLASS}/{SPOT}"), None).await?;
        self.site.delete(LEASE, None).await?;
        match self.clean_nodes().await {
            Ok(true) => left.extend(self.node_programs().await?),
            Ok(false) => left.push(
                "no node was cleaned: where a gateway has run, run there, as root: \
                 mercato gateway clean"
                    .to_owned(),
            ),
            Err(error) => left.push(format!(
                "not every node is clean: run there, as root: mercato gateway clean ({error:#})"
            )),
        }
        // Late, since it may be somebody else who holds them.
        for namespace in self.site.remaining(&namespaces, self.patience.going).await? {
            left.push(format!(
                "namespace {namespace} is being deleted, but not gone; what it waits for: \
                 kubectl describe namespace {namespace}"
            ));
        }
        // After which the chart's job may do nothing more.
        self.site.delete(JOB_CONNECTS, None).await?;
        self.site.delete(JOB, None).await?;
        Ok(left)
    }

    /// Has the daemon end what it can in time, and says what it could not.
    async fn end_contracts(&self, left: &mut Vec<String>) -> Result<(), Problem> {
        let Some(api) = self.daemon.api() else {
            left.push("no contract was ended: no daemon was asked".to_owned());
            return Ok(());
        };
        let late = "not every other cluster has agreed yet that contracts are over";
        match tokio::time::timeout(self.patience.ending, self.ending(api, left)).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => {
                left.push("contracts may be in force: the daemon does not answer".to_owned());
                Ok(())
            }
            Ok(Err(problem)) => Err(problem),
            Err(_) => {
                left.push(late.to_owned());
                Ok(())
            }
        }
    }

    /// Waits until all contracts are over, on both sides; false if the daemon falls silent before.
    async fn ending(&self, api: &dyn OperatorApi, left: &mut Vec<String>) -> Result<bool, Problem> {
        let Some(deals) = self.daemon.deals().await? else { return Ok(false) };
        for deal in deals {
            let reason = "Mercato leaves this cluster".parse::<Line>();
            let reason = reason.map_err(|error| Problem::failed(error.to_string()))?;
            let Err(problem) = api.tell(Request::Cancel(deal.id, reason)).await else { continue };
            // It may have ended by itself meanwhile.
            let Ok(Some(now)) = self.daemon.deals().await else { return Ok(false) };
            if now.iter().any(|one| one.id == deal.id) {
                left.push(format!("contract {} is not ended: {}", deal.id.short(), problem.what));
            }
        }
        // A daemon drains what is elsewhere and here, and tells the other side how it ended.
        let over = until("contracts are over", async || {
            let Ok(Some(deals)) = self.daemon.deals().await else { return Ok(Some(false)) };
            let over = deals.is_empty()
                && self.site.virtual_nodes().await?.is_empty()
                && self.site.guest_namespaces().await?.is_empty();
            Ok(over.then_some(true))
        });
        Ok(over.await?)
    }

    /// Has the pods of the program on the nodes begin anew, and remove first what was set up on theirs:
    /// a program that ends leaves all in force, for the next one. False if there is none.
    async fn clean_nodes(&self) -> Result<bool> {
        let Some(set) = self.site.get(NODES).await? else { return Ok(false) };
        let mut first = set["spec"]["template"]["spec"]["containers"][0].clone();
        (first["name"], first["args"]) = ("clean".into(), json!(["gateway", "clean"]));
        let patch = json!({ "spec": {
            "updateStrategy": { "rollingUpdate": { "maxUnavailable": "100%" } },
            "template": { "spec": { "initContainers": [first] } },
        } });
        self.site.merge(NODES, &patch).await?;
        within(self.patience.cleaning, "what was set up on nodes is removed", async || {
            let set = self.site.get(NODES).await?.unwrap_or_default();
            let (status, wanted) = (&set["status"], &set["status"]["desiredNumberScheduled"]);
            let seen = status["observedGeneration"] == set["metadata"]["generation"];
            // A count of none is left out.
            let count = |key: &str| status[key].as_u64().unwrap_or(0);
            let all = ["updatedNumberScheduled", "numberAvailable"].map(count);
            Ok((seen && all.iter().all(|one| Some(*one) == wanted.as_u64())).then_some(true))
        })
        .await
    }

    /// That the DaemonSet runs on, where no chart takes it away.
    async fn node_programs(&self) -> Result<Option<String>> {
        let set = self.site.get(NODES).await?.unwrap_or_default();
        let by_chart = set["metadata"]["labels"][names::MANAGED_BY] == "Helm";
        Ok((set.is_object() && !by_chart).then(|| {
            "daemonset/mercato-node in mercato-nodes runs on: \
             kubectl delete -f config/deploy/optional/nodes.yaml"
                .to_owned()
        }))
    }

    /// The path and the finalizers of each resource that waits for the daemon.
    async fn held(&self) -> Result<BTreeMap<String, Value>> {
        let mut held = BTreeMap::new();
        for plural in HELD {
            let list = self.site.get(&format!("{RESOURCES}/{plural}")).await?;
            for object in items(list.as_ref()) {
                let finalizers = &object["metadata"]["finalizers"];
                let is_held = finalizers.as_array().is_some_and(|all| all.contains(&OURS.into()));
                if is_held {
                    held.insert(path_of(RESOURCES, plural, object), finalizers.clone());
                }
            }
        }
        Ok(held)
    }

    /// Takes the daemon's finalizer away, and leaves those of others.
    async fn let_go(&self, path: &str, finalizers: &Value) -> Result<()> {
        let others = finalizers.as_array().into_iter().flatten().filter(|one| **one != OURS);
        let others: Vec<_> = others.collect();
        self.site.merge(path, &json!({ "metadata": { "finalizers": others } })).await
    }

    /// The paths of the daemon's bindings in single namespaces.
    async fn bindings(&self) -> Result<Vec<String>> {
        let list = self.site.get(&format!("{RBAC}/rolebindings")).await?;
        let ours = |object: &&Value| {
            let roles = [names::NAMESPACE_ROLE, names::API_ACCESS_ROLE];
            roles.iter().any(|role| object["metadata"]["name"] == *role)
        };
        let ours = items(list.as_ref()).filter(ours);
        Ok(ours.map(|object| path_of(RBAC, "rolebindings", object)).collect())
    }

    /// Ends the pods of a namespace that wait for a virtual node, where somebody makes them again; says
    /// which the others are.
    async fn free(&self, namespace: &str) -> Result<Option<String>> {
        let pods = format!("{NAMESPACES}/{namespace}/pods");
        let unbound = self.site.get(&format!("{pods}?fieldSelector=spec.nodeName%3D")).await?;
        let mut left = Vec::new();
        for pod in items(unbound.as_ref()).filter_map(Stranded::read) {
            match pod.is_remade {
                true => self.site.delete(&format!("{pods}/{}", pod.name), None).await?,
                false => left.push(pod.name),
            }
        }
        Ok((!left.is_empty()).then(|| {
            format!(
                "pods that nobody makes again wait for a virtual node, and would for ever: {}",
                deletion(namespace, &left)
            )
        }))
    }

    /// Takes the daemon's labels and annotations off a namespace that may leave home.
    async fn unmark(&self, namespace: &str) -> Result<()> {
        let path = format!("{NAMESPACES}/{namespace}");
        let object = self.site.get(&path).await?.unwrap_or_default();
        let ours = |key: &str| -> BTreeMap<String, Value> {
            let all = object["metadata"][key].as_object().into_iter().flatten();
            let prefix = format!("{}/", names::GROUP);
            let ours = all.filter(|(name, _)| name.starts_with(&prefix));
            ours.map(|(name, _)| (name.clone(), Value::Null)).collect()
        };
        let marks = json!({ "labels": ours("labels"), "annotations": ours("annotations") });
        self.site.merge(&path, &json!({ "metadata": marks })).await
    }
}

const OURS: &str = names::FINALIZER;

/// Where an object is that a list has shown.
fn path_of(group: &str, plural: &str, object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    match text("namespace").as_str() {
        "" => format!("{group}/{plural}/{}", text("name")),
        namespace => format!("{group}/namespaces/{namespace}/{plural}/{}", text("name")),
    }
}
