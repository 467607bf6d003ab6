//! The whole way by kubectl alone: two owners who never type `mercato` share, browse, buy
//! and use with custom resources; and what the API server itself refuses.

mod buyer;
mod objects;
mod place;
mod refused;
mod seller;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::ClusterSpec;
use mercato_tests::daemon::{Daemon, deploy_file};
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Stage, Test};

fn main() -> ExitCode {
    let clusters = vec![ClusterSpec::named("rome"), ClusterSpec::named("turin")];
    let tests = vec![Test::ci("from_two_strangers_to_nothing_left", |s| Box::pin(journey(s)))];
    suite::run("kubectl", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

async fn journey(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    rome.kubectl(&["create", "namespace", "shop"]).await?.ok()?;
    let program = stage.program("mercato")?;
    let mut timer = StepTimer::start();
    for side in [rome, turin] {
        deploy_file(side, "rbac.yaml").await?;
    }
    let home = Daemon::prepared(rome, &program, "").await?;
    let provider = Daemon::prepared(turin, &program, "meteringInterval: 5s").await?;
    objects::absent(&home).await.context("without custom resources")?;
    for side in [&home, &provider] {
        objects::installed(side).await.context("custom resources come later")?;
    }
    timer.step("custom resources are installed, and noticed");
    let before = (rome.objects().await?, turin.objects().await?);

    refused::by_schema(rome).await.context("what the API server refuses")?;
    timer.step("what cannot be is refused by the API server");
    seller::shares(&provider).await.context("share")?;
    timer.step("shared by MarketPolicy");
    buyer::browses(rome).await.context("browse")?;
    timer.step("candidates seen in an Order");
    buyer::trusts(rome, turin).await.context("trust")?;
    let contract = buyer::orders(rome).await.context("order")?;
    buyer::restarted(&home, &contract).await.context("the daemon restarts in between")?;
    seller::accepts(turin, &contract).await.context("accept")?;
    buyer::ready(&home, &contract).await.context("ready")?;
    timer.step("bought once, in spite of a restart; the node is ready");
    buyer::changes(rome, turin, &contract).await.context("extend and resize")?;
    timer.step("longer and larger");
    objects::made_again(rome, &contract).await.context("a deleted Contract")?;
    timer.step("a deleted Contract was made again");
    buyer::offloads(rome, turin).await.context("offload")?;
    objects::readable(rome, turin, &contract).await.context("kubectl get")?;
    timer.step("offloaded to one provider; each table fits a screen");
    place::chosen(rome, turin).await.context("a chosen namespace")?;
    timer.step("a name that is taken is said to be; under another the pod runs");
    let written = objects::versions(rome).await?;
    buyer::runs(rome).await.context("a deployment")?;
    timer.step("a deployment runs over there, with logs");
    ensure!(objects::versions(rome).await? == written, "what did not change was written again");

    buyer::deletes(rome, turin, &contract).await.context("delete the order")?;
    timer.step("its Order deleted: the contract is closed");
    seller::closes(rome, turin).await.context("close a second contract")?;
    timer.step("a second contract closed by spec.desired");
    seller::withdraws(&provider).await.context("withdraw")?;
    buyer::tidies_up(rome).await?;
    objects::closed_ones_go(rome, turin).await?;
    rome.is_as_before(&before.0).await.context("in rome")?;
    turin.is_as_before(&before.1).await.context("in turin")?;
    timer.step("nothing is left");
    home.kept_to_its_rights().context("in rome")?;
    provider.kept_to_its_rights().context("in turin")
}
