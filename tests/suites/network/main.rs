//! The Kubernetes project's own specs of the network (Services, names, endpoints, pods that call each
//! other): on a plain cluster of two nodes, and through the virtual node of a contract, behind which is
//! such a cluster.
//!
//! What passes on the one must pass on the other. What is expected stands in a table; a run that differs
//! from it fails.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use mercato_tests::cluster::{Cluster, ClusterSpec, PodNetwork};
use mercato_tests::conformance::{self, Column, Group, with_api_access};
use mercato_tests::daemon::{Daemon, deploy, deploy_file};
use mercato_tests::image;
use mercato_tests::nodes::Nodes;
use mercato_tests::suite::{self, Stage, Test};

const NETWORK: Group = Group {
    focus: r"\[sig-network\].*\[Conformance\]",
    skip: "^$",
    expected: include_str!("specs.txt"),
};

/// What home's daemon is told: to leave all to its cluster's scheduler, and to reach guests.
const HOME: &str = "kubernetes: {offload: all}\ngateway: {enabled: on}";

fn main() -> ExitCode {
    let of = |name, nodes| ClusterSpec {
        nodes,
        pod_network: PodNetwork::Routed,
        ..ClusterSpec::named(name)
    };
    let clusters = vec![of("home", 0), of("away", 2), of("plain", 2)];
    let tests = vec![
        Test::full("network_specs_on_a_plain_cluster", |s| Box::pin(plain(s))),
        Test::full("network_specs_through_a_virtual_node", |s| Box::pin(through(s))),
    ];
    suite::run_in_turn("network", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

async fn plain(stage: &Stage) -> Result<()> {
    let plain = stage.cluster("plain");
    has_programs(stage, plain).await?;
    conformance::as_expected(stage, plain, Column::Plain, &[NETWORK]).await
}

async fn through(stage: &Stage) -> Result<()> {
    has_programs(stage, stage.cluster("away")).await?;
    buy_all(stage).await.context("buy")?;
    let home = stage.cluster("home");
    // One looks up home's API server.
    let specs = conformance::as_expected(stage, home, Column::Virtual, &[NETWORK]);
    with_api_access(home, "dns", specs).await
}

/// The image of the specs has what they call: `curl`, `nc` and `dig`.
async fn has_programs(stage: &Stage, cluster: &Cluster) -> Result<()> {
    let archive = image::with_network_programs(&stage.toolchain)?;
    try_join_all([1, 2].map(|number| cluster.import(number, &archive))).await.map(drop)
}

/// Home has no node but the virtual one.
async fn buy_all(stage: &Stage) -> Result<()> {
    let (home, away) = (stage.cluster("home"), stage.cluster("away"));
    let program = stage.program("mercato")?;
    futures::try_join!(deploy(home), deploy(away))?;
    deploy_file(home, "optional/offload-all.yaml").await?;
    Nodes::install(away, &program, &[1, 2]).await?;
    away.import(1, &image::of_program(&program)?).await?;
    away.import(2, &image::of_program(&program)?).await?;
    // As owners sell unless they say otherwise: guests reach whom their contract names.
    let config = format!("gateway:\n  enabled: on\n  nodes:\n    image: {}", image::MERCATO);
    let home = Daemon::prepared(home, &program, HOME).await?;
    let away = Daemon::prepared(away, &program, &config).await?;
    home.leases_by(&away, 50, "required").await
}
