//! Guests that are closed reach the Internet as far as their contracts say, and nothing of their provider's own,
//! whatever these say. A machine with global addresses plays the Internet.
#![allow(clippy::disallowed_methods, reason = "who is not answered is waited for")]

mod internet;
mod reach;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{Cidrs, Cluster, ClusterSpec, Families};
use mercato_tests::courier::{self, Sender};
use mercato_tests::daemon::{Daemon, PART, deploy};
use mercato_tests::nodes::Nodes;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Stage, Test};
use mercato_tests::user::User;
use mercato_tests::{image, wait};
use serde_json::Value;

use internet::{BEHIND, Internet, NAMED, NAMED_V6, RANGES};
use reach::{OF_NODE, Targets};

const GATEWAY: &str = "gateway:\n  enabled: on";
/// How long what changes takes to be so everywhere, at most: far more than it does.
const SOON: Duration = Duration::from_secs(60);
const GUEST: &str = "worker";
/// More than a hop takes in one piece.
const BYTES: u64 = 100_000;

fn main() -> ExitCode {
    let cluster = |name: &str, nodes| ClusterSpec {
        nodes,
        cidrs: Some(Cidrs::same_of(Families::Both)),
        ..ClusterSpec::named(name)
    };
    let clusters = vec![cluster("rome", 1), cluster("turin", 2)];
    let tests = vec![Test::ci("guests_reach_whom_their_contracts_name", |s| Box::pin(reached(s)))];
    suite::run_in_turn("egress", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

/// A contract, by what its guests reach of the Internet.
struct Lease<'c> {
    /// Its egress as it is ordered, and the namespace of its guests at home.
    egress: &'static str,
    namespace: &'static str,
    id: String,
    home: User<'c>,
    guests: User<'c>,
    guest_namespace: String,
}

async fn reached(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let program = stage.program("mercato")?;
    let mut timer = StepTimer::start();
    let internet = Internet::begin(stage)?;
    turin.on_nth_machine(2, &format!("ip addr add {OF_NODE}/32 dev lo")).await?;
    internet.finds(OF_NODE.parse()?, turin.machine(2).address())?;
    internet.is_found(turin).await?;
    deploy(turin).await?;
    let _agents = Nodes::install(turin, &program, &[1, 2]).await.context("in turin")?;
    let config = format!("{GATEWAY}\n  nodes:\n    image: {}", image::MERCATO);
    let provider = Daemon::prepared(turin, &program, &config).await?;
    let home = Daemon::start(rome, &program, GATEWAY).await?;
    timer.step("daemons answer, and the Internet is there");
    sells(&home, &provider).await?;
    timer.step("egress is on sale");

    let names = [("none", "closed"), ("internet", "open"), (RANGES, "ranges")];
    let mut leases = Vec::new();
    for (egress, namespace) in names {
        leases.push(buys(&home, turin, egress, namespace).await.context(egress)?);
    }
    timer.step("three contracts are signed");
    // One of the open lease on each node.
    let targets = Targets::of(turin).await?;
    for lease in &leases {
        serves(lease, rome, turin).await.with_context(|| lease.egress.to_owned())?;
    }
    for lease in &leases {
        is_found(&internet, turin, lease).await?;
    }
    targets.answer(&internet, turin).await?;
    timer.step("guests run, and all who are there answer an ordinary pod");
    for lease in &leases {
        reaches(lease, &targets).await.with_context(|| lease.egress.to_owned())?;
    }
    timer.step("each reaches whom its contract names, and nobody else");
    calls_at_once(&leases[1]).await.context("with its first instruction")?;
    timer.step("a guest calls with its first instruction");
    for lease in &leases[1..] {
        carries(lease, turin).await.with_context(|| lease.egress.to_owned())?;
        carries_datagrams(lease).await.with_context(|| lease.egress.to_owned())?;
    }
    timer.step("large packets pass a narrow hop, and the node's address is seen");
    is_shown(&home, &provider, &leases[1]).await?;
    // Whatever becomes of daemons, rules stay.
    let open = &leases[1];
    provider.cluster.kill(PART)?;
    home.cluster.kill(PART)?;
    carries(open, turin).await.context("without daemons")?;
    reaches(open, &targets).await.context("without daemons")?;
    for daemon in [&provider, &home] {
        daemon.cluster.restart(PART)?;
        daemon.answers().await?;
    }
    timer.step("it is so without daemons, and without a tunnel");
    ends(&home, open, turin, &targets).await?;
    timer.step("it is over with the contract");
    home.kept_to_its_rights().context("in rome")?;
    provider.kept_to_its_rights().context("in turin")
}

/// The Internet is on sale, to guests that are closed.
async fn sells(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    let share = ["share", "set", "--cpu", "80%", "--memory", "80%", "--pods", "80"];
    let terms = ["--price", "free", "--approve", "auto", "--network-isolation", "required"];
    // Of another node's address a node knows what its owner or the cluster says.
    let except = format!("{OF_NODE}/32");
    let egress = ["--egress", "internet", "--egress-except", &except];
    provider.mercato(&[&share[..], &terms, &egress].concat()).await?.ok()?;
    home.sees_offer_of("turin").await?;
    home.mercato(&["peer", "trust", "turin", "--yes"]).await?.ok()?;
    wait::until("egress is on sale", SOON, || async {
        let found = home.mercato(&["browse", "egress in (internet)", "-o", "json"]).await?;
        ensure!(found.code == Some(0) && found.stdout.contains("turin"), "{found:?}");
        Ok(true)
    })
    .await
}

async fn buys<'c>(
    home: &Daemon<'c>,
    turin: &'c Cluster,
    egress: &'static str,
    namespace: &'static str,
) -> Result<Lease<'c>> {
    let size = ["order", "--cpu", "1", "--memory", "1Gi", "--pods", "4", "--for", "1h"];
    let mut words = [&size[..], &["--from", "turin", "--wait", "--timeout", "60s"]].concat();
    if egress != "none" {
        words.extend(["--egress", egress]);
    }
    let id = home.json(&words).await?["id"].as_str().context("an id")?.to_owned();
    let shown = home.json(&["contracts", "show", &id]).await?;
    let node = shown["node"].as_str().context("a contract has a node")?.to_owned();
    let rome = home.cluster;
    rome.kubectl(&["create", "namespace", namespace]).await?.ok()?;
    home.offload(namespace, "Both").await?;
    let guest_namespace = format!("{namespace}-rome");
    // Names live as long as the suite.
    let [node, guests]: [&'static str; 2] = [node, guest_namespace.clone()].map(leaked);
    let (home, guests) = (User::new(rome, namespace).on(node), User::new(turin, guests));
    Ok(Lease { egress, namespace, id, home, guests, guest_namespace })
}

fn leaked(name: String) -> &'static str {
    Box::leak(name.into_boxed_str())
}

/// A guest of it runs; of the open one on the second node, of the others on the first.
async fn serves(lease: &Lease<'_>, rome: &Cluster, turin: &Cluster) -> Result<()> {
    let other = if lease.namespace == "open" { 1 } else { 2 };
    let other = turin.machine(other).name();
    turin.kubectl(&["cordon", &other]).await?.ok()?;
    let served = lease.home.serves(GUEST).await;
    turin.kubectl(&["uncordon", &other]).await?.ok()?;
    served.with_context(|| format!("in {}", rome.name()))
}

/// Who calls with its first instruction is answered, and need not call again.
async fn calls_at_once(lease: &Lease<'_>) -> Result<()> {
    let port = courier::PORT;
    let calls = format!("nc -w 10 {NAMED} {port} </dev/null >/dev/null");
    lease.home.start("early", &calls, &["--restart=Never"]).await?;
    lease.home.sees("early", "Succeeded").await
}

/// By IPv6 a pod has its own address on the Internet, which has to find it.
async fn is_found(internet: &Internet<'_>, turin: &Cluster, lease: &Lease<'_>) -> Result<()> {
    let node = ["get", "pod", GUEST, "-o", "jsonpath={.spec.nodeName}"];
    let node = lease.guests.kubectl(&node).await?;
    let number = if node.trim() == turin.machine(1).name() { 1 } else { 2 };
    let pod = lease.guests.addresses_of(GUEST).await?.into_iter().find(IpAddr::is_ipv6);
    let pod = pod.with_context(|| format!("{} has IPv4 alone", lease.guest_namespace))?;
    internet.finds(pod, turin.machine(number).address_v6())
}

async fn reaches(lease: &Lease<'_>, targets: &Targets) -> Result<()> {
    let expected: BTreeSet<_> = match lease.egress {
        "none" => BTreeSet::new(),
        "internet" => targets.named.union(&targets.others).copied().collect(),
        _ => targets.named.clone(),
    };
    let found = targets.found(&lease.guests, GUEST).await?;
    let more: Vec<_> = found.difference(&expected).collect();
    let fewer: Vec<_> = expected.difference(&found).collect();
    ensure!(more.is_empty(), "a guest finds {more:?}");
    ensure!(fewer.is_empty(), "a guest does not find {fewer:?}");
    Ok(())
}

/// What is sent in large packets comes back, and is seen as the node's by IPv4.
async fn carries(lease: &Lease<'_>, turin: &Cluster) -> Result<()> {
    let guest = Sender::Pod(lease.guests, GUEST);
    let nodes = [1, 2].map(|number| turin.machine(number).address());
    for to in [NAMED, BEHIND] {
        let carried = guest.tcp(to.parse()?, BYTES, "outward").await.context(to)?;
        ensure!(carried.back == BYTES && nodes.contains(&carried.seen_as), "{to}: {carried:?}");
    }
    let carried = guest.tcp(NAMED_V6.parse()?, BYTES, "outward").await.context(NAMED_V6)?;
    ensure!(carried.back == BYTES, "{carried:?}");
    Ok(())
}

async fn carries_datagrams(lease: &Lease<'_>) -> Result<()> {
    let carried = Sender::Pod(lease.home, GUEST).udp(NAMED.parse()?, 20, "outward").await?;
    ensure!(carried.back > 0, "{carried:?}");
    Ok(())
}

/// Both sides see what was bought.
async fn is_shown(home: &Daemon<'_>, provider: &Daemon<'_>, lease: &Lease<'_>) -> Result<()> {
    for side in [home, provider] {
        let shown = side.mercato(&["contracts", "show", &lease.id]).await?.ok()?;
        let line = shown.lines().find(|line| line.contains("egress"));
        ensure!(line.is_some_and(|line| line.contains("internet")), "{shown}");
    }
    let status: Value = provider.json(&["status"]).await?;
    let unkept = &status["daemon"]["gateway"]["unkept"];
    ensure!(unkept.as_array().is_some_and(Vec::is_empty), "{unkept}");
    Ok(())
}

/// Who goes on after the end reaches nobody.
async fn ends(
    home: &Daemon<'_>,
    lease: &Lease<'_>,
    turin: &Cluster,
    targets: &Targets,
) -> Result<()> {
    let cancel = ["contracts", "cancel", &lease.id, "--reason", "done", "--yes"];
    home.mercato(&cancel).await?.ok()?;
    wait::until("nobody is reached any more", SOON, || async {
        let get = ["-n", &lease.guest_namespace, "get", "pod", GUEST, "--ignore-not-found"];
        if turin.kubectl(&get).await?.ok()?.is_empty() {
            return Ok(true);
        }
        // It may end while it is asked.
        Ok(targets.found(&lease.guests, GUEST).await.is_ok_and(|found| found.is_empty()))
    })
    .await
}
