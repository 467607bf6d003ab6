//! API servers that are away, or answer badly.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::fault_proxy::FaultProxy;
use mercato_tests::suite::Stage;
use tokio::time::sleep;

use crate::churn::{self, Churn};
use crate::pair::Pair;
use crate::{agreement, at_level};

const SECOND: Duration = Duration::from_secs(1);
/// Of so many requests one fails.
const EVERY: usize = 3;

/// Each API server in turn is killed as pods come and go, and comes back; at level `ci` the provider's,
/// whose guests are looked at by two.
pub(crate) async fn stopped(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    let clusters = [pair.turin(), pair.rome()];
    for cluster in &clusters[..at_level(1, 2)] {
        let churn = Churn::default();
        let breaking = async {
            sleep(2 * SECOND).await;
            cluster.kill("kube-apiserver")?;
            sleep(at_level(5, 60) * SECOND).await;
            cluster.restart("kube-apiserver")?;
            churn.end();
            anyhow::Ok(Instant::now())
        };
        let (back, steps) = futures::join!(breaking, churn.run(&pair));
        let (back, _) = (back?, steps?);
        agreement::reached(&pair).await.with_context(|| format!("in {}", cluster.name()))?;
        println!("{}: both sides agree {:.1?} after it is back", cluster.name(), back.elapsed());
        churn::clean_up(&pair).await?;
    }
    Ok(())
}

/// Of all that the daemons ask, every third request fails, each in another way, also after it
/// was done; and every connection is cut again and again.
pub(crate) async fn answers_badly(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    let proxies = [FaultProxy::start(pair.rome()).await?, FaultProxy::start(pair.turin()).await?];
    for (daemon, proxy) in [&pair.home, &pair.provider].into_iter().zip(&proxies) {
        daemon.behind(Some(proxy)).await?;
    }
    let agreed = behind(&pair, &proxies).await;
    // Also if they did not: the tests that follow have no proxy.
    pair.home.behind(None).await?;
    pair.provider.behind(None).await?;
    agreed
}

async fn behind(pair: &Pair<'_>, proxies: &[FaultProxy]) -> Result<()> {
    agreement::reached(pair).await.context("behind proxies")?;
    let churn = Churn::default();
    let breaking = async {
        proxies.iter().for_each(|proxy| proxy.fail_every(EVERY));
        for _ in 0..at_level(6, 150) {
            sleep(2 * SECOND).await;
            proxies.iter().for_each(FaultProxy::cut);
        }
        proxies.iter().for_each(|proxy| proxy.fail_every(0));
        churn.end();
    };
    let ((), steps) = futures::join!(breaking, churn.run(pair));
    let steps = steps?;
    let took = agreement::reached(pair).await.context("after bad answers")?;
    for (name, proxy) in ["home", "the provider"].iter().zip(proxies) {
        let (all, failed) = proxy.counts();
        println!("of {all} requests of {name} {failed} failed");
        ensure!(failed > 5, "hardly anything has failed");
    }
    println!("{steps} steps of pods; both sides agree {took:.1?} after the last bad answer");
    churn::clean_up(pair).await
}
