//! All that Mercato has made in a cluster goes: with the daemon's help where it runs, and without.
//! What was installed (accounts, rights, policies, definitions of resources) is left to whoever
//! installed it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use mercato_kubelet::guest::namespace::SPOT;
use mercato_kubelet::names;
use mercato_protocol::text::Line;
use serde_json::{Value, json};

use crate::admin::{Class, Deal, OperatorApi, Problem, Request};
use crate::kubernetes::site::{Site, items, until};
use crate::present::deal::{is_running, peer};

/// What the chart calls the daemon.
const DAEMON: &str = "/apis/apps/v1/namespaces/mercato/deployments/mercato";
const DAEMONS_PODS: &str = "/api/v1/namespaces/mercato/pods";
/// How the chart marks them.
const IS_DAEMON: &str = "app.kubernetes.io/component=daemon";
/// The programs on the nodes, where they are installed.
const NODES: &str = "/apis/apps/v1/namespaces/mercato-nodes/daemonsets/mercato-node";
const NAMESPACES: &str = "/api/v1/namespaces";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CLASS: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const RESOURCES: &str = "/apis/mercato.dev/v1alpha1";
/// The plurals of those that wait for the daemon before they vanish.
const HELD: [&str; 4] = ["contracts", "marketpolicies", "namespaceoffloads", "orders"];
/// For other clusters to agree that a contract is over; one that is not reached learns of it never.
const ENDING: Duration = Duration::from_secs(60);

/// A cluster that Mercato leaves, and its daemon, which may be gone already.
pub(crate) struct Leaving<'a> {
    pub(crate) site: Site,
    pub(crate) api: &'a dyn OperatorApi,
}

impl Leaving<'_> {
    /// What there is of Mercato's, a line each: contracts as the daemon knows them, objects as
    /// kubectl calls them.
    ///
    /// # Errors
    /// When the cluster does not answer, or the daemon fails.
    pub(crate) async fn found(&self) -> Result<Vec<String>, Problem> {
        let mut found = Vec::new();
        // Of which daemon, since the socket and the cluster may be of two.
        if let Some(deals) = self.deals().await? {
            let us = self.api.status().await?.name;
            let line =
                |deal: &Deal| format!("contract {} of {us} with {}", deal.id.short(), peer(deal));
            found.extend(deals.iter().map(line));
        }
        found.extend(self.site.ours().await?);
        let short = |path: &str, group: &str| path.replacen(&format!("{group}/"), "", 1);
        let held = self.held().await?;
        found.extend(held.keys().map(|path| format!("finalizer of {}", short(path, RESOURCES))));
        found.extend(self.bindings().await?.iter().map(|path| short(path, RBAC)));
        if self.site.get(&format!("{CLASS}/{SPOT}")).await?.is_some() {
            found.push(format!("priorityclass/{SPOT}"));
        }
        Ok(found)
    }

    /// Ends what the daemon has agreed, then the daemon of the chart, then removes all that is left. Says
    /// what it could not do and nothing waits for.
    ///
    /// # Errors
    /// When the cluster refuses something, something stays for two minutes, or a daemon that the
    /// chart has not installed still runs.
    pub(crate) async fn perform(&self) -> Result<Vec<&'static str>, Problem> {
        let mut left = Vec::new();
        if !self.end_contracts().await? {
            left.push("not every other cluster has agreed yet that contracts are over");
        }
        if !self.stop().await? && self.deals().await?.is_some() {
            return Err(Problem::failed("contracts are ended, but the daemon still runs")
                .todo("end it, and do the same again: what it needs it would make anew"));
        }
        for (path, finalizers) in self.held().await? {
            self.let_go(&path, &finalizers).await?;
        }
        for path in self.bindings().await? {
            self.site.delete(&path, None).await?;
        }
        for namespace in self.site.labelled(NAMESPACES, names::OFFLOAD).await? {
            self.unmark(&namespace).await?;
        }
        self.site.clear(&[], &[]).await?;
        self.site.delete(&format!("{CLASS}/{SPOT}"), None).await?;
        if self.clean_nodes().await.is_err() {
            left.push("not every node is clean: run there, as root: mercato gateway clean");
        }
        Ok(left)
    }

    /// The contracts and orders that are not over; none if no daemon answers.
    async fn deals(&self) -> Result<Option<Vec<Deal>>, Problem> {
        match self.api.deals().await {
            Ok(deals) => Ok(Some(deals.into_iter().filter(is_running).collect())),
            Err(problem) if problem.class == Class::Unreachable => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// False if not every other cluster has agreed in time.
    async fn end_contracts(&self) -> Result<bool, Problem> {
        for deal in self.deals().await?.unwrap_or_default() {
            let reason = "Mercato leaves this cluster".parse::<Line>();
            let reason = reason.map_err(|error| Problem::failed(error.to_string()))?;
            self.api.tell(Request::Cancel(deal.id, reason)).await?;
        }
        // A daemon drains what is elsewhere and here, and tells the other side how it ended.
        let over = until("contracts are over", async || {
            let Some(deals) = self.deals().await? else { return Ok(Some(())) };
            let over = deals.is_empty()
                && self.site.virtual_nodes().await?.is_empty()
                && self.site.guest_namespaces().await?.is_empty();
            Ok(over.then_some(()))
        });
        match tokio::time::timeout(ENDING, over).await {
            Ok(over) => Ok(over.map(|()| true)?),
            Err(_) => Ok(false),
        }
    }

    /// Ends the daemon of the chart, and waits until it has ended; false if there is none.
    async fn stop(&self) -> Result<bool> {
        if self.site.get(DAEMON).await?.is_none() {
            return Ok(false);
        }
        self.site.merge(&format!("{DAEMON}/scale"), &json!({ "spec": { "replicas": 0 } })).await?;
        until("the daemon has ended", async || {
            let pods = self.site.labelled(DAEMONS_PODS, IS_DAEMON).await?;
            Ok(pods.is_empty().then_some(true))
        })
        .await
    }

    /// Has the pods of the program on the nodes begin anew, and remove first what was set up on theirs:
    /// a program that ends leaves all in force, for the next one.
    async fn clean_nodes(&self) -> Result<()> {
        let Some(set) = self.site.get(NODES).await? else { return Ok(()) };
        let mut first = set["spec"]["template"]["spec"]["containers"][0].clone();
        (first["name"], first["args"]) = ("clean".into(), json!(["gateway", "clean"]));
        let patch = json!({ "spec": {
            "updateStrategy": { "rollingUpdate": { "maxUnavailable": "100%" } },
            "template": { "spec": { "initContainers": [first] } },
        } });
        self.site.merge(NODES, &patch).await?;
        until("what was set up on nodes is removed", async || {
            let set = self.site.get(NODES).await?.unwrap_or_default();
            let (status, wanted) = (&set["status"], &set["status"]["desiredNumberScheduled"]);
            let seen = status["observedGeneration"] == set["metadata"]["generation"];
            // A count of none is left out.
            let count = |key: &str| status[key].as_u64().unwrap_or(0);
            let all = ["updatedNumberScheduled", "numberAvailable"].map(count);
            Ok((seen && all.iter().all(|one| Some(*one) == wanted.as_u64())).then_some(()))
        })
        .await
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
