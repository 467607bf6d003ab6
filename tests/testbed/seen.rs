//! The pods of a namespace, change by change, as a watch shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::cluster::Cluster;

/// What was seen so far; the watch ends with it.
#[derive(Debug)]
pub struct Seen {
    all: Arc<Mutex<Log>>,
    _watch: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Log {
    changes: Vec<Change>,
    /// Why nothing more is seen.
    broken: Option<String>,
}

/// A pod as it was from then on.
#[derive(Clone, Debug)]
pub struct Change {
    /// When this was seen of it.
    pub at: Instant,
    /// What it is called in its namespace.
    pub name: String,
    /// The whole of it, as the API server has it.
    pub pod: Value,
    /// It was gone from then on.
    gone: bool,
}

impl Seen {
    /// Follows the pods of a namespace from now on.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn start(cluster: &Cluster, namespace: &str) -> Result<Self> {
        let pods: Api<Pod> = Api::namespaced(cluster.client().await?, namespace);
        let all = Arc::<Mutex<Log>>::default();
        let listed = pods.list(&ListParams::default()).await?;
        let version = listed.metadata.resource_version.context("a list has a version")?;
        listed.items.into_iter().for_each(|pod| push(&all, pod, false));
        let (mut watch, log) = (JoinSet::new(), all.clone());
        watch.spawn(async move {
            let Err(error) = follow(&pods, version, &log).await else { return };
            lock(&log).broken = Some(format!("{error:#}"));
        });
        Ok(Self { all, _watch: watch })
    }

    /// All changes so far, of pods whose names begin so.
    ///
    /// # Errors
    /// When the watch has ended.
    pub fn of(&self, name: &str) -> Result<Vec<Change>> {
        let log = lock(&self.all);
        ensure!(log.broken.is_none(), "the watch has ended: {:?}", log.broken);
        let changes = log.changes.iter().filter(|change| change.name.starts_with(name));
        Ok(changes.cloned().collect())
    }

    /// How many pods of such a name were ready and not asked to end, at the least: after any change
    /// since so many were for the first time.
    ///
    /// # Errors
    /// When the watch has ended, or so many never were.
    pub fn fewest(&self, name: &str, whole: usize) -> Result<usize> {
        let (mut ready, mut fewest) = (BTreeSet::new(), None);
        for change in self.of(name)? {
            if change.is_ready() && !change.is_ending() {
                ready.insert(change.name);
            } else {
                ready.remove(&change.name);
            }
            if fewest.is_some() || ready.len() >= whole {
                fewest = Some(fewest.unwrap_or(usize::MAX).min(ready.len()));
            }
        }
        fewest.with_context(|| format!("{whole} pods {name} were never ready"))
    }

    /// Pods of such a name that were asked to end, and when that was seen.
    ///
    /// # Errors
    /// When the watch has ended.
    pub fn asked_to_end(&self, name: &str) -> Result<BTreeMap<String, Instant>> {
        let mut asked = BTreeMap::new();
        for change in self.of(name)?.into_iter().filter(Change::is_ending) {
            asked.entry(change.name).or_insert(change.at);
        }
        Ok(asked)
    }

    /// The pods of such a name that are there and not asked to end, by node.
    ///
    /// # Errors
    /// When the watch has ended.
    pub fn there(&self, name: &str) -> Result<BTreeMap<String, String>> {
        let mut there = BTreeMap::new();
        for change in self.of(name)? {
            let node = change.pod["spec"]["nodeName"].as_str().unwrap_or_default();
            if change.is_ending() {
                there.remove(&change.name);
            } else {
                there.insert(change.name, node.to_owned());
            }
        }
        Ok(there)
    }

    /// With which code the container of such a pod ended, as home has it, while it had the pod.
    ///
    /// # Errors
    /// When the watch has ended.
    pub fn exit_code(&self, name: &str) -> Result<Option<i64>> {
        let code = "/status/containerStatuses/0/state/terminated/exitCode";
        let codes = self.of(name)?;
        Ok(codes.iter().find_map(|change| change.pod.pointer(code)?.as_i64()))
    }

    /// Why such pods were disrupted, as their conditions say it.
    ///
    /// # Errors
    /// When the watch has ended.
    pub fn disrupted(&self, name: &str) -> Result<BTreeSet<String>> {
        let changes = self.of(name)?;
        let reasons = changes.iter().filter_map(|change| {
            let said = change.condition("DisruptionTarget")?;
            (said["status"] == "True").then(|| said["reason"].as_str().map(str::to_owned))?
        });
        Ok(reasons.collect())
    }
}

impl Change {
    /// It is ready to serve.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|ready| ready["status"] == "True")
    }

    /// It is asked to end, or gone.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.gone || !self.pod["metadata"]["deletionTimestamp"].is_null()
    }

    /// What the pod says by a condition of this kind.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Value> {
        let all = self.pod["status"]["conditions"].as_array()?;
        all.iter().find(|condition| condition["type"] == kind)
    }
}

async fn follow(pods: &Api<Pod>, mut version: String, log: &Mutex<Log>) -> Result<()> {
    loop {
        let mut events = pods.watch(&WatchParams::default(), &version).await?.boxed();
        while let Some(event) = events.try_next().await? {
            let (pod, gone) = match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => (pod, false),
                WatchEvent::Deleted(pod) => (pod, true),
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(error) => anyhow::bail!("{error}"),
            };
            version = pod.metadata.resource_version.clone().context("a pod has a version")?;
            push(log, pod, gone);
        }
    }
}

fn push(log: &Mutex<Log>, pod: Pod, gone: bool) {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let pod = serde_json::to_value(pod).unwrap_or_default();
    lock(log).changes.push(Change { at: Instant::now(), name, pod, gone });
}

fn lock(log: &Mutex<Log>) -> std::sync::MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}
