//! What people and tools expect of a node's kubelet beside running pods, of a node that
//! stands for another cluster: `kubectl top`, an autoscaler, `kubectl debug`, a resize in
//! place, and the paths that monitoring reads; also after restarts of either daemon. Last, what
//! strangers do to its ports. And DaemonSets that tolerate every node.
//!
//! Rome buys of Turin; both have a metrics-server.

mod agents;
mod attacks;
mod change;
mod figures;
mod lease;
mod restarts;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use mercato_tests::cluster::ClusterSpec;
use mercato_tests::daemon::Daemon;
use mercato_tests::suite::{self, Stage, Test};

fn main() -> ExitCode {
    let with_metrics = |name| ClusterSpec { metrics: true, ..ClusterSpec::named(name) };
    // As most clusters do, Rome checks the certificates of its nodes.
    let rome = ClusterSpec { verify_kubelets: true, ..with_metrics("rome") };
    let clusters = vec![rome, with_metrics("turin")];
    let tests = vec![Test::ci("a_virtual_node_has_a_whole_kubelet", |s| Box::pin(kubelet(s)))];
    suite::run("kubelet", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

/// The virtual node in Rome.
const NODE: &str = "mercato-turin";

async fn kubelet(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    rome.kubectl(&["create", "namespace", "shop"]).await?.ok()?;
    let program = stage.program("mercato")?;
    let home = Daemon::start(rome, &program, "").await?;
    let provider = Daemon::start(turin, &program, "").await?;
    agents::before(rome).await.context("a DaemonSet before the contract")?;
    lease::start(&home, &provider).await.context("a lease")?;
    restarts::approve(rome).await.context("a certificate")?;

    agents::after(rome).await.context("DaemonSets that tolerate everything")?;
    figures::start_burning(rome).await.context("a deployment that burns")?;
    change::debugged(rome).await.context("kubectl debug")?;
    change::long_commands(rome).await.context("long commands")?;
    change::resized(rome, turin).await.context("a resize in place")?;
    change::too_large(rome).await.context("a resize without room")?;
    figures::logs_end(rome, turin).await.context("silent logs")?;
    figures::top(rome).await.context("kubectl top")?;
    figures::read_raw(rome).await.context("the kubelet's paths")?;
    figures::scaled(rome).await.context("an autoscaler")?;
    restarts::ask_for_nothing(&home, &provider).await.context("restarts")?;
    attacks::attacked(&home).await.context("attacks on the listeners")?;
    home.kept_to_its_rights().context("in rome")?;
    provider.kept_to_its_rights().context("in turin")
}
