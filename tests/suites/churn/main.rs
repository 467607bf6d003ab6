//! What begins ends: namespaces with pods come and go at two homes, of which one offloads all
//! its namespaces and one those with a NamespaceOffload, and run on simulated nodes elsewhere;
//! and leases come and go.
//! Afterwards each daemon has what it had before: tasks, watches, requests, descriptors, guest
//! namespaces, records and memory; and no warning repeats.
#![allow(clippy::disallowed_methods, reason = "requests are counted over a time")]

mod figures;
mod leases;

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use mercato_tests::cluster::{Cluster, ClusterSpec, Kind};
use mercato_tests::daemon::{Daemon, PART, deploy_file};
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Level, Stage, Test};
use mercato_tests::wait;
use serde_json::Value;

use figures::Figures;

fn main() -> ExitCode {
    let home = |name| ClusterSpec { nodes: 0, ..ClusterSpec::named(name) };
    let provider =
        ClusterSpec { nodes: 0, simulated: vec![Kind::plain(12)], ..ClusterSpec::named("turin") };
    let clusters = vec![home("rome"), home("milan"), provider];
    let tests = vec![Test::ci("what_begins_ends", |s| Box::pin(come_and_go(s)))];
    suite::run("churn", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

/// Where home's namespaces are opted in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptIn {
    All,
    NamespaceOffload,
}

const PATIENCE: Duration = Duration::from_secs(600);
const PODS_EACH: usize = 10;

async fn come_and_go(stage: &Stage) -> Result<()> {
    let whole = suite::level() == Level::Full;
    // Of each home: waves, namespaces in each, and how long requests are counted.
    let (waves, namespaces, window) = match whole {
        true => (5, 50, Duration::from_secs(60)),
        false => (1, 8, Duration::from_secs(10)),
    };
    let ended = if whole { 100 } else { 8 };
    let mut timer = StepTimer::start();
    let program = stage.program("mercato")?;
    let [rome, milan, turin] = ["rome", "milan", "turin"].map(|name| stage.cluster(name));
    let (all, chosen, provider) = futures::join!(
        Daemon::start(rome, &program, "kubernetes: {offload: all}"),
        Daemon::start(milan, &program, ""),
        Daemon::start(turin, &program, "")
    );
    let (all, chosen, provider) = (all?, chosen?, provider?);
    // Over the policies that a daemon's start brings.
    deploy_file(rome, "optional/offload-all.yaml").await?;
    for home in [&all, &chosen] {
        home.leases_from(&provider, namespaces * PODS_EACH).await?;
    }
    timer.step("three daemons have two leases");
    let daemons = [&all, &chosen, &provider];
    // What is done once for a lease is done by then.
    let before = try_join_all(daemons.map(|daemon| quiet(daemon, window))).await?;
    timer.step("nothing happens: requests are counted");
    for wave in 0..waves {
        let wave = |opt_in| Wave { number: wave, namespaces, opt_in };
        let (rome, milan) = (wave(OptIn::All), wave(OptIn::NamespaceOffload));
        futures::try_join!(rome.comes(&all), milan.comes(&chosen))?;
        ensure!(Figures::of(&provider).await?.guest_namespaces >= namespaces as u64, "no guests");
        timer.step("all pods run");
        futures::try_join!(rome.goes(&all), milan.goes(&chosen))?;
        timer.step("all namespaces are gone at home");
    }
    guests_go(turin).await?;
    timer.step("the guest namespaces are gone");
    leases::come_and_go(&all, &provider, ended).await?;
    timer.step("leases have come and gone");
    for (daemon, (before, _)) in daemons.iter().zip(&before) {
        let name = daemon.cluster.name();
        wait::until(&format!("{name} has ended what it began"), PATIENCE, || async {
            Figures::of(daemon).await?.are_as(before, ended)?;
            Ok(true)
        })
        .await?;
    }
    timer.step("each daemon has what it had before");
    let after = try_join_all(daemons.map(|daemon| quiet(daemon, window))).await?;
    for ((daemon, before), after) in daemons.iter().zip(before).zip(after) {
        compare(daemon, &before, &after, window)?;
    }
    timer.step("as many requests as before");
    Ok(())
}

/// Figures, and requests with those that were forbidden in a time in which nothing happens.
async fn quiet(daemon: &Daemon<'_>, time: Duration) -> Result<(Figures, (u64, u64))> {
    let (first, warnings) = (Figures::of(daemon).await?, warnings(daemon.cluster)?);
    tokio::time::sleep(time).await;
    let last = Figures::of(daemon).await?;
    let more = (last.requests.0 - first.requests.0, last.requests.1 - first.requests.1);
    let further = warnings_since(daemon.cluster, &warnings)?;
    ensure!(further.is_empty(), "{}: {further:#?}", daemon.cluster.name());
    Ok((last, more))
}

fn compare(
    daemon: &Daemon<'_>,
    (before, requests_before): &(Figures, (u64, u64)),
    (after, (requests, forbidden)): &(Figures, (u64, u64)),
    window: Duration,
) -> Result<()> {
    let name = daemon.cluster.name();
    println!("{name} before: {before:?}, in {window:?} {requests_before:?} requests");
    println!("{name} after:  {after:?}, in {window:?} {:?} requests", (requests, forbidden));
    // What is looked at or renewed every ten seconds may fall into the one window and not into
    // the other: a node, its lease, the API server's version and kinds, a contract's status.
    let more = 6 + requests_before.0 / 10;
    ensure!(*requests <= requests_before.0 + more, "{name}: {requests} requests in {window:?}");
    ensure!(*forbidden == 0, "{name}: {forbidden} requests were forbidden");
    for (line, times) in warnings(daemon.cluster)? {
        println!("{name}: {times} x {line}");
        ensure!(times <= REPEATS, "{name} warned {times} times: {line}");
    }
    Ok(())
}

/// Something may fail in the same words for one or the other object.
const REPEATS: usize = 3;

/// Warnings in the log without their time, and how often each is there.
fn warnings(cluster: &Cluster) -> Result<BTreeMap<String, usize>> {
    let path = cluster.data_outside().join("logs").join(PART);
    let log = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut all = BTreeMap::new();
    for line in log.lines() {
        let Ok(mut line) = serde_json::from_str::<Value>(line) else { continue };
        if line["level"] == "WARN" || line["level"] == "ERROR" {
            line["timestamp"].take();
            *all.entry(line.to_string()).or_default() += 1;
        }
    }
    Ok(all)
}

/// Those that are further or more often there than before.
fn warnings_since(cluster: &Cluster, before: &BTreeMap<String, usize>) -> Result<Vec<String>> {
    let all = warnings(cluster)?.into_iter();
    Ok(all.filter(|(line, n)| before.get(line) != Some(n)).map(|(line, _)| line).collect())
}

/// Namespaces that come and go together at one home.
struct Wave {
    number: usize,
    namespaces: usize,
    opt_in: OptIn,
}

impl Wave {
    async fn comes(&self, home: &Daemon<'_>) -> Result<()> {
        let (offloads, workloads): (Vec<_>, Vec<_>) =
            (0..self.namespaces).map(|n| self.manifests(n)).unzip();
        home.cluster.apply(&offloads.concat()).await?;
        if self.opt_in == OptIn::NamespaceOffload {
            let ready = ["wait", "nso", "--all", "-A", "--for=condition=Ready", "--timeout=300s"];
            home.cluster.kubectl(&ready).await?.ok()?;
        }
        home.cluster.apply(&workloads.concat()).await?;
        let wanted = self.namespaces * PODS_EACH;
        wait::until(&format!("{wanted} pods are ready"), PATIENCE, || async {
            let all = home.cluster.kubectl(&["get", "deploy", "-A", "-o", "json"]).await?.ok()?;
            let all: Value = serde_json::from_str(&all)?;
            let ready = all["items"].as_array().context("a list")?.iter();
            let ready = ready.filter_map(|one| one["status"]["readyReplicas"].as_u64());
            let ready: u64 = ready.sum();
            ensure!(ready == wanted as u64, "{ready} are");
            Ok(true)
        })
        .await
    }

    async fn goes(&self, home: &Daemon<'_>) -> Result<()> {
        let delete = ["delete", "namespace", "-l", LABEL, "--wait=false"];
        home.cluster.kubectl(&delete).await?.ok()?;
        wait::until("the namespaces are gone", PATIENCE, || async {
            let get = ["get", "namespace", "-l", LABEL, "-o", "name"];
            let left = home.cluster.kubectl(&get).await?.ok()?;
            ensure!(left.is_empty(), "{} are there", left.lines().count());
            Ok(true)
        })
        .await
    }

    /// A namespace that may leave home; and what comes when it may: pods that need a config map
    /// and a secret, and see a service.
    fn manifests(&self, n: usize) -> (String, String) {
        let offload = match self.opt_in {
            OptIn::All => "",
            OptIn::NamespaceOffload => OFFLOAD,
        };
        let named = |manifest: &str| {
            let manifest = manifest.replace("NAME", &format!("run-{}-{n}", self.number));
            manifest.replace("PODS", &PODS_EACH.to_string()) + "---"
        };
        (named(&format!("{NAMESPACE}{offload}")), named(WORKLOAD))
    }
}

const LABEL: &str = "comes=goes";
const NAMESPACE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: NAME, labels: {comes: goes}}
";
const OFFLOAD: &str = "---
apiVersion: mercato.dev/v1alpha1
kind: NamespaceOffload
metadata: {name: default, namespace: NAME}
spec: {strategy: Remote}
";
const WORKLOAD: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: NAME}
data: {colour: red}
---
apiVersion: v1
kind: Secret
metadata: {name: password, namespace: NAME}
stringData: {word: open}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: NAME}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAME}
spec:
  replicas: PODS
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: mercato.test/busybox:1
        envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: password}}]
        resources: {requests: {cpu: 10m, memory: 16Mi}}
";

/// Waits until the provider's cluster has no guest namespace any more.
async fn guests_go(provider: &Cluster) -> Result<()> {
    wait::until("no guest namespace is left", PATIENCE, || async {
        let get = ["get", "namespace", "-l", "mercato.dev/contract", "-o", "name"];
        let left = provider.kubectl(&get).await?.ok()?;
        ensure!(left.is_empty(), "{} are left", left.lines().count());
        Ok(true)
    })
    .await
}
