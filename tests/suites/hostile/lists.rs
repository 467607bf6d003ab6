//! Somebody signs one list of gateways after the other, each with other ranges behind them, and of
//! another length. What follows from a list at its partner is bounded by time, not by how many come.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ipnet::IpNet;
use mercato_protocol::id::GatewayKey;
use mercato_tests::daemon::PART;
use mercato_tests::suite::{self, Level};

use crate::Scene;
use crate::impostor::Impostor;

const EVERY: Duration = Duration::from_millis(20);
/// One list is taken in so long.
const TAKEN: Duration = Duration::from_secs(2);
/// So often the packet rules of a machine are written for one list, at most.
const CHANGES: usize = 4;

/// Pisa's impostor to Siena, which has sold to it.
pub(crate) async fn keep_nobody_busy(scene: &Scene<'_>, impostor: &Impostor) -> Result<()> {
    let time = match suite::level() {
        Level::Ci => Duration::from_secs(10),
        Level::Full => Duration::from_secs(60),
    };
    let siena = scene.siena.cluster;
    let before = siena.usage(PART)?;
    let (said, changes) = futures::join!(say(scene, impostor, time), changes(scene, time));
    let (said, changes) = (said?, changes?);
    let after = siena.usage(PART)?;
    let busy = after.cpu_ms - before.cpu_ms;
    println!(
        "{said} lists heard in {time:?}: {changes} changes of packet rules, {busy} ms of processor time"
    );
    ensure!(said > 100, "only {said} lists were heard");
    let taken = time.as_secs() / TAKEN.as_secs() + 2;
    ensure!(changes <= CHANGES * usize::try_from(taken)?, "{changes} changes of packet rules");
    Ok(())
}

/// How many lists were heard in that time: whoever says too much at once is cut off, and comes again.
async fn say(scene: &Scene<'_>, impostor: &Impostor, time: Duration) -> Result<u32> {
    let (lists, key, begun) = (&impostor.lists, GatewayKey([9; 32]), Instant::now());
    let (mut said, mut heard) = (0_u32, 0);
    let mut peer = None;
    while begun.elapsed() < time {
        let length = 24 + u8::try_from(said % 2)?;
        let range = |nth: u8| IpNet::new([10, 77, nth, 0].into(), length);
        lists.say(&[key], (0..64).map(range).collect::<Result<_, _>>()?)?;
        if peer.is_none() {
            peer = impostor.meet(&scene.siena).await.ok();
        }
        if let Some(key) = peer {
            match lists.tell(impostor, key).await {
                Ok(is_heard) => heard += u32::from(is_heard),
                Err(_) => peer = None,
            }
        }
        said += 1;
        tokio::time::sleep((EVERY * said).saturating_sub(begun.elapsed())).await;
    }
    Ok(heard)
}

/// How often the packet rules of Siena's machine were changed in that time.
async fn changes(scene: &Scene<'_>, time: Duration) -> Result<usize> {
    let mut watch = scene.siena.cluster.machine(1).command("timeout")?;
    let seconds = time.as_secs().to_string();
    let said = watch.args([&seconds, "nft", "monitor"]).output().await?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    Ok(said.lines().filter(|line| line.starts_with("# new generation")).count())
}
