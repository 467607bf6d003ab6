//! A cluster that is full, two that sell at different prices, and what is bought of them by itself.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;
use mercato_tests::seen::{Change, Seen};
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::{Value, json};

/// How long what is to come is waited for. How soon it comes is told, and judged by nobody here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// A pod counts once it was Unschedulable for so long.
pub(crate) const AFTER: Duration = Duration::from_secs(1);
/// A contract ends once no pod was on its node for so long.
pub(crate) const IDLE: Duration = Duration::from_secs(5);
/// What each pod asks for.
pub(crate) const POD_CPU_MILLIS: u64 = 500;
/// What the providers ask for, by the hour.
pub(crate) const CHEAP: &str = "cpu=0.02 EUR/h";
pub(crate) const DEAR: &str = "cpu=0.04 EUR/h";
/// States in which a deal is no more.
const OVER: [&str; 2] = ["closed", "terminated"];
/// The daemons of all of them.
pub(crate) struct Market<'a> {
    pub(crate) home: Daemon<'a>,
    pub(crate) turin: Daemon<'a>,
    pub(crate) lyon: Daemon<'a>,
}

/// What the owner of home allows.
#[derive(Clone, Copy)]
pub(crate) struct Allowed<'w> {
    pub(crate) max_price: &'w str,
    /// So many pods in all.
    pub(crate) pods: u64,
    /// The term of each contract.
    pub(crate) term: &'w str,
    pub(crate) budget: Option<&'w str>,
}

/// For most of what is tried.
pub(crate) const USUAL: Allowed<'static> =
    Allowed { max_price: "cpu=0.05 EUR/h", pods: 40, term: "1h", budget: None };

impl<'a> Market<'a> {
    /// As the test before has left it, or a new one.
    pub(crate) async fn open(stage: &'a Stage) -> Result<Self> {
        let program = stage.program("mercato")?;
        let clusters = ["rome", "turin", "lyon"].map(|name| stage.cluster(name));
        if Daemon::runs(clusters[0])? {
            let [home, turin, lyon] = clusters.map(|cluster| Daemon::attach(cluster, &program));
            return Ok(Self { home, turin, lyon });
        }
        let [home, turin, lyon] = clusters.map(|cluster| Daemon::start(cluster, &program, ""));
        let (home, turin, lyon) = futures::try_join!(home, turin, lyon)?;
        let this = Self { home, turin, lyon };
        futures::try_join!(sells(&this.turin, CHEAP), sells(&this.lyon, DEAR), this.is_full())?;
        for name in ["turin", "lyon"] {
            this.home.sees_offer_of(name).await?;
            this.home.mercato(&["peer", "trust", name, "--yes"]).await?.ok()?;
        }
        Ok(this)
    }

    pub(crate) fn rome(&self) -> &'a Cluster {
        self.home.cluster
    }

    /// Home's one node has no room left.
    async fn is_full(&self) -> Result<()> {
        self.rome().apply(&pod("default", "full", &cpu_spec("32")).to_string()).await?;
        let ready = ["wait", "pod/full", "--for=condition=Ready", "--timeout=60s"];
        self.rome().kubectl(&ready).await?.ok().map(drop)
    }

    /// The owner's word from now on.
    pub(crate) async fn allows(&self, allowed: Allowed<'_>) -> Result<()> {
        let Allowed { max_price, pods, term, budget } = allowed;
        let most = format!("cpu={}m,memory=256Gi,pods={pods}", pods * POD_CPU_MILLIS);
        let bursts = json!({
            "maxPrice": max_price, "most": most, "for": term,
            "after": seconds(AFTER), "idle": seconds(IDLE),
        });
        let mut buy = json!({ "bursts": bursts });
        if let Some(budget) = budget {
            buy["budget"] = budget.into();
        }
        let policy = json!({
            "apiVersion": "mercato.dev/v1alpha1", "kind": "MarketPolicy",
            "metadata": { "name": "default" }, "spec": { "buy": buy },
        });
        self.rome().apply(&policy.to_string()).await?;
        wait::until("the owner's word holds", PATIENCE, || async {
            let get = ["get", "marketpolicy", "default", "-o", "json"];
            let is: Value = serde_json::from_str(&self.rome().kubectl(&get).await?.ok()?)?;
            let ready = condition(&is, "Ready");
            ensure!(ready["observedGeneration"] == is["metadata"]["generation"], "{ready}");
            ensure!(ready["reason"] == "Holds", "{ready}");
            Ok(true)
        })
        .await
    }

    /// A namespace whose pods may leave home, and for which is bought where `burst` says so.
    pub(crate) async fn opens(&self, namespace: &str, burst: bool) -> Result<()> {
        self.home.offload_as(namespace, &json!({ "strategy": "Both", "burst": burst })).await
    }

    /// Makes a namespace, and lets its pods burst.
    pub(crate) async fn bursts(&self, namespace: &str) -> Result<()> {
        self.rome().kubectl(&["create", "namespace", namespace]).await?.ok()?;
        self.opens(namespace, true).await
    }

    /// So many pods without room.
    pub(crate) async fn deploys(&self, namespace: &str, pods: u64) -> Result<()> {
        self.deploys_as(namespace, pods, &cpu_spec(&format!("{POD_CPU_MILLIS}m"))).await
    }

    /// The same of this spec.
    pub(crate) async fn deploys_as(&self, namespace: &str, pods: u64, spec: &Value) -> Result<()> {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "namespace": namespace },
            "spec": {
                "replicas": pods, "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": spec,
                },
            },
        });
        self.rome().apply(&deployment.to_string()).await
    }

    pub(crate) async fn scales(&self, namespace: &str, pods: u64) -> Result<()> {
        let replicas = format!("--replicas={pods}");
        let scale = ["-n", namespace, "scale", "deployment", "web", &replicas];
        self.rome().kubectl(&scale).await?.ok().map(drop)
    }

    /// What was ever ordered for pods of a namespace.
    pub(crate) async fn ordered(&self, namespace: &str) -> Result<Vec<Value>> {
        let all = self.home.json(&["contracts", "list", "--all"]).await?;
        let mut all = all.as_array().context("a list of contracts")?.clone();
        all.retain(|deal| deal["burst"] == namespace);
        Ok(all)
    }

    /// What of it is not over.
    pub(crate) async fn bought(&self, namespace: &str) -> Result<Vec<Value>> {
        let mut all = self.ordered(namespace).await?;
        all.retain(|deal| !is_over(deal));
        Ok(all)
    }

    /// What is said of pods of a namespace by events of this reason, by the names of the pods.
    pub(crate) async fn told(&self, ns: &str, reason: &str) -> Result<BTreeMap<String, String>> {
        let events: Api<Event> = Api::namespaced(self.rome().client().await?, ns);
        let select = format!("reason={reason}");
        let events = events.list(&ListParams::default().fields(&select)).await?;
        let of = |event: Event| Some((event.involved_object.name?, event.message?));
        Ok(events.items.into_iter().filter_map(of).collect())
    }

    /// Waits until nothing that was ordered for pods of a namespace goes on, at either side.
    pub(crate) async fn nothing_is_left(&self, namespace: &str) -> Result<()> {
        wait::until("nothing is left at either side", PATIENCE, || async {
            let ordered = self.ordered(namespace).await?;
            for side in [&self.home, &self.turin, &self.lyon] {
                let all = side.json(&["contracts", "list", "--all"]).await?;
                let requests = side.json(&["requests", "list"]).await?;
                let all = [&all, &requests].into_iter().filter_map(Value::as_array).flatten();
                let is_of = |deal: &Value| ordered.iter().any(|it| it["id"] == deal["id"]);
                let left: Vec<Value> =
                    all.filter(|deal| is_of(deal) && !is_over(deal)).cloned().collect();
                ensure!(left.is_empty(), "{} has {}", side.cluster.name(), brief(&left));
            }
            Ok(true)
        })
        .await
    }
}

/// Shares most of a cluster for this price, and grants at once.
pub(crate) async fn sells(provider: &Daemon<'_>, price: &str) -> Result<()> {
    let share = ["share", "set", "--cpu", "80%", "--memory", "80%", "--pods", "2000"];
    let terms = ["--price", price, "--approve", "auto", "--network-isolation", "none"];
    provider.mercato(&[&share[..], &terms].concat()).await?.ok().map(drop)
}

pub(crate) fn is_over(deal: &Value) -> bool {
    OVER.iter().any(|state| deal["state"] == *state)
}

/// What came to a contract, whether it is over or not.
pub(crate) fn signed(deals: &[Value]) -> Vec<Value> {
    deals.iter().filter(|deal| deal["state"] != "terminated").cloned().collect()
}

/// What a reader needs of deals.
pub(crate) fn brief(deals: &[Value]) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |deal: &Value| {
        let [peer, state, reason] = ["peerName", "state", "reason"].map(|of| text(&deal[of]));
        let pods = &deal["terms"]["quantity"]["pods"];
        format!("{pods} pods of {peer} {state} {reason}")
    };
    deals.iter().map(of).collect::<Vec<_>>().join("; ")
}

/// For how many pods all of these are.
pub(crate) fn pods_of(deals: &[Value]) -> u64 {
    deals.iter().filter_map(|deal| deal["terms"]["quantity"]["pods"].as_u64()).sum()
}

/// The pods that run or ran, with the change by which it was seen.
pub(crate) fn running(seen: &Seen) -> Result<Vec<Change>> {
    let mut first = BTreeMap::new();
    for change in seen.of("")?.into_iter().filter(|it| it.pod["status"]["phase"] == "Running") {
        first.entry(change.name.clone()).or_insert(change);
    }
    Ok(first.into_values().collect())
}

/// When the scheduler was first seen to have no room for one.
pub(crate) fn without_room(seen: &Seen) -> Result<Instant> {
    let says_so = |change: &Change| {
        let said = change.condition("PodScheduled");
        said.is_some_and(|it| it["status"] == "False" && it["reason"] == "Unschedulable")
    };
    let first = seen.of("")?.into_iter().find(says_so);
    Ok(first.context("no pod was Unschedulable")?.at)
}

pub(crate) fn pod(namespace: &str, name: &str, spec: &Value) -> Value {
    let metadata = json!({ "name": name, "namespace": namespace });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
}

pub(crate) fn cpu_spec(cpu: &str) -> Value {
    json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [{
            "name": "main", "image": "mercato.test/busybox:1",
            "resources": { "requests": { "cpu": cpu, "memory": "64Mi" } },
        }],
    })
}

fn condition(of: &Value, kind: &str) -> Value {
    let all = of["status"]["conditions"].as_array();
    let found = all.into_iter().flatten().find(|condition| condition["type"] == kind);
    found.cloned().unwrap_or_default()
}

fn seconds(of: Duration) -> String {
    format!("{}s", of.as_secs())
}
