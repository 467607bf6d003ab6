//! Mercato's programs on the nodes of a cluster, beside its daemon: this workspace's own, in pods,
//! as an owner installs them by `config/deploy/optional/nodes.yaml`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::image;
use crate::wait;

/// The namespace of the manifest.
const NAMESPACE: &str = "mercato-nodes";

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/deploy/optional/nodes.yaml");
/// What an owner writes another name for.
const PLACEHOLDER: &str = "registry.example/mercato:1";
const PATIENCE: Duration = Duration::from_secs(60);

/// The programs on a cluster's real nodes.
#[derive(Debug)]
pub struct Nodes<'a> {
    cluster: &'a Cluster,
    archive: PathBuf,
}

/// A pod of the program on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Agent {
    name: String,
    restarts: u64,
}

impl<'a> Nodes<'a> {
    /// Installs them, and waits until they run on these nodes, counted from 1. The others cannot
    /// get the image before [`Nodes::comes_to`]. The daemon's own rights and policies are there.
    ///
    /// # Errors
    /// When something stands in the way, or one does not run within a minute.
    pub async fn install(cluster: &'a Cluster, program: &Path, on: &[u8]) -> Result<Self> {
        let archive = image::of_program(program)?;
        try_join_all(on.iter().map(|number| cluster.import(*number, &archive))).await?;
        let manifest = fs::read_to_string(MANIFEST)?;
        ensure!(manifest.contains(PLACEHOLDER), "the manifest has another image");
        cluster.apply(&manifest.replace(PLACEHOLDER, image::MERCATO)).await?;
        let this = Self { cluster, archive };
        try_join_all(on.iter().map(|number| this.runs(*number))).await?;
        Ok(this)
    }

    /// Lets one of the nodes get the image, and waits until the program runs there.
    ///
    /// # Errors
    /// When it does not within a minute.
    pub async fn comes_to(&self, number: u8) -> Result<()> {
        self.cluster.import(number, &self.archive).await?;
        // A kubelet that has not got an image waits longer and longer.
        self.replaced(number).await
    }

    /// Ends the programs on all nodes, as the DaemonSet of an owner who leads them elsewhere does, or
    /// has them come back.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn leave(&self, leave: bool) -> Result<()> {
        let os = if leave { "none" } else { "linux" };
        let selector = json!({ "kubernetes.io/os": os });
        let spec = json!({ "spec": { "template": { "spec": { "nodeSelector": selector } } } });
        let patch = ["-n", NAMESPACE, "patch", "daemonset/mercato-node", "-p", &spec.to_string()];
        self.cluster.kubectl(&patch).await?.ok().map(drop)
    }

    /// Kills the program on one of the nodes (`SIGKILL`), and waits until it runs again.
    ///
    /// # Errors
    /// When it does not run, or not again within a minute.
    pub async fn killed(&self, number: u8) -> Result<()> {
        let before = self.agent(number).await?.context("there is no pod")?;
        self.cluster.kills_containers_of(number, NAMESPACE, &before.name).await?;
        self.running(number, |now| now.name == before.name && now.restarts > before.restarts).await
    }

    /// Deletes the program's pod on one of the nodes, and waits until another one runs.
    ///
    /// # Errors
    /// When there is none, or no other one runs within a minute.
    pub async fn replaced(&self, number: u8) -> Result<()> {
        let pod = || async { Ok(self.any(number).await?.is_some()) };
        wait::until("there is a pod for the node", PATIENCE, pod).await?;
        let before = self.any(number).await?.context("there is no pod")?;
        let delete = ["-n", NAMESPACE, "delete", "pod", &before.name, "--wait=false"];
        self.cluster.kubectl(&delete).await?.ok()?;
        self.running(number, |now| now.name != before.name).await
    }

    /// Waits until the program runs on one of the nodes.
    ///
    /// # Errors
    /// When it does not within a minute.
    pub async fn runs(&self, number: u8) -> Result<()> {
        self.running(number, |_| true).await
    }

    async fn running(&self, number: u8, which: impl Fn(&Agent) -> bool) -> Result<()> {
        let what = format!("the program on {} runs", self.cluster.machine(number).name());
        wait::until(&what, PATIENCE, || async {
            Ok(self.agent(number).await?.is_some_and(|agent| which(&agent)))
        })
        .await
    }

    /// The pod on a node, if its container runs.
    async fn agent(&self, number: u8) -> Result<Option<Agent>> {
        let pod = self.pod(number).await?;
        let container = |pod: &Value| pod["status"]["containerStatuses"][0].clone();
        let runs = pod.filter(|pod| !container(pod)["state"]["running"].is_null());
        runs.map(|pod| Agent::read(&pod)).transpose()
    }

    async fn any(&self, number: u8) -> Result<Option<Agent>> {
        self.pod(number).await?.map(|pod| Agent::read(&pod)).transpose()
    }

    /// That of a node, if it is not being deleted.
    async fn pod(&self, number: u8) -> Result<Option<Value>> {
        let on = format!("spec.nodeName={}", self.cluster.machine(number).name());
        let pods = ["-n", NAMESPACE, "get", "pods", "--field-selector", &on, "-o", "json"];
        let pods: Value = serde_json::from_str(&self.cluster.kubectl(&pods).await?.ok()?)?;
        let all = pods["items"].as_array().context("a list of pods")?;
        Ok(all.iter().find(|pod| pod["metadata"]["deletionTimestamp"].is_null()).cloned())
    }
}

impl Agent {
    fn read(pod: &Value) -> Result<Self> {
        let name = pod["metadata"]["name"].as_str().context("a pod has a name")?.to_owned();
        let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        Ok(Self { name, restarts: restarts.unwrap_or(0) })
    }
}
