//! A contract that ends while all is broken.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use tokio::time::sleep;

use crate::churn::{apply, clean_up, deployment, pod};
use crate::link::set_apart;
use crate::pair::{HOME, PATIENCE, Pair};
use crate::{agreement, at_level};

/// Home cancels while the link is cut and the provider's API server is away, and both daemons
/// are killed; once all is back, nothing is left on either side.
pub(crate) async fn nothing_left(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    end(&pair).await.context("in peace")?;
    let before = (pair.rome().objects().await?, pair.turin().objects().await?);

    let pair = Pair::open(stage).await?;
    apply(&pair, &deployment(2)).await?;
    apply(&pair, &pod("single")).await?;
    agreement::reached(&pair).await.context("before")?;
    set_apart(&pair, true)?;
    pair.turin().kill("kube-apiserver")?;
    cancel(&pair).await?;
    for daemon in [&pair.home, &pair.provider] {
        daemon.kill().await?;
    }
    sleep(at_level(5, 60) * Duration::from_secs(1)).await;
    pair.turin().restart("kube-apiserver")?;
    set_apart(&pair, false)?;
    let back = Instant::now();
    closed(&pair).await?;
    println!("closed on both sides {:.1?} after all is back", back.elapsed());
    unoffload(&pair).await?;
    pair.rome().is_as_before(&before.0).await.context("in rome")?;
    pair.turin().is_as_before(&before.1).await.context("in turin")?;
    agreement::ran_once(&pair)
}

async fn cancel(pair: &Pair<'_>) -> Result<()> {
    let cancel = ["contracts", "cancel", &pair.contract, "--reason", "done", "--yes"];
    pair.home.mercato(&cancel).await?.ok().map(drop)
}

async fn end(pair: &Pair<'_>) -> Result<()> {
    cancel(pair).await?;
    closed(pair).await?;
    unoffload(pair).await
}

/// Until the daemon has given back its rights in the namespace.
async fn unoffload(pair: &Pair<'_>) -> Result<()> {
    pair.home.unoffload(HOME).await?;
    clean_up(pair).await?;
    wait::until("no rights are left in the namespace", PATIENCE, || async {
        Ok(pair.shop().kubectl(&["get", "rolebindings", "-o", "name"]).await?.is_empty())
    })
    .await
}

async fn closed(pair: &Pair<'_>) -> Result<()> {
    let show = ["contracts", "show", &pair.contract];
    wait::until("both sides have closed the contract", 2 * PATIENCE, || async {
        let (here, there) = (pair.home.json(&show).await?, pair.provider.json(&show).await?);
        let both = here["state"] == "closed" && there["state"] == "closed";
        ensure!(both, "{} and {}", here["state"], there["state"]);
        Ok(true)
    })
    .await
}

/// The contract is minutes old when home cancels it, and its pods take their time to end: home asks
/// its API server once for the end of each, and once more to remove it, by that one's own log.
pub(crate) async fn asks_once(stage: &Stage) -> Result<()> {
    const PODS: usize = 3;
    let pair = Pair::open(stage).await?;
    clean_up(&pair).await.context("what the test before has left")?;
    for nth in 0..PODS {
        let mut stays = pod(&format!("stays-{nth}"));
        stays["spec"]["containers"][0]["command"][2] = STAYS.into();
        stays["spec"]["terminationGracePeriodSeconds"] = GRACE_S.into();
        apply(&pair, &stays).await?;
    }
    agreement::reached(&pair).await.context("before")?;
    let mark = pair.rome().audit_mark()?;
    cancel(&pair).await?;
    closed(&pair).await?;
    wait::until("no pod is left at home", PATIENCE, || async {
        Ok(pair.shop().kubectl(&["get", "pods", "-o", "name"]).await?.is_empty())
    })
    .await?;
    let writes = pair.rome().writes_since(mark)?;
    let deletes = writes.iter().filter(|(write, _)| {
        write.by == "mercato" && write.verb == "delete" && write.resource == "pods"
    });
    let deletes: usize = deletes.map(|(_, count)| count).sum();
    ensure!((PODS..=2 * PODS).contains(&deletes), "{deletes} for {PODS} pods: {writes:#?}");
    unoffload(&pair).await
}

/// Does not end before it is killed.
const STAYS: &str = "trap : TERM; while :; do sleep 0.2; done";
/// Seconds after which that is done.
const GRACE_S: u32 = 12;
