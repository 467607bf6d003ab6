//! Two real clusters with equal ranges and two nodes each, of which one buys of the other: with the
//! programs of `config/deploy/optional/nodes.yaml`, pods of every node and guests on every node call
//! each other, as those of the daemons' own nodes do.
#![allow(clippy::disallowed_methods, reason = "connections take time")]

mod calls;
mod ends;
mod faults;
mod odd;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{Cidrs, ClusterSpec, Families, PodNetwork, ProxyMode};
use mercato_tests::daemon::{Daemon, deploy};
use mercato_tests::image;
use mercato_tests::nodes::Nodes;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Level, Stage, Test};
use mercato_tests::tunnel::has_no_tunnel;

use calls::{Calls, NAMESPACE};

const GATEWAY: &str = "gateway:\n  enabled: on";
const PODS: usize = 8;

fn main() -> ExitCode {
    let clusters = match ["rome", "turin"].into_iter().map(cluster).collect() {
        Ok(clusters) => clusters,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    let tests = vec![Test::ci("pods_of_all_nodes_call_each_other", |s| Box::pin(all_nodes(s)))];
    suite::run("nodes", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

/// As it is asked for, or as it is hardest.
fn cluster(name: &str) -> Result<ClusterSpec> {
    // At level full there is one more, which cannot be prepared.
    let nodes = if suite::level() == Level::Full { 3 } else { 2 };
    let cidrs = Some(Cidrs::same_of(families()?));
    let pod_network = suite::asked("MERCATO_POD_NETWORK")?.unwrap_or(PodNetwork::Routed);
    let proxy_mode = suite::asked("MERCATO_PROXY_MODE")?.unwrap_or(ProxyMode::Nftables);
    Ok(ClusterSpec { nodes, cidrs, pod_network, proxy_mode, ..ClusterSpec::named(name) })
}

fn families() -> Result<Families> {
    Ok(suite::asked("MERCATO_FAMILIES")?.unwrap_or(Families::Ipv4))
}

async fn all_nodes(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let program = stage.program("mercato")?;
    let mut timer = StepTimer::start();
    futures::try_join!(deploy(rome), deploy(turin))?;
    let is_full = suite::level() == Level::Full;
    let odd = [rome, turin].into_iter().filter(|_| is_full).map(odd::prepare);
    let _held = futures::future::try_join_all(odd).await.context("a third node")?;
    let near = Nodes::install(rome, &program, &[1]).await.context("in rome")?;
    let far = Nodes::install(turin, &program, &[1]).await.context("in turin")?;
    timer.step("a program runs on a node of each, before there are daemons");
    let config = format!("{GATEWAY}\n  nodes:\n    image: {}", image::MERCATO);
    let config = if is_full { &*config } else { GATEWAY };
    let home = Daemon::prepared(rome, &program, config).await?;
    let provider = Daemon::prepared(turin, &program, config).await?;
    timer.step("daemons answer");
    home.leases_from(&provider, PODS).await?;
    rome.kubectl(&["create", "namespace", NAMESPACE]).await?.ok()?;
    home.offload(NAMESPACE, "Both").await?;
    timer.step("bought");

    only_on_real_nodes(&home).await?;
    let calls = Calls::open(rome, turin).await.context("pods on all nodes")?;
    timer.step("pods and guests run on all nodes");
    faults::without_the_second(&calls, &home).await.context("without a program there")?;
    timer.step("no guest has an address while a node is without a program");
    futures::try_join!(near.comes_to(2), far.comes_to(2))?;
    let addresses = calls.meet().await.context("with a program there")?;
    timer.step("programs have come to the other nodes");
    let seen_as = calls.each_other(stage, addresses).await.context("call each other")?;
    timer.step("all have called each other");
    if families()? == Families::Both {
        let guests = calls.meet_by_ipv6(addresses).await.context("meet by IPv6")?;
        calls.each_other_by_ipv6(stage, guests, &seen_as).await.context("by IPv6")?;
        timer.step("all have called each other by IPv6");
    }
    faults::joined(&calls, &home, addresses).await.context("a node joins")?;
    timer.step("a node has joined, and taken nothing");
    if is_full {
        odd::tried(&calls, [&near, &far], [&home, &provider], addresses)
            .await
            .context("a third node")?;
        timer.step("a third node that cannot be prepared has taken nothing");
    }
    faults::outlived(&calls, [&near, &far], [&home, &provider], addresses).await?;
    timer.step("a connection has outlived programs and daemons");
    ends::of_connections(&calls, turin, addresses).await.context("a guest is gone")?;
    timer.step("connections to a guest have ended with it, wherever they began");
    over(&home, &provider).await?;
    timer.step("the contract is over, and nothing of the tunnel is left on any node");
    home.kept_to_its_rights().context("in rome")?;
    provider.kept_to_its_rights().context("in turin")
}

/// Rome cancels, and its pods there end: what was set up for them goes everywhere.
async fn over(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    home.cluster.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]).await?.ok()?;
    let contracts = home.json(&["contracts", "list"]).await?;
    let id = contracts[0]["id"].as_str().with_context(|| format!("no contract: {contracts}"))?;
    let cancel = ["contracts", "cancel", id, "--reason", "done", "--yes"];
    home.mercato(&cancel).await?.ok()?;
    for cluster in [home.cluster, provider.cluster] {
        futures::try_join!(has_no_tunnel(cluster, 1), has_no_tunnel(cluster, 2))?;
    }
    Ok(())
}

/// No pod of theirs is for the virtual node that is there now, and the owner is not warned of any.
async fn only_on_real_nodes(home: &Daemon<'_>) -> Result<()> {
    let wanted = ["-n", "mercato-nodes", "get", "daemonset/mercato-node"];
    let wanted = [&wanted[..], &["-o", "jsonpath={.status.desiredNumberScheduled}"]].concat();
    let wanted = home.cluster.kubectl(&wanted).await?.ok()?;
    ensure!(wanted == "2", "there is to be a pod on {wanted} nodes, not on 2");
    let doctor = home.mercato(&["doctor"]).await?;
    ensure!(doctor.stdout.contains("none would land on virtual nodes"), "{doctor:?}");
    Ok(())
}
