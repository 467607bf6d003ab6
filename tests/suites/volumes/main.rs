//! Applications with data, on real clusters: rome buys storage of turin, whose volumes are made by its own
//! class. A claim of class `mercato` at home is a claim over there, its pods go where it is, and what was
//! written is there again.
#![allow(clippy::disallowed_methods, reason = "a cluster makes volumes in real time")]

mod database;
mod deleted;
mod faults;
mod killed;
mod placed;
mod refused;
mod shop;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::ClusterSpec;
use mercato_tests::daemon::Daemon;
use mercato_tests::disks::{self, CLASS_OF_DISKS};
use mercato_tests::image;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Level, Stage, Test, level};
use mercato_tests::wait;

use shop::{NODE, PATIENCE, Shop};

fn main() -> ExitCode {
    let cluster = |name, nodes| ClusterSpec {
        nodes,
        controller_flags: disks::controller_flags(),
        ..ClusterSpec::named(name)
    };
    let clusters = vec![cluster("rome", 1), cluster("turin", 2)];
    let tests = vec![Test::ci("a_claim_is_a_volume_at_a_provider", |s| Box::pin(volumes(s)))];
    suite::run("volumes", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

async fn volumes(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let program = stage.program("mercato")?;
    let mut timer = StepTimer::start();
    let of_etcd = image::of_etcd(&rome.program_path("etcd"))?;
    futures::try_join!(turin.import(1, &of_etcd), turin.import(2, &of_etcd))?;
    futures::try_join!(rome.apply(CLASS_OF_DISKS), turin.apply(CLASS_OF_DISKS))?;
    let (home, provider) =
        futures::join!(Daemon::start(rome, &program, ""), Daemon::start(turin, &program, ""));
    let (home, provider) = (home?, provider?);
    let contract = bought(&home, &provider).await.context("storage is bought")?;
    timer.step("storage is bought");
    let shop = Shop { home: &home, provider: &provider, contract };
    shop.opens().await?;
    database::outlives_its_pods(&shop).await.context("a database")?;
    timer.step("a database has found its files again");
    placed::one_node(&shop).await.context("two pods of one claim")?;
    placed::at_home(&shop).await.context("a claim of another class")?;
    timer.step("pods are where their volumes are");
    refused::all(&shop).await.context("claims that no provider serves")?;
    timer.step("what cannot be served was refused");
    faults::leaves_no_more(&shop).await.context("its namespace leaves no more")?;
    faults::taken_away(&shop).await.context("a volume that is taken away")?;
    timer.step("what was written is there, whatever happened");
    if level() == Level::Full {
        faults::renamed(&shop).await.context("its guest namespace is to have another name")?;
        killed::at_points_of_the_bind(&shop).await.context("while a volume is made")?;
        timer.step("what was begun went on after deaths and absences");
    }
    deleted::ephemeral(&shop).await.context("a volume of a pod")?;
    deleted::by_its_claim(&shop).await.context("a claim is deleted")?;
    timer.step("what was deleted is gone, and nothing else");
    deleted::with_the_contract(&shop).await.context("the contract is over")?;
    timer.step("the contract is over, and nothing of it is left");
    home.kept_to_its_rights().context("in rome")?;
    provider.kept_to_its_rights().context("in turin")
}

/// The contract with 8 GiB.
async fn bought(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<String> {
    let share = ["share", "set", "--cpu", "80%", "--memory", "80%", "--storage", "20Gi"];
    let terms = ["--price", "free", "--approve", "auto", "--network-isolation", "none"];
    provider.mercato(&[&share[..], &terms].concat()).await?.ok()?;
    home.sees_offer_of("turin").await?;
    home.mercato(&["peer", "trust", "turin", "--yes"]).await?.ok()?;
    let order = ["order", "--cpu", "1", "--memory", "1Gi", "--pods", "20", "--storage", "8Gi"];
    let terms = ["--for", "4h", "--from", "turin"];
    // The class is looked for with the nodes, and told with the next body of the offer.
    let words = [&order[..], &terms].concat();
    wait::until("storage is on sale", PATIENCE, || async {
        home.mercato(&[&words[..], &["--dry-run"]].concat()).await?.ok()?;
        Ok(true)
    })
    .await?;
    let wait = ["--wait", "--timeout", "60s"];
    let ordered = home.json(&[&words[..], &wait].concat()).await?;
    let id = ordered["id"].as_str().context("the order has an id")?.to_owned();
    let label = format!("jsonpath={{.metadata.labels.volumes\\.mercato\\.dev/{id}}}");
    let label = home.cluster.kubectl(&["get", "node", NODE, "-o", &label]).await?.ok()?;
    ensure!(label.is_empty(), "the label by which volumes find their node has no value");
    Ok(id)
}
