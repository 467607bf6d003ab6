//! A disk under a daemon's records that is full, or may only be read.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::Value;

use crate::churn::{apply, clean_up, deployment};
use crate::pair::{PATIENCE, Pair, items};
use crate::{agreement, at_level};

/// How the disk at `$D` breaks, and is mended.
struct Fault {
    what: &'static str,
    breaks: &'static str,
    mends: &'static str,
    /// What health says of it.
    said: &'static str,
    /// Only while nobody writes: it is broken as the daemon starts.
    before_start: bool,
}

const FULL: Fault = Fault {
    what: "full",
    breaks: "dd if=/dev/zero of=$D/fill bs=4k 2>/dev/null || true",
    mends: "rm $D/fill",
    said: "No space",
    before_start: false,
};
const READ_ONLY: Fault = Fault {
    what: "read-only",
    breaks: "mount -o remount,ro $D",
    mends: "mount -o remount,rw $D",
    said: "Read-only",
    before_start: true,
};

/// The daemon is degraded and says why, also when it is killed and started meanwhile; what
/// runs goes on; and once the disk is mended it goes on by itself.
pub(crate) async fn breaks(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    let (home, provider) = (&pair.home, &pair.provider);
    let all = [(provider, FULL), (home, READ_ONLY), (home, FULL), (provider, READ_ONLY)];
    for (daemon, fault) in all.into_iter().take(at_level(2, 4)) {
        let whose = format!("the disk of {} is {}", daemon.cluster.name(), fault.what);
        one(&pair, daemon, &fault).await.context(whose)?;
    }
    clean_up(&pair).await
}

async fn one(pair: &Pair<'_>, daemon: &Daemon<'_>, fault: &Fault) -> Result<()> {
    apply(pair, &deployment(2)).await?;
    agreement::reached(pair).await.context("before")?;
    let records = daemon.cluster.data().join(PART).join("records");
    let on_disk = |script: &str| {
        let script = format!("D={}; {script}", records.display());
        async move { daemon.cluster.on_machine(&script).await }
    };
    daemon.cluster.kill(PART)?;
    on_disk(TO_SMALL).await?;
    if fault.before_start {
        on_disk(fault.breaks).await?;
    }
    daemon.cluster.restart(PART)?;
    daemon.answers().await?;
    if !fault.before_start {
        agreement::reached(pair).await.context("on a small disk")?;
        on_disk(fault.breaks).await?;
        fails_to_keep(daemon).await?;
    }
    let running = guests(pair).await?;
    for kill in [false, true] {
        if kill {
            daemon.kill().await?;
        }
        says(daemon, Some(fault.said)).await?;
        pair.peer_is(true).await?;
        let run = guests(pair).await?;
        ensure!(running == run, "there ran {running:?}, and run {run:?}");
    }
    let mended = Instant::now();
    on_disk(fault.mends).await?;
    says(daemon, None).await?;
    println!(
        "{}, {}: recovered {:.1?} after it was mended",
        daemon.cluster.name(),
        fault.what,
        mended.elapsed()
    );
    apply(pair, &deployment(3)).await?;
    agreement::reached(pair).await.context("after it was mended")?;
    daemon.cluster.kill(PART)?;
    on_disk(BACK).await?;
    daemon.cluster.restart(PART)?;
    daemon.answers().await?;
    agreement::reached(pair).await.map(drop).context("on the first disk")
}

/// Moves the records to a disk of their own, with holes where nothing is written yet: what
/// is full takes no more there,
const TO_SMALL: &str = "cp -a $D $D.kept; mount -t tmpfs -o size=16m records $D; \
                        cp -a --sparse=always $D.kept/. $D; rm -r $D.kept";
/// and back.
const BACK: &str = "cp -a $D $D.kept; umount $D; rm -r $D; mv $D.kept $D";

/// What an owner says is not taken any more, once what is left of the last page is full.
async fn fails_to_keep(daemon: &Daemon<'_>) -> Result<()> {
    let terms = "share set --cpu 1500m --memory 4Gi --price free --approve auto \
                 --network-isolation none --pods";
    let mut pods = [40, 41].iter().cycle();
    wait::until("nothing is kept any more", PATIENCE, || {
        let share = format!("{terms} {}", pods.next().unwrap_or(&40));
        async move {
            let words: Vec<_> = share.split_whitespace().collect();
            Ok(daemon.mercato(&words).await?.code != Some(0))
        }
    })
    .await
}

/// Waits until health says this of the records, or nothing.
async fn says(daemon: &Daemon<'_>, what: Option<&str>) -> Result<()> {
    wait::until(&format!("status says {what:?}"), PATIENCE, || async {
        let status = daemon.json(&["status"]).await?;
        let attention = status["daemon"]["attention"].to_string();
        let records = attention.contains("records");
        ensure!(what.is_none_or(|what| attention.contains(what)), "it says {attention}");
        ensure!(what.is_some() || !records, "it still says {attention}");
        Ok(true)
    })
    .await
}

/// The guests and how often their containers were started.
async fn guests(pair: &Pair<'_>) -> Result<Vec<String>> {
    let one = |pod: &Value| {
        let container = &pod["status"]["containerStatuses"][0];
        format!("{} {} {}", pod["metadata"]["uid"], container["restartCount"], container["ready"])
    };
    Ok(items(&pair.guests(), "pods").await?.iter().map(one).collect())
}
