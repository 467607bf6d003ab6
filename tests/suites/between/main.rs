//! Three real clusters with equal ranges, of which one buys of the other two: pods of one namespace,
//! at home and at both providers, call each other by their addresses and behind one Service, also
//! the guests of two providers, which meet at home.
#![allow(clippy::disallowed_methods, reason = "connections take time")]

mod meeting;
mod open;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use mercato_tests::cluster::{Cidrs, ClusterSpec, Families};
use mercato_tests::daemon::{Daemon, deploy};
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Stage, Test};
use mercato_tests::tunnel::has_no_tunnel;

use meeting::{Meeting, NAMESPACE};

const GATEWAY: &str = "gateway:\n  enabled: on";
const PODS: usize = 8;

fn main() -> ExitCode {
    let cluster = |name| {
        // As hard as it gets: an address of one is an address of the others.
        let cidrs = Some(Cidrs::same_of(Families::Ipv4));
        ClusterSpec { cidrs, ..ClusterSpec::named(name) }
    };
    let clusters = ["milan", "rome", "turin"].map(cluster).into();
    let tests = vec![Test::ci("guests_of_two_providers_meet", |s| Box::pin(between(s)))];
    suite::run("between", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

async fn between(stage: &Stage) -> Result<()> {
    let [milan, rome, turin] = ["milan", "rome", "turin"].map(|name| stage.cluster(name));
    let program = stage.program("mercato")?;
    let mut timer = StepTimer::start();
    futures::try_join!(deploy(milan), deploy(rome), deploy(turin))?;
    let home = Daemon::prepared(rome, &program, GATEWAY).await?;
    let in_turin = Daemon::prepared(turin, &program, GATEWAY).await?;
    let in_milan = Daemon::prepared(milan, &program, GATEWAY).await?;
    home.leases_from(&in_turin, PODS).await?;
    rome.kubectl(&["create", "namespace", NAMESPACE]).await?.ok()?;
    home.offload(NAMESPACE, "Both").await?;
    timer.step("bought of one");

    let meeting = Meeting::open(&home, turin, milan).await.context("pods at home and in turin")?;
    timer.step("pods run at home and in turin");
    home.leases_from(&in_milan, PODS).await?;
    meeting.comes_to_milan().await.context("pods in milan")?;
    timer.step("bought of the other, where pods run");
    meeting.is_called_by_address().await.context("by address")?;
    timer.step("guests of both have called each other and home, as who they are");
    meeting.is_called_by_service().await.context("by the Service")?;
    timer.step("all pods have answered behind the Service in each cluster");
    meeting.calls_what_is_open().await.context("another namespace")?;
    timer.step("guests of both have called another namespace, and those of milan no longer");
    meeting.does_without_milan().await.context("the link to milan is cut")?;
    timer.step("with one link cut the others have noticed nothing, and all meet again");
    meeting.ends_in_milan().await.context("the lease of milan")?;
    has_no_tunnel(milan, 1).await?;
    timer.step("the lease of milan is over, and turin knows nothing of its guests");
    home.kept_to_its_rights().context("in rome")?;
    in_turin.kept_to_its_rights().context("in turin")?;
    in_milan.kept_to_its_rights().context("in milan")
}
