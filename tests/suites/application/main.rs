//! An application of three tiers, by a chart as `helm create` makes them, on a virtual node: installed,
//! upgraded, scaled, debugged and uninstalled, without a change of its manifests. Web and middle tier are
//! Deployments; the database is etcd, a StatefulSet whose members announce their addresses.
//!
//! Where its pods run is said to the namespace and the nodes, and not to the pods: a NamespaceOffload is
//! for all pods of a namespace. So whoever wants one tier alone elsewhere cordons the other node while the
//! pods of that tier are made.
#![allow(clippy::disallowed_methods, reason = "an application is installed in real time")]

mod caller;
mod database;
mod release;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{Cidrs, ClusterSpec, Families};
use mercato_tests::daemon::{Daemon, deploy, order};
use mercato_tests::image;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Level, Stage, Test, level};
use mercato_tests::tunnel::has_no_tunnel;
use mercato_tests::wait;

use caller::Caller;
use release::{NAMESPACE, PATIENCE, Placement, Release};

const GATEWAY: &str = "gateway:\n  enabled: on";
const PODS: usize = 16;

fn main() -> ExitCode {
    let cluster = |name| {
        // As hard as it gets: an address of one is an address of the other.
        let cidrs = Some(Cidrs::same_of(Families::Ipv4));
        ClusterSpec { cidrs, ..ClusterSpec::named(name) }
    };
    let clusters = ["rome", "turin"].map(cluster).into();
    let tests = vec![Test::ci("an_application_runs_away_as_it_stands", |s| Box::pin(runs(s)))];
    suite::run("application", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

async fn runs(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let program = stage.program("mercato")?;
    let mut timer = StepTimer::start();
    futures::try_join!(deploy(rome), deploy(turin))?;
    let of_etcd = image::of_etcd(&rome.program_path("etcd"))?;
    let of_program = image::of_program(&program)?;
    futures::try_join!(rome.import(1, &of_etcd), turin.import(1, &of_etcd))?;
    turin.import(1, &of_program).await?;
    rome.kubectl(&["create", "namespace", NAMESPACE]).await?.ok()?;
    let caller = Caller::start(rome).await?;
    timer.step("there are images, and a caller");
    let release = Release { home: rome, provider: turin, caller };
    if level() == Level::Full {
        // What fails here is wrong in the chart or in this suite.
        whole(&release, Placement::Home, &mut timer).await.context("without Mercato")?;
    }
    let before = turin.objects().await?;
    let home = Daemon::prepared(rome, &program, GATEWAY).await?;
    let config = format!("{GATEWAY}\n  nodes:\n    image: {}", image::MERCATO);
    let provider = Daemon::prepared(turin, &program, &config).await?;
    // A pod that asks for nothing takes none of it, so that the pods fit.
    let mut order = order(PODS);
    order[2] = "100m".to_owned();
    home.buys(&provider, &order, "required").await?;
    timer.step("bought");
    home.offload(NAMESPACE, "Both").await?;
    match level() {
        Level::Full => whole(&release, Placement::MiddleAway, &mut timer).await,
        Level::Ci => short(&release, Placement::MiddleAway, &mut timer).await,
    }
    .context("with the middle tier away")?;
    home.offload(NAMESPACE, "Remote").await?;
    whole(&release, Placement::Away, &mut timer).await.context("with all of it away")?;
    over(&home, &provider).await?;
    turin.is_as_before(&before).await.context("in turin")?;
    timer.step("the contract is over, and nothing of it is left");
    home.kept_to_its_rights().context("in rome")?;
    provider.kept_to_its_rights().context("in turin")
}

/// All that people do with a release.
async fn whole(release: &Release<'_>, placement: Placement, timer: &mut StepTimer) -> Result<()> {
    let before = release.home.objects().await?;
    release.install(placement).await.context("helm install")?;
    timer.step(&format!("{placement:?}: it is installed"));
    release.answers("hello", "dish", "carbonara").await.context("installed")?;
    release.tests().await.context("helm test")?;
    timer.step("each tier has answered the one before it, and the chart's own test has passed");
    release.upgrades("again").await.context("helm upgrade")?;
    timer.step("it was upgraded under requests");
    release.scales().await.context("kubectl scale")?;
    timer.step("it was scaled");
    release.is_looked_into().await.context("kubectl logs, exec and debug")?;
    timer.step("it was looked into");
    database::announces(release).await.context("addresses of the database")?;
    database::outlives_a_member(release).await.context("a member of the database is deleted")?;
    timer.step("a member of the database was deleted, and has come back");
    if placement != Placement::MiddleAway {
        release.is_at(placement).await.context("at the end")?;
    }
    release.uninstalls(placement, &before).await.context("uninstall")?;
    timer.step("it is uninstalled, and nothing of it is left");
    Ok(())
}

/// What tells whether the tiers of a release find each other, and what they announce.
async fn short(release: &Release<'_>, placement: Placement, timer: &mut StepTimer) -> Result<()> {
    let before = release.home.objects().await?;
    release.install(placement).await.context("helm install")?;
    timer.step(&format!("{placement:?}: it is installed"));
    release.answers("hello", "dish", "carbonara").await.context("installed")?;
    database::announces(release).await.context("addresses of the database")?;
    release.uninstalls(placement, &before).await.context("uninstall")?;
    timer.step("each tier has answered the one before it, and it is uninstalled");
    Ok(())
}

async fn over(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    let contracts = home.json(&["contracts", "list"]).await?;
    let id = contracts[0]["id"].as_str().with_context(|| format!("no contract: {contracts}"))?;
    home.mercato(&["contracts", "cancel", id, "--reason", "done", "--yes"]).await?.ok()?;
    let (near, far) = (home.cluster, provider.cluster);
    futures::try_join!(has_no_tunnel(near, 1), has_no_tunnel(far, 1))?;
    let node = ["get", "nodes", "-o", "name"];
    wait::until("the virtual node is gone", PATIENCE, || async {
        let nodes = near.kubectl(&node).await?.ok()?;
        ensure!(nodes.trim() == "node/rome-1", "there are {nodes}");
        Ok(true)
    })
    .await
}
