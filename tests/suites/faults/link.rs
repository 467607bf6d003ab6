//! A link that is down is not a node that is down.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use tokio::time::sleep;

use crate::churn::{apply, clean_up, delete, deployment, pod};
use crate::pair::{GUEST, NODE, Pair, items};
use crate::{agreement, at_level};

const MINUTE: Duration = Duration::from_secs(60);
/// A node whose Lease is older is taken for dead.
const LEASE: Duration = Duration::from_secs(40);

/// What is sent is lost without a word, so that every time-out passes; meanwhile one pod is
/// deleted, one by force, one made again under its name, one scaled away, one added.
pub(crate) async fn cut(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    for length in at_level(vec![MINUTE / 2], vec![3 * MINUTE, 10 * MINUTE]) {
        apply(&pair, &deployment(2)).await?;
        for name in ["deleted", "forced", "again"] {
            apply(&pair, &pod(name)).await?;
        }
        agreement::reached(&pair).await.context("before the cut")?;
        set_apart(&pair, true)?;
        let cut = Instant::now();
        let kept = while_cut(&pair, cut, length).await;
        set_apart(&pair, false)?;
        kept.context("while the link is cut")?;
        let back = Instant::now();
        pair.peer_is(true).await?;
        println!("reachable {:.1?} after the link is back", back.elapsed());
        agreement::reached(&pair).await.context("after the cut")?;
        println!("both sides agree {:.1?} after the link is back", back.elapsed());
        clean_up(&pair).await?;
    }
    Ok(())
}

pub(crate) fn set_apart(pair: &Pair<'_>, apart: bool) -> Result<()> {
    pair.rome().set_apart(apart)?;
    pair.turin().set_apart(apart)
}

async fn while_cut(pair: &Pair<'_>, cut: Instant, length: Duration) -> Result<()> {
    let ran: Vec<_> = items(&pair.guests(), "pods").await?.iter().map(uid).collect();
    pair.peer_is(false).await?;
    println!("unreachable {:.1?} after the link was cut", cut.elapsed());
    // Each side finds out for itself, from what it has sent in vain.
    for (daemon, peer) in [(&pair.home, "turin"), (&pair.provider, "rome")] {
        wait::until(&format!("{peer} is not reached"), MINUTE / 2, || async {
            let status = daemon.mercato(&["status"]).await?.ok()?;
            ensure!(status.contains(&format!("{peer} is not reached")), "{status}");
            Ok(true)
        })
        .await?;
    }
    let forced = ["--grace-period=0", "--force"];
    delete(pair, "deleted", &["--wait=false"]).await?;
    delete(pair, "forced", &forced).await?;
    delete(pair, "again", &forced).await?;
    apply(pair, &pod("again")).await?;
    apply(pair, &deployment(1)).await?;
    apply(pair, &deployment(3)).await?;
    while cut.elapsed() < length {
        lease_is_fresh(pair).await?;
        ensure!(pair.node("Ready").await? == "True", "the node is not ready any more");
        sleep(Duration::from_secs(1)).await;
    }
    let run: Vec<_> = items(&pair.guests(), "pods").await?.iter().map(uid).collect();
    ensure!(ran == run, "the guests were {ran:?}, and are {run:?} in {GUEST}");
    println!("cut for {length:.0?}");
    Ok(())
}

fn uid(pod: &serde_json::Value) -> String {
    pod["metadata"]["uid"].to_string()
}

pub(crate) async fn lease_is_fresh(pair: &Pair<'_>) -> Result<()> {
    let lease = ["-n", "kube-node-lease", "get", "lease", NODE, "-o", "json"];
    wait::until("the node's lease is fresh", Duration::from_secs(1), || async {
        let lease = pair.rome().kubectl(&lease).await?.ok()?;
        let lease: k8s_openapi::api::coordination::v1::Lease = serde_json::from_str(&lease)?;
        let renewed = lease.spec.and_then(|spec| spec.renew_time).context("a time")?;
        let age = SystemTime::now().duration_since(renewed.0.into()).unwrap_or_default();
        ensure!(age < LEASE, "it is {age:?} old");
        Ok(true)
    })
    .await
}
