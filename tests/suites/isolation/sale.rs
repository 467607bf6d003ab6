//! What is sold by default is on sale soon after the last program that it needs has started, with nothing
//! else in the cluster, and no lease.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::{Daemon, deploy};
use mercato_tests::nodes::Nodes;
use mercato_tests::suite::{self, Level, Stage};
use mercato_tests::{image, wait};
use serde_json::Value;

use super::GATEWAY;

/// The node on which no daemon is.
const SECOND: u8 = 2;
const NODES: u64 = 2;
/// From the start of that program to the sale;
const SOON: Duration = Duration::from_secs(15);
/// and where it has begun before any daemon: the kubelet replaces files in a pod that runs every few
/// seconds, and the program looks for them as often.
const TOLD_LATER: Duration = Duration::from_secs(30);
/// Which of two things comes first is a matter of luck.
const ROUNDS: usize = 10;

/// Whoever sells, with programs on both nodes: as they are there already, or else started now, the programs
/// before the daemon.
pub(crate) async fn provider(stage: &Stage) -> Result<(Daemon<'_>, Nodes<'_>)> {
    let (turin, program) = (stage.cluster("turin"), stage.program("mercato")?);
    if Daemon::runs(turin)? {
        let agents = Nodes::install(turin, &program, &[1, SECOND]).await?;
        return Ok((Daemon::attach(turin, &program), agents));
    }
    deploy(turin).await?;
    let agents = Nodes::install(turin, &program, &[1, SECOND]).await.context("in turin")?;
    let config = format!("{GATEWAY}\n  nodes:\n    image: {}", image::MERCATO);
    Ok((Daemon::prepared(turin, &program, &config).await?, agents))
}

/// In a new cluster, and again each time that the daemon or the program of the second node has started,
/// whichever of the two was first.
pub(crate) async fn begins(stage: &Stage) -> Result<()> {
    let (daemon, agents) = provider(stage).await?;
    has_begun(&daemon, TOLD_LATER).await.context("in a new cluster")?;
    let rounds = if suite::level() == Level::Full { ROUNDS } else { 1 };
    for _ in 0..rounds {
        agents.killed(SECOND).await?;
        has_begun(&daemon, SOON).await.context("with a program that was killed")?;
        agents.replaced(SECOND).await?;
        has_begun(&daemon, SOON).await.context("with a program in another pod")?;
        daemon.kill().await?;
        has_begun(&daemon, SOON).await.context("with a daemon that comes to programs")?;
        agents.leave(true).await?;
        let has_ended = || async { Ok(gateway(&daemon).await?["isolates"] == false) };
        wait::until("required is not on sale", SOON, has_ended).await?;
        agents.leave(false).await?;
        agents.runs(SECOND).await?;
        has_begun(&daemon, SOON).await.context("with programs that come to a daemon")?;
    }
    // Whoever waits for such events waits for his own.
    daemon.cluster.kubectl(&["-n", "default", "delete", "events", "--all"]).await?.ok().map(drop)
}

/// Waits until guests are closed on both nodes by those that run now, and are sold so.
async fn has_begun(daemon: &Daemon<'_>, patience: Duration) -> Result<()> {
    let begun = Instant::now();
    wait::until("required is on sale", patience, || async {
        let gateway = gateway(daemon).await?;
        let is_sold = gateway["isolates"] == true && gateway["closed"] == NODES;
        ensure!(is_sold, "it is so with guests: {gateway}");
        Ok(true)
    })
    .await?;
    println!("required is on sale after {:.1?}", begun.elapsed());
    Ok(())
}

async fn gateway(daemon: &Daemon<'_>) -> Result<Value> {
    Ok(daemon.json(&["status"]).await?["daemon"]["gateway"].take())
}
