//! Two real clusters of which one buys of the other: a Service at home of which some pods run away is
//! called by its own address on each side, and pods of both answer.
#![allow(clippy::disallowed_methods, reason = "connections take time")]

mod cuts;
mod kept;
mod many;
mod names;
mod open;
mod rolling;
mod shop;
mod silence;
mod stateful;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{Cidrs, ClusterSpec, Families};
use mercato_tests::daemon::{Daemon, PART, deploy};
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Level, Stage, Test};
use mercato_tests::wait;

use cuts::Cuts;
use kept::Kept;
use shop::{PATIENCE, Shop};

const GATEWAY: &str = "gateway:\n  enabled: on";
const PODS: usize = 24;

fn main() -> ExitCode {
    let cluster = |name| {
        // As hard as it gets: an address of one is an address of the other.
        let cidrs = Some(Cidrs::same_of(Families::Ipv4));
        ClusterSpec { cidrs, ..ClusterSpec::named(name) }
    };
    // Nobody says to the daemon what home calls itself: the cluster does.
    let home = ClusterSpec { domain: "rome.example".to_owned(), ..cluster("rome") };
    let clusters = vec![home, cluster("turin")];
    let tests = vec![
        Test::ci("a_service_has_pods_in_both_clusters", |s| Box::pin(services(s))),
        Test::full("guests_are_updated_while_the_link_is_cut", |s| Box::pin(updated(s))),
        Test::full("the_first_of_900_services_cross", |s| Box::pin(bounded(s))),
    ];
    suite::run_in_turn("services", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

async fn services(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let program = stage.program("mercato")?;
    let mut timer = StepTimer::start();
    futures::try_join!(deploy(rome), deploy(turin))?;
    let home = Daemon::prepared(rome, &program, GATEWAY).await?;
    let provider = Daemon::prepared(turin, &program, GATEWAY).await?;
    home.leases_from(&provider, PODS).await?;
    rome.kubectl(&["create", "namespace", shop::NAMESPACE]).await?.ok()?;
    home.offload(shop::NAMESPACE, "Both").await?;
    timer.step("bought");

    let shop = Shop::open(rome, turin).await.context("pods in both clusters")?;
    timer.step("pods run in both clusters");
    shop.has_names().await.context("names of home")?;
    timer.step("guests have found names of home, and none of others");
    stateful::members_call_each_other(rome).await.context("a StatefulSet")?;
    timer.step("members of a StatefulSet have called each other by name");
    if suite::level() == Level::Full {
        stateful::services_have_names(rome, shop::CALLERS).await.context("ten Services")?;
        timer.step("ten Services were called by name from both clusters");
    }
    let data = open::Data::begin(rome, turin).await.context("another namespace")?;
    data.is_called(&home).await.context("Services of another namespace")?;
    data.is_called_by_whom_it_names().await.context("whose guests may call")?;
    data.closes_with_its_object().await.context("another namespace is closed")?;
    timer.step("a guest has called Services that another namespace opens, until that was over");
    shop.is_called_from_both().await.context("called from both clusters")?;
    timer.step("all pods have answered 1,000 requests of each cluster");
    shop.is_called_through_home().await.context("from outside of home")?;
    timer.step("guests have answered at home's node port, and by its API server");
    shop.follows_changes().await.context("changes")?;
    timer.step("changes of Services and of their pods are seen over there");
    Kept(&shop)
        .is_put_back(&provider)
        .await
        .context("what somebody does to Services over there")?;
    timer.step("Services over there, and their slices, are as they were");
    Kept(&shop).outlives_a_restart_with_edits(&provider).await.context("a daemon is killed")?;
    shop.outlives_a_restart(&home).await.context("a daemon is killed")?;
    timer.step("Services over there are the same once daemons have been killed");
    Cuts(&shop).are_seen().await.context("the link is cut")?;
    timer.step("in cuts home has called its own pods alone, and all of them afterwards");
    over(&home, &provider).await?;
    timer.step("the contract is over, and nothing of it is left");
    home.kept_to_its_rights().context("in rome")?;
    provider.kept_to_its_rights().context("in turin")?;
    // The test that follows at level full begins with daemons of its own.
    [rome, turin].into_iter().try_for_each(|cluster| cluster.kill(PART))
}

async fn updated(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let (home, provider) = sold_again(stage).await?;
    rome.kubectl(&["create", "namespace", rolling::NAMESPACE]).await?.ok()?;
    home.offload(rolling::NAMESPACE, "Both").await?;
    rolling::opened(rome).await?;
    silence::at_restarts([&home, &provider]).await.context("daemons are killed")?;
    rolling::is_answered(rome, turin).await.context("the link is cut")?;
    rome.kubectl(&["delete", "namespace", rolling::NAMESPACE]).await?.ok()?;
    cancel(&home).await?;
    [rome, turin].into_iter().try_for_each(|cluster| cluster.kill(PART))
}

async fn bounded(stage: &Stage) -> Result<()> {
    let (home, provider) = sold_again(stage).await?;
    many::have_the_first(&home, &provider).await
}

/// Daemons of its own for a test that follows another, and what home bought.
async fn sold_again(stage: &Stage) -> Result<(Daemon<'_>, Daemon<'_>)> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let program = stage.program("mercato")?;
    futures::try_join!(deploy(rome), deploy(turin))?;
    let home = Daemon::prepared(rome, &program, GATEWAY).await?;
    let provider = Daemon::prepared(turin, &program, GATEWAY).await?;
    // Guests of the test before have half a minute to end, and what they had is sold after that.
    wait::until("as much is sold again", PATIENCE, || async {
        home.leases_from(&provider, PODS).await.map(|()| true)
    })
    .await?;
    Ok((home, provider))
}

async fn over(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    home.cluster.kubectl(&["delete", "namespace", shop::NAMESPACE, "--wait=false"]).await?.ok()?;
    cancel(home).await?;
    wait::until("nothing of the guests is left", PATIENCE, || async {
        let all =
            ["get", "services,endpointslices", "-A", "-l", "mercato.dev/contract", "-o", "name"];
        let left = provider.cluster.kubectl(&all).await?.ok()?;
        ensure!(left.is_empty(), "there is {left}");
        Ok(true)
    })
    .await
}

/// Ends the contract, so that what it bought is on sale again.
async fn cancel(home: &Daemon<'_>) -> Result<()> {
    let contracts = home.json(&["contracts", "list"]).await?;
    let id = contracts[0]["id"].as_str().with_context(|| format!("no contract: {contracts}"))?;
    home.mercato(&["contracts", "cancel", id, "--reason", "done", "--yes"]).await?.ok().map(drop)
}
