//! The whole way on real clusters: two daemons, as programs with the ServiceAccount of
//! `config/deploy`, find each other on the LAN, trade, and pods of one run on the other.
#![allow(clippy::disallowed_methods, reason = "recoveries take time")]

mod calls;
mod changes;
mod demo;
mod ending;
mod market;
mod pods;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use mercato_tests::cluster::{Cidrs, ClusterSpec};
use mercato_tests::daemon::Daemon;
use mercato_tests::image;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Level, Stage, Test};
use mercato_tests::tunnel::has_no_tunnel;

fn main() -> ExitCode {
    // As of two clusters that one installer made: no address tells whose a pod is.
    let same = |name| ClusterSpec { cidrs: Some(Cidrs::same()), ..ClusterSpec::named(name) };
    let clusters = vec![same("rome"), same("turin")];
    let tests = vec![Test::ci("from_two_strangers_to_nothing_left", |s| Box::pin(journey(s)))];
    suite::run_in_turn("journey", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

/// Whether turin keeps guests apart from all but their home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Isolation {
    /// As owners sell by default.
    Required,
    /// As one sells who says so.
    None,
}

/// Usage is signed so often that the test sees it.
const OFTEN: &str = "meteringInterval: 5s\ngateway:\n  enabled: on";
/// So that pods of the two call each other.
const GATEWAY: &str = "gateway:\n  enabled: on";

async fn journey(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    rome.kubectl(&["create", "namespace", "shop"]).await?.ok()?;
    let program = stage.program("mercato")?;
    let mut timer = StepTimer::start();
    demo::leaves_nothing(rome, turin, &program).await.context("the demo")?;
    timer.step("a demo has come and gone, twice");
    let home = Daemon::start(rome, &program, GATEWAY).await?;
    let isolation = suite::asked("MERCATO_NETWORK_ISOLATION")?.unwrap_or(Isolation::Required);
    let config = match isolation {
        // The daemon closes guests on its own node itself.
        Isolation::Required => {
            turin.import(1, &image::of_program(&program)?).await?;
            format!("{OFTEN}\n  nodes:\n    image: {}", image::MERCATO)
        }
        Isolation::None => OFTEN.to_owned(),
    };
    let provider = Daemon::start(turin, &program, &config).await?;
    timer.step("both daemons answer");
    let before = (rome.objects().await?, turin.objects().await?);

    market::found(&home).await.context("find each other")?;
    timer.step("found on the LAN");
    market::share(&provider, isolation).await.context("share")?;
    market::browse(&home).await.context("browse")?;
    timer.step("offered and browsed");
    market::stranger(&home).await.context("order from a stranger")?;
    market::trust(&home).await.context("trust")?;
    let contract = market::order(&home, &provider).await.context("order")?;
    timer.step("bought, the node is ready");

    home.offload("shop", "Remote").await?;
    pods::deployment(rome, turin).await.context("a deployment")?;
    pods::told_of(rome).await.context("events of guests")?;
    timer.step("a deployment runs over there");
    rome.kubectl(&["create", "namespace", "calls"]).await?.ok()?;
    home.offload("calls", "Both").await?;
    calls::each_other(rome, turin).await.context("pods call each other")?;
    timer.step("pods have called each other");
    if suite::level() == Level::Full {
        calls::start(rome).await.context("pods start")?;
        timer.step("ten pods have started, one after the other");
    }
    calls::outlive(&home, &provider).await.context("a connection outlives the daemons")?;
    timer.step("a connection has outlived both daemons");
    calls::followed(rome, turin).await.context("pods come and go")?;
    timer.step("addresses follow pods");
    pods::used(rome).await.context("kubectl on the pods")?;
    timer.step("logs, exec, attach, cp, port-forward");
    pods::rolled(rome).await.context("scaled and rolled")?;
    timer.step("scaled and rolled");
    pods::config_map(rome).await.context("a config map changes")?;
    timer.step("a config map's change arrived");
    pods::job(rome).await.context("a job fails")?;
    pods::deleted(rome, turin).await.context("pods are deleted")?;
    timer.step("a job failed with its code, pods were deleted");

    market::statement(&home, &provider, &contract).await.context("the statement")?;
    timer.step("usage is signed");
    changes::many(&home, &provider, &contract).await.context("twenty changes")?;
    timer.step("extended and resized twenty times");
    ending::cancel(&home, &provider, &contract).await.context("cancel")?;
    changes::ready(&home, &provider).await.context("ready after the contract")?;
    has_no_tunnel(rome, 1).await?;
    has_no_tunnel(turin, 1).await?;
    timer.step("cancelled, drained");
    pods::clean_up(rome).await?;
    timer.step("the test has tidied up after itself");
    rome.is_as_before(&before.0).await.context("in rome")?;
    turin.is_as_before(&before.1).await.context("in turin")?;
    timer.step("nothing is left");
    home.kept_to_its_rights().context("in rome")?;
    provider.kept_to_its_rights().context("in turin")
}
