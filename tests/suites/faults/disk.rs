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

/// How the disk at `$D` breaks as the daemon runs, and is mended.
struct Fault {
    what: &'static str,
    breaks: &'static str,
    mends: &'static str,
    /// What health says of it.
    said: &'static str,
}

/// Also where the records' file has room that nothing is written to yet.
const FULL: Fault = Fault {
    what: "full",
    breaks: "fallocate --dig-holes $D/db; dd if=/dev/zero of=$D/fill bs=1k 2>/dev/null || true",
    mends: "rm $D/fill",
    said: "No space",
};
/// As a file system does by itself that finds itself broken. It is not written again before
/// it has been looked at.
const READ_ONLY: Fault = Fault {
    what: "read-only",
    breaks: "mount -o remount,abort $D",
    mends: "until umount $D; do sleep 0.1; done; fsck.ext4 -p $D.disk || [ $? = 1 ]; \
            mount -o loop $D.disk $D",
    said: "Read-only",
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
    daemon.cluster.restart(PART)?;
    daemon.answers().await?;
    agreement::reached(pair).await.context("on a small disk")?;
    on_disk(fault.breaks).await?;
    let kept = while_broken(pair, daemon, fault).await;
    let mended = Instant::now();
    // Also if it did not do as it should: the tests that follow need their disk.
    on_disk(fault.mends).await?;
    kept.context("while it is broken")?;
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

async fn while_broken(pair: &Pair<'_>, daemon: &Daemon<'_>, fault: &Fault) -> Result<()> {
    let running = guests(pair).await?;
    for kill in [false, true] {
        if kill {
            daemon.kill().await?;
        }
        fails_to_keep(daemon).await?;
        says(daemon, Some(fault.said)).await?;
        pair.peer_is(true).await?;
        let run = guests(pair).await?;
        ensure!(running == run, "there ran {running:?}, and run {run:?}");
    }
    Ok(())
}

/// Moves the records to a disk of their own,
const TO_SMALL: &str = "cp -a $D $D.kept; truncate -s 24M $D.disk; mkfs.ext4 -q $D.disk; \
                        mount -o loop,errors=remount-ro $D.disk $D; \
                        cp -a $D.kept/. $D; sync -f $D; rm -r $D.kept";
/// and back.
const BACK: &str = "rmdir $D/lost+found; cp -a $D $D.kept; umount $D; rm -r $D $D.disk; \
                    mv $D.kept $D";

/// What an owner says is not taken any more, once what is left of the last page is full.
async fn fails_to_keep(daemon: &Daemon<'_>) -> Result<()> {
    let terms = "share set --cpu 1500m --memory 4Gi --price free --approve auto \
                 --network-isolation none --pods";
    // Both are advertised as they are: rounding would leave them as one.
    let mut pods = [100, 90].iter().cycle();
    wait::until("nothing is kept any more", PATIENCE, || {
        let share = format!("{terms} {}", pods.next().unwrap_or(&100));
        async move {
            let words: Vec<_> = share.split_whitespace().collect();
            Ok(daemon.mercato(&words).await?.code != Some(0))
        }
    })
    .await
}

/// Waits until status and health say this of the records, or nothing.
async fn says(daemon: &Daemon<'_>, what: Option<&str>) -> Result<()> {
    wait::until(&format!("status says {what:?}"), PATIENCE, || async {
        let status = daemon.json(&["status"]).await?;
        let attention = status["daemon"]["attention"].to_string();
        let health = daemon.readiness().await?;
        let holds = match what {
            Some(what) => [&attention, &health].iter().all(|said| said.contains(what)),
            None => !attention.contains("read-only") && health.contains("ok store"),
        };
        ensure!(holds, "it says {attention}, and {health}");
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
