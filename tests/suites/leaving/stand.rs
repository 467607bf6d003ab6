//! A cluster that buys, one that sells, and what both show.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::{Daemon, order};
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::{Value, json};

/// What a notice or an extension shows at once.
pub(crate) const SOON: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);
/// Notice that is promised, and so the longest that a guest may take to end.
pub(crate) const NOTICE: Duration = Duration::from_mins(4);

/// The daemons of both sides.
pub(crate) struct Stand<'a> {
    pub(crate) home: Daemon<'a>,
    pub(crate) provider: Daemon<'a>,
}

/// A contract, and the node that stands for it.
pub(crate) struct Lease {
    pub(crate) id: String,
    pub(crate) node: String,
}

impl<'a> Stand<'a> {
    pub(crate) async fn open(stage: &'a Stage) -> Result<Self> {
        let program = stage.program("mercato")?;
        let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
        if Daemon::runs(rome)? {
            let [home, provider] = [rome, turin].map(|it| Daemon::attach(it, &program));
            return Ok(Self { home, provider });
        }
        let home = Daemon::start(rome, &program, "").await?;
        let provider = Daemon::start(turin, &program, "").await?;
        let share = ["share", "set", "--cpu", "80%", "--memory", "80%", "--pods", "80"];
        let terms = ["--price", "free", "--approve", "auto", "--network-isolation", "none"];
        let notice = format!("{}s", NOTICE.as_secs());
        let notice = ["--reclaim", &notice];
        provider.mercato(&[&share[..], &terms, &notice].concat()).await?.ok()?;
        home.sees_offer_of("turin").await?;
        home.mercato(&["peer", "trust", "turin", "--yes"]).await?.ok()?;
        Ok(Self { home, provider })
    }

    pub(crate) fn rome(&self) -> &'a Cluster {
        self.home.cluster
    }

    /// Buys room for so many pods for so long (`6m`), and waits for the node.
    pub(crate) async fn buys(&self, pods: usize, term: &str) -> Result<Lease> {
        let mut words = order(pods);
        *words.last_mut().context("an order ends with its term")? = term.to_owned();
        words.extend(["--from", "turin", "--wait", "--timeout", "60s"].map(str::to_owned));
        let ordered = self.home.json(&words.iter().map(String::as_str).collect::<Vec<_>>()).await?;
        let id = ordered["id"].as_str().context("an order has an id")?.to_owned();
        let shown = self.home.json(&["contracts", "show", &id]).await?;
        let node = shown["node"].as_str().context("a contract has a node")?.to_owned();
        Ok(Lease { id, node })
    }

    /// A namespace whose pods may leave home, and what becomes of them where a node leaves.
    pub(crate) async fn namespace(&self, name: &str, leaving: &str) -> Result<()> {
        self.rome().kubectl(&["create", "namespace", name]).await?.ok()?;
        self.home.offload(name, "Both").await?;
        let patch = json!({ "spec": { "leaving": leaving } }).to_string();
        let object = ["-n", name, "namespaceoffload/default"];
        let patch = [&["patch"], &object[..], &["--type=merge", "-p", &patch]].concat();
        self.rome().kubectl(&patch).await?.ok()?;
        wait::until("the daemon has read it", PATIENCE, || async {
            let get = [&["get"], &object[..], &["-o", "json"]].concat();
            let is: Value = serde_json::from_str(&self.rome().kubectl(&get).await?.ok()?)?;
            let ready = condition(&is, "Ready");
            Ok(ready["observedGeneration"] == is["metadata"]["generation"])
        })
        .await
    }

    /// Makes these on one node, while all others are cordoned, and waits until each is as it should be
    /// (`rollout status deploy/web`).
    pub(crate) async fn places(
        &self,
        node: &str,
        objects: &str,
        waits: &[(&str, &[&str])],
    ) -> Result<()> {
        let rome = self.rome();
        let nodes = rome.kubectl(&["get", "nodes", "-o", "name"]).await?.ok()?;
        let names = nodes.lines().filter_map(|line| line.strip_prefix("node/"));
        let others: Vec<&str> = names.filter(|name| *name != node).collect();
        rome.kubectl(&[&["cordon"], &others[..]].concat()).await?.ok()?;
        rome.apply(objects).await?;
        for (namespace, waited) in waits {
            let args = [&["-n", namespace], *waited, &["--timeout=120s"]].concat();
            rome.kubectl(&args).await?.ok()?;
        }
        rome.kubectl(&[&["uncordon"], &others[..]].concat()).await?.ok().map(drop)
    }

    pub(crate) async fn node(&self, name: &str) -> Result<Value> {
        let node = self.rome().kubectl(&["get", "node", name, "-o", "json"]).await?.ok()?;
        Ok(serde_json::from_str(&node)?)
    }

    /// Whether a node says that it leaves, by taint and condition, which have to agree.
    pub(crate) async fn leaves(&self, name: &str) -> Result<bool> {
        let node = self.node(name).await?;
        let said = condition(&node, "mercato.dev/Leaving");
        let (taint, says) = (has_taint(&node, "mercato.dev/leaving"), said["status"] == "True");
        ensure!(taint == says, "the taint is there: {taint}; the condition is {said}");
        Ok(says)
    }

    /// Somebody has cordoned the node, or nobody has, and it stays so.
    pub(crate) async fn is_cordoned(&self, name: &str, is_cordoned: bool) -> Result<()> {
        let node = self.node(name).await?;
        let is = node["spec"]["unschedulable"] == true;
        ensure!(is == is_cordoned, "node {name} is cordoned: {is}");
        Ok(())
    }

    pub(crate) async fn is_gone(&self, node: &str, patience: Duration) -> Result<()> {
        wait::until(&format!("node {node} is gone"), patience, || async {
            let nodes = self.rome().kubectl(&["get", "nodes", "-o", "name"]).await?.ok()?;
            ensure!(!nodes.lines().any(|line| line.strip_prefix("node/") == Some(node)), "{nodes}");
            Ok(true)
        })
        .await
    }

    /// What is told of an object whose name begins so, for this reason.
    pub(crate) async fn told(
        &self,
        namespace: &str,
        name: &str,
        reason: &str,
    ) -> Result<Vec<String>> {
        let select = format!("--field-selector=reason={reason}");
        let get = ["-n", namespace, "get", "events", &select, "-o", "json"];
        let events: Value = serde_json::from_str(&self.rome().kubectl(&get).await?.ok()?)?;
        let all = events["items"].as_array().context("a list")?.iter();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of = all.filter(|event| text(&event["involvedObject"]["name"]).starts_with(name));
        Ok(of.map(|event| text(&event["message"])).collect())
    }

    /// The same, which is to say this, too.
    pub(crate) async fn was_told(
        &self,
        namespace: &str,
        name: &str,
        reason: &str,
        words: &str,
    ) -> Result<()> {
        let said = self.told(namespace, name, reason).await?;
        let is_said = said.iter().any(|text| text.contains(words));
        ensure!(is_said, "no {reason} of {name} says {words:?}: {said:?}");
        Ok(())
    }

    pub(crate) async fn json(&self, namespace: &str, what: &str) -> Result<Value> {
        let get = ["-n", namespace, "get", what, "-o", "json"];
        Ok(serde_json::from_str(&self.rome().kubectl(&get).await?.ok()?)?)
    }
}

pub(crate) fn has_taint(node: &Value, key: &str) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints.into_iter().flatten().any(|taint| taint["key"] == key)
}

pub(crate) fn condition(of: &Value, kind: &str) -> Value {
    let all = of["status"]["conditions"].as_array();
    let found = all.into_iter().flatten().find(|condition| condition["type"] == kind);
    found.cloned().unwrap_or_default()
}
