//! One real cluster, with the rights of whoever tidies up there: what of Mercato's is there, and how
//! it is removed when no daemon does.

mod life;
mod storage;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http::Request;
use kube::Client;
use mercato_config::settings;
use mercato_kubelet::names;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::real::client;

pub(crate) use life::LEASE;

const NODES: &str = "/api/v1/nodes";
const NAMESPACES: &str = "/api/v1/namespaces";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
/// The kinds of Mercato's own.
const RESOURCES: [(&str, &str); 4] = [
    ("marketpolicies", "marketpolicy"),
    ("orders", "order"),
    ("contracts", "contract"),
    ("namespaceoffloads", "namespaceoffload"),
];

/// Something that is to come true: a guess, far above what each takes.
const PATIENCE: Duration = Duration::from_secs(120);
/// An API server has so long to answer one request: a guess, far above what it takes.
const ANSWER: Duration = Duration::from_secs(15);
/// Between two looks at a condition.
const LOOK: Duration = Duration::from_millis(20);

/// A real cluster, by plain requests.
pub(crate) struct Site {
    /// The name of the cluster in messages.
    pub(crate) name: String,
    pub(crate) client: Client,
}

impl Site {
    pub(crate) async fn open(name: String, settings: &settings::Kubernetes) -> Result<Self> {
        let client = client(settings).await.with_context(|| name.clone())?;
        Ok(Self { name, client })
    }

    pub(crate) async fn answers(&self) -> Result<()> {
        self.get("/version").await.map(drop)
    }

    /// The same for no other cluster.
    pub(crate) async fn id(&self) -> Result<String> {
        let system = self.get(&format!("{NAMESPACES}/kube-system")).await?.unwrap_or_default();
        let uid = system["metadata"]["uid"].as_str().map(str::to_owned);
        uid.with_context(|| format!("{}: its namespace kube-system has no uid", self.name))
    }

    /// What there is of Mercato's, as kubectl calls it.
    pub(crate) async fn ours(&self) -> Result<Vec<String>> {
        let mut ours: Vec<String> = Vec::new();
        let named = |kind: &str, names: Vec<String>| {
            names.into_iter().map(|name| format!("{kind}/{name}")).collect::<Vec<_>>()
        };
        ours.extend(named("node", self.virtual_nodes().await?));
        ours.extend(named("namespace", self.guest_namespaces().await?));
        ours.extend(self.stored().await?);
        // They stay, without the marks.
        let marked = self.labelled(NAMESPACES, names::OFFLOAD).await?;
        ours.extend(named("marks of namespace", marked));
        if self.webhook().await?.is_some() {
            ours.push(format!("mutatingwebhookconfiguration/{}", names::WEBHOOK));
        }
        Ok(ours)
    }

    /// The objects of Mercato's own kinds, as kubectl calls them.
    pub(crate) async fn resources(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for (plural, kind) in RESOURCES {
            let list = self.get(&format!("/apis/mercato.dev/v1alpha1/{plural}")).await?;
            let named = |object| {
                let namespace = object_namespace(object).map(|it| format!(" in {it}"));
                Some(format!("{kind}/{}{}", name(object)?, namespace.unwrap_or_default()))
            };
            all.extend(items(list.as_ref()).filter_map(named));
        }
        Ok(all)
    }

    /// Not a node of the cluster's own that somebody has given the label of one.
    pub(crate) async fn virtual_nodes(&self) -> Result<Vec<String>> {
        let list =
            self.get(&format!("{NODES}?labelSelector={}", selector(names::CONTRACT))).await?;
        let scheme = format!("{}://", names::FIELD_MANAGER);
        let ours = |node: &&Value| {
            node["spec"]["providerID"].as_str().is_some_and(|id| id.starts_with(&scheme))
        };
        Ok(items(list.as_ref()).filter(ours).filter_map(name).collect())
    }

    pub(crate) async fn guest_namespaces(&self) -> Result<Vec<String>> {
        let both = format!("{},{}", names::CONTRACT, names::HOME_NAMESPACE);
        self.labelled(NAMESPACES, &both).await
    }

    /// What is bound to a virtual node: namespace and name.
    pub(crate) async fn bound(&self, node: &str) -> Result<Vec<[String; 2]>> {
        let bound = self.get(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")).await?;
        let text = |pod: &Value, key: &str| pod["metadata"][key].as_str().map(str::to_owned);
        let both = |pod| Some([text(pod, "namespace")?, text(pod, "name")?]);
        Ok(items(bound.as_ref()).filter_map(both).collect())
    }

    /// When each virtual node was said last to be alive, by name, in the API server's form.
    pub(crate) async fn renewals(&self) -> Result<BTreeMap<String, String>> {
        let mut renewals = BTreeMap::new();
        for node in self.virtual_nodes().await? {
            let lease = self.get(&format!("{LEASES}/{node}")).await?.unwrap_or_default();
            if let Some(at) = lease["spec"]["renewTime"].as_str() {
                renewals.insert(node, at.to_owned());
            }
        }
        Ok(renewals)
    }

    pub(crate) async fn webhook(&self) -> Result<Option<Value>> {
        self.get(&format!("{WEBHOOKS}/{}", names::WEBHOOK)).await
    }

    /// Certificate requests of Mercato's virtual nodes, decided ones as well.
    pub(crate) async fn requests(&self) -> Result<Vec<String>> {
        let managed = format!("{}={}", names::MANAGED_BY, names::FIELD_MANAGER);
        self.labelled(REQUESTS, &managed).await
    }

    /// Removes all of Mercato's, and these namespaces, but not these certificate requests.
    pub(crate) async fn clear(&self, namespaces: &[String], others: &[String]) -> Result<()> {
        let all = self.remove(namespaces, others).await?;
        let left = self.remaining(&all, PATIENCE).await.with_context(|| self.name.clone())?;
        if !left.is_empty() {
            bail!(
                "{}: namespaces are not gone within {} s: {left:?}",
                self.name,
                PATIENCE.as_secs()
            );
        }
        Ok(())
    }

    /// The same, but does not wait for the namespaces, which it names.
    pub(crate) async fn remove(
        &self,
        namespaces: &[String],
        others: &[String],
    ) -> Result<BTreeSet<String>> {
        let nodes = self.virtual_nodes().await?;
        self.delete(&format!("{WEBHOOKS}/{}", names::WEBHOOK), None).await?;
        for node in &nodes {
            self.remove_node(node).await?;
        }
        self.remove_volumes().await?;
        for request in self.requests().await?.iter().filter(|one| !others.contains(one)) {
            self.delete(&format!("{REQUESTS}/{request}"), None).await?;
        }
        let mut all: BTreeSet<String> = namespaces.iter().cloned().collect();
        all.extend(self.guest_namespaces().await?);
        for namespace in &all {
            self.delete(&format!("{NAMESPACES}/{namespace}"), None).await?;
            self.free(namespace).await?;
        }
        Ok(all)
    }

    /// Those of these namespaces that are still there after so long; waits for no longer than it has to.
    pub(crate) async fn remaining(
        &self,
        namespaces: &BTreeSet<String>,
        patience: Duration,
    ) -> Result<BTreeSet<String>> {
        let deadline = Instant::now() + patience;
        loop {
            let mut left = BTreeSet::new();
            for namespace in namespaces {
                if self.get(&format!("{NAMESPACES}/{namespace}")).await?.is_some() {
                    left.insert(namespace.clone());
                }
            }
            if left.is_empty() || Instant::now() > deadline {
                return Ok(left);
            }
            sleep(LOOK).await;
        }
    }

    /// Ends what is bound to a virtual node, for which no kubelet answers, and the node with its Lease.
    async fn remove_node(&self, node: &str) -> Result<()> {
        for [namespace, name] in self.bound(node).await? {
            self.delete(&format!("{NAMESPACES}/{namespace}/pods/{name}"), Some(0)).await?;
        }
        self.delete(&format!("{LEASES}/{node}"), None).await?;
        self.delete(&format!("{NODES}/{node}"), None).await
    }

    /// Lets pods go that wait for a daemon or a node which is not there any more.
    async fn free(&self, namespace: &str) -> Result<()> {
        let pods = format!("{NAMESPACES}/{namespace}/pods");
        for pod in self.labelled(&pods, "").await? {
            let path = format!("{pods}/{pod}");
            self.merge(&path, &json!({ "metadata": { "finalizers": null } })).await?;
            self.delete(&path, Some(0)).await?;
        }
        Ok(())
    }

    /// The names of those in a collection that a label selects.
    pub(crate) async fn labelled(&self, collection: &str, labels: &str) -> Result<Vec<String>> {
        let list = self.get(&format!("{collection}?labelSelector={}", selector(labels))).await?;
        Ok(items(list.as_ref()).filter_map(name).collect())
    }

    /// Changes an object by a JSON merge patch; what is not there stays so.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Result<()> {
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        self.ask(request.body(patch.to_string().into_bytes())?).await.map(drop)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>> {
        self.ask(Request::get(path).body(Vec::new())?).await
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<()> {
        let request = Request::post(path).header("content-type", "application/json");
        let made = self.ask(request.body(object.to_string().into_bytes())?).await?;
        made.map(drop).with_context(|| format!("{}: there is no {path}", self.name))
    }

    /// What is not there is deleted.
    pub(crate) async fn delete(&self, path: &str, grace_s: Option<u32>) -> Result<()> {
        let mut options = json!({ "kind": "DeleteOptions", "apiVersion": "v1" });
        if let Some(seconds) = grace_s {
            options["gracePeriodSeconds"] = seconds.into();
        }
        let request = Request::delete(path).header("content-type", "application/json");
        self.ask(request.body(options.to_string().into_bytes())?).await.map(drop)
    }

    async fn ask(&self, request: Request<Vec<u8>>) -> Result<Option<Value>> {
        let what = format!("{}: {} {}", self.name, request.method(), request.uri());
        let answer = timeout(ANSWER, self.client.request::<Value>(request)).await;
        match answer.with_context(|| format!("{what}: no answer for {} s", ANSWER.as_secs()))? {
            Ok(answer) => Ok(Some(answer)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error).context(what),
        }
    }
}

/// The objects of a list, which may not be there.
pub(crate) fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(|list| list["items"].as_array()).into_iter().flatten()
}

/// Labels as a part of a URL.
pub(crate) fn selector(labels: &str) -> String {
    labels.replace('/', "%2F").replace('=', "%3D").replace(',', "%2C")
}

fn object_namespace(object: &Value) -> Option<&str> {
    object["metadata"]["namespace"].as_str()
}

fn name(object: &Value) -> Option<String> {
    Some(object["metadata"]["name"].as_str()?.to_owned())
}

/// Waits for something to come true, two minutes at most.
///
/// # Errors
/// When it does not, or looking fails.
pub(crate) async fn until<T>(
    what: &str,
    look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    within(PATIENCE, what, look).await
}

/// The same, so long at most.
///
/// # Errors
/// As [`until`].
pub(crate) async fn within<T>(
    patience: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("{what}: not within {} s", patience.as_secs());
        }
        sleep(LOOK).await;
    }
}
