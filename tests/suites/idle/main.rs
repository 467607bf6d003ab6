//! A lease whose pods do nothing costs next to nothing: no write to either API server but
//! the renewals of Leases, and hardly any processor time; nor does any other state of an object.

mod states;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{ClusterSpec, Kind};
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::suite::{self, Level, Stage, Test};

fn main() -> ExitCode {
    let simulated = |name| ClusterSpec {
        nodes: 0,
        simulated: vec![Kind::plain(2)],
        ..ClusterSpec::named(name)
    };
    let clusters = vec![simulated("rome"), simulated("turin")];
    let tests = vec![Test::ci("an_idle_lease_writes_nothing", |s| Box::pin(idle(s)))];
    suite::run("idle", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

const PODS: usize = 50;
const SETTLE: Duration = Duration::from_secs(15);
/// How often each Lease is renewed.
const RENEWAL: Duration = Duration::from_secs(10);

async fn idle(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let program = stage.program("mercato")?;
    let home = Daemon::start(rome, &program, "").await?;
    let provider = Daemon::start(turin, &program, states::METERED).await?;
    home.leases_from(&provider, PODS).await?;
    home.cluster.kubectl(&["create", "namespace", "shop"]).await?.ok()?;
    home.offload("shop", "Remote").await?;
    let replicas = format!("--replicas={PODS}");
    let create = ["-n", "shop", "create", "deployment", "web", "--image=mercato.test/busybox:1"];
    rome.kubectl(&[&create[..], &[&replicas]].concat()).await?.ok()?;
    let ready = ["-n", "shop", "rollout", "status", "deploy/web", "--timeout=120s"];
    rome.kubectl(&ready).await?.ok()?;

    // Whatever the start still causes is over by then.
    tokio::time::sleep(SETTLE).await;
    let whole = suite::level() == Level::Full;
    let time = if whole { Duration::from_secs(600) } else { Duration::from_secs(20) };
    let mut before = Vec::new();
    for cluster in [rome, turin] {
        before.push((cluster, cluster.usage(PART)?.cpu_ms, cluster.audit_mark()?));
    }
    tokio::time::sleep(time).await;
    for (cluster, cpu_ms, mark) in before {
        let written = cluster.writes_since(mark)?;
        let more = written.keys().find(|write| write.by == PART && write.resource != "leases");
        ensure!(more.is_none(), "{} was written to: {more:?}", cluster.name());
        let used = Duration::from_millis(cluster.usage(PART)?.cpu_ms - cpu_ms);
        println!("{} used {used:?} of processor time in {time:?}", cluster.name());
        let all = written.iter().filter(|(write, _)| write.by == PART);
        let renewals: usize = all.map(|(_, count)| count).sum();
        // Each daemon renews its own, and home's that of the virtual node.
        let leases = if cluster.name() == "rome" { 2 } else { 1 };
        let most = leases * (time.as_secs() / RENEWAL.as_secs() + 1);
        let least = leases * (time.as_secs() / RENEWAL.as_secs() - 1);
        let as_often = (least..=most).contains(&(renewals as u64));
        ensure!(as_often, "{least} to {most} renewals of Leases: {written:?}");
        // A debug build on a busy machine is no measure.
        ensure!(!whole || used < time / 100, "{} used {used:?} in {time:?}", cluster.name());
    }
    states::stand(&home, &provider).await.context("in each state of an object")
}
