//! Ten small services of one cluster, with pods there and at two providers, under load for five
//! minutes. Meanwhile the link to one provider is cut: what needs it fails, and is back soon after
//! the link; nothing else notices.
#![allow(clippy::disallowed_methods, reason = "the load takes its time")]

mod answers;
mod shop;

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{Cidrs, ClusterSpec, Families};
use mercato_tests::daemon::Daemon;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Stage, Test};

use answers::Cut;
use shop::Shop;

const GATEWAY: &str = "gateway:\n  enabled: on";
const PODS: usize = 16;
/// The load before the cut, during it, and afterwards: five minutes.
const BEFORE: Duration = Duration::from_secs(120);
const CUT: Duration = Duration::from_secs(30);
const AFTER: Duration = Duration::from_secs(150);

fn main() -> ExitCode {
    let cluster = |name| {
        let cidrs = Some(Cidrs::same_of(Families::Ipv4));
        ClusterSpec { cidrs, ..ClusterSpec::named(name) }
    };
    let clusters = ["rome", "turin", "milan"].map(cluster).into();
    let tests = vec![Test::full("ten_services_outlive_a_link", |s| Box::pin(ten(s)))];
    suite::run("load", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

async fn ten(stage: &Stage) -> Result<()> {
    let [rome, turin, milan] = ["rome", "turin", "milan"].map(|name| stage.cluster(name));
    let program = stage.program("mercato")?;
    let mut timer = StepTimer::start();
    let home = Daemon::start(rome, &program, GATEWAY).await?;
    for cluster in [turin, milan] {
        let provider = Daemon::start(cluster, &program, GATEWAY).await?;
        home.leases_from(&provider, PODS)
            .await
            .with_context(|| format!("of {}", cluster.name()))?;
    }
    rome.kubectl(&["create", "namespace", shop::NAMESPACE]).await?.ok()?;
    home.offload(shop::NAMESPACE, "Both").await?;
    timer.step("bought of two providers");
    let shop = Shop::open(rome, [turin, milan]).await?;
    timer.step("ten services run, and are called from three clusters");
    tokio::time::sleep(BEFORE).await;
    let since_s = now_s()?;
    set_apart(stage, true)?;
    tokio::time::sleep(CUT).await;
    set_apart(stage, false)?;
    let cut = Cut { since_s, until_s: now_s()? };
    tokio::time::sleep(AFTER).await;
    timer.step("the load is over");
    shop.answered(cut).await
}

/// Turin and Rome do not reach each other; both reach Milan.
fn set_apart(stage: &Stage, apart: bool) -> Result<()> {
    ["rome", "turin"].into_iter().try_for_each(|name| stage.cluster(name).set_apart(apart))
}

/// As the pods' clocks have it: seconds since 1970.
fn now_s() -> Result<u64> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    ensure!(now > 0, "the clock is not set");
    Ok(now)
}
