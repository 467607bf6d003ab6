//! Two real clusters, each with the chart of `config/deploy/chart` and nothing else: the daemons run
//! in pods, find each other on the LAN and trade, and a pod of one runs on the other and answers. The
//! certificate of its virtual node needs no person. An upgrade of the chart leaves that pod alone, and so
//! do another build and the way back: no request waits for longer than the daemon takes to start anew.
//! People ask a daemon from a desk, by their own rights. What is uninstalled leaves nothing, be the
//! daemons there or not. At level full each cluster has two nodes, and at the end all is done as the second
//! half of the quick start says.
#![allow(clippy::disallowed_methods, reason = "installations take time")]

mod desk;
mod page;
mod shop;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{Cluster, ClusterSpec};
use mercato_tests::installed::Installed;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Level, Stage, Test};
use mercato_tests::tunnel::has_no_tunnel;
use mercato_tests::wait;
use serde_json::{Value, json};

use desk::Desk;
use shop::Shop;

const PATIENCE: Duration = Duration::from_secs(60);
/// For how long a tunnel may be silent while one of its daemons is exchanged: far above what it takes,
/// which is printed: one to two seconds, of which Kubernetes takes most for another pod.
const SILENT: Duration = Duration::from_secs(20);
const SHARE: [&str; 8] = ["share", "set", "--cpu", "80%", "--memory", "80%", "--price", "free"];
const ORDER: [&str; 9] =
    ["order", "--cpu", "500m", "--memory", "1Gi", "--pods", "8", "--for", "1h"];
/// What the chart can add without the operator of Prometheus.
const ALL: [&str; 6] = [
    "offloadAll",
    "privilegedGuests",
    "tokenAudiences",
    "podDisruptionBudget",
    "metrics.enabled",
    "metrics.dashboard",
];
const CHART: &str = include_str!("../../../config/deploy/chart/Chart.yaml");
const KREW: &str = include_str!("../../../config/deploy/krew/mercato.yaml");

fn main() -> ExitCode {
    let nodes = if suite::level() == Level::Full { 2 } else { 1 };
    let cluster = |name| ClusterSpec { nodes, ..ClusterSpec::named(name) };
    let domain = page::DOMAIN.to_owned();
    let rome = ClusterSpec { verify_kubelets: true, domain, ..cluster("rome") };
    let clusters = vec![rome, cluster("turin")];
    let tests = vec![
        Test::ci("the_charts_version_is_the_programs", |_| Box::pin(async { same_version() })),
        Test::ci("by_one_chart", |stage| Box::pin(by_one_chart(stage))),
        Test::full("by_the_quick_start_for_clusters_of_ones_own", |stage| {
            Box::pin(page::works_as_it_stands(stage))
        }),
    ];
    suite::run_in_turn("install", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

fn same_version() -> Result<()> {
    for key in ["version", "appVersion"] {
        let line = format!("\n{key}: {}\n", env!("CARGO_PKG_VERSION"));
        ensure!(CHART.contains(&line), "Chart.yaml has another {key}");
    }
    let line = format!("\n  version: v{}\n", env!("CARGO_PKG_VERSION"));
    ensure!(KREW.contains(&line), "the manifest of krew has another version");
    Ok(())
}

async fn by_one_chart(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let program = stage.program("mercato")?;
    rome.kubectl(&["create", "namespace", "shop"]).await?.ok()?;
    let before = (rome.objects().await?, turin.objects().await?);
    let mut timer = StepTimer::start();
    let home = Installed::install(rome, &program, &config("rome", "warm")).await?;
    let provider = Installed::install(turin, &program, &config("turin", "cold")).await?;
    timer.step("installed in both, the daemons are ready");
    home.test().await.context("helm test")?;
    timer.step("the chart's own test has passed");

    found(&home).await.context("find each other")?;
    bought(&home, &provider).await.context("buy")?;
    timer.step("found on the LAN, and bought");
    let shop = Shop::open(rome).await.context("open the shop")?;
    shop.answers().await.context("before the upgrade")?;
    shop.is_read().await.context("read the pod over there")?;
    timer.step("a pod runs over there, has answered, and is read without a person's approval");

    let mut colder = config("turin", "colder");
    colder["kubernetes"] = json!({ "tokenAudiences": ["vault"] });
    upgraded(&provider, &colder, &ALL).await?;
    shop.is_as_it_was().await.context("after the upgrade")?;
    shop.answers().await.context("after the upgrade")?;
    timer.step("the provider was upgraded, and the same pod answers");
    let mut exchanged = vec![&home];
    if suite::level() == Level::Full {
        exchanged.push(&provider);
    }
    for one in exchanged {
        to_next_and_back(one, &shop, &mut timer).await?;
    }

    Desk::at(rome, &program)?.asks().await.context("from a desk")?;
    timer.step("people have asked from a desk, each by their own rights");

    home.uninstall().await.context("helm uninstall in rome")?;
    shop.close().await?;
    rome.is_as_before(&before.0).await.context("in rome")?;
    has_no_tunnel(rome, 1).await.context("in rome")?;
    has_no_guests(turin).await?;
    timer.step("uninstalled in rome, and nothing is left there");
    let home = Installed::install(rome, &program, &config("rome", "warm")).await?;
    bought(&home, &provider).await.context("buy again")?;
    let shop = Shop::open(rome).await.context("open the shop again")?;
    timer.step("installed in rome again: it was never anybody else");
    for (installed, before) in [(&provider, &before.1), (&home, &before.0)] {
        installed.loses_its_daemon().await?;
        installed.uninstall().await.context("helm uninstall without a daemon")?;
        if installed.cluster.name() == "rome" {
            shop.close().await?;
        }
        installed.cluster.is_as_before(before).await.context("without a daemon")?;
        has_no_tunnel(installed.cluster, 1).await.context("without a daemon")?;
        timer.step("uninstalled without a daemon, and nothing is left");
    }
    Ok(())
}

fn config(name: &str, region: &str) -> Value {
    json!({ "name": name, "region": region, "gateway": { "enabled": true } })
}

/// With no configuration, by mDNS.
async fn found(home: &Installed<'_>) -> Result<()> {
    wait::until("turin is found on the LAN and connected", PATIENCE, || async {
        let peers = home.json(&["peers"]).await?;
        let all = peers.as_array().context("a list of peers")?;
        let turin = all.iter().find(|peer| peer["name"] == "turin");
        let turin = turin.with_context(|| format!("no turin in {peers}"))?;
        let mdns = turin["found"].as_array().is_some_and(|found| found.contains(&"mdns".into()));
        ensure!(mdns && turin["connected"].is_string(), "{turin}");
        Ok(true)
    })
    .await
}

/// With what the provider sells by default: guests are kept apart from all but their home.
async fn bought(home: &Installed<'_>, provider: &Installed<'_>) -> Result<()> {
    let terms = ["--pods", "40", "--approve", "auto"];
    provider.mercato(&[&SHARE[..], &terms].concat()).await?.ok()?;
    home.sees_offer_of("turin").await?;
    home.mercato(&["peer", "trust", "turin", "--yes"]).await?.ok()?;
    let order = [&ORDER[..], &["--from", "turin", "--wait", "--timeout", "60s"]].concat();
    home.mercato(&order).await?.ok().map(drop)
}

/// The daemon runs in another pod from then on, with the same contracts.
async fn upgraded(one: &Installed<'_>, config: &Value, on: &[&str]) -> Result<()> {
    let before = one.pod().await?;
    one.upgrade(config, on).await.context("helm upgrade")?;
    let now = one.pod().await?;
    ensure!(before != now, "the daemon has not started with what is new: {now}");
    let contracts = one.json(&["contracts", "list"]).await?;
    ensure!(contracts[0]["state"] == "active", "{contracts}");
    Ok(())
}

/// Another build takes the place of this one, and this one its place again; the pod elsewhere is asked
/// all the time.
async fn to_next_and_back(
    one: &Installed<'_>,
    shop: &Shop<'_>,
    timer: &mut StepTimer,
) -> Result<()> {
    let name = one.cluster.name();
    let first = one.build().await?;
    for back in [false, true] {
        let what = if back { "back" } else { "another build" };
        let (asking, before) = (shop.asks_on().await?, one.pod().await?);
        match back {
            false => one.upgrade_to_next().await,
            true => one.roll_back().await,
        }
        .with_context(|| format!("{name}: {what}"))?;
        ensure!(before != one.pod().await?, "{name}: {what}: it is the same daemon");
        let is_first = one.build().await? == first;
        ensure!(is_first == back, "{name}: {what}: it runs as {}", one.build().await?);
        let silent = asking.end().await.with_context(|| format!("{name}: {what}"))?;
        let contracts = one.json(&["contracts", "list"]).await?;
        ensure!(contracts[0]["state"] == "active", "{name}: {what}: {contracts}");
        shop.is_as_it_was().await.with_context(|| format!("{name}: {what}"))?;
        timer.step(&format!("{name}: {what}; no answer for {:.1} s", silent.as_secs_f64()));
        ensure!(silent <= SILENT, "{name}: {what}: no answer for {silent:?}");
    }
    Ok(())
}

/// What rome's daemon has ended is over in turin, too.
async fn has_no_guests(turin: &Cluster) -> Result<()> {
    let guests = ["get", "namespaces", "-l", "mercato.dev/contract", "-o", "name"];
    wait::until("no guest is left in turin", PATIENCE, || async {
        let guests = turin.kubectl(&guests).await?.ok()?;
        ensure!(guests.is_empty(), "{guests}");
        Ok(true)
    })
    .await
}
