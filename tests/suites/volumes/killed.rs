//! A daemon dies, or an API server is away, between a claim and its volume.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::Daemon;

use super::shop::{AWAY, PATIENCE, Shop, mounting, of_ours};

/// So long after a claim and its pod were made a daemon dies, in ms: from before the node is chosen to after
/// the pod runs.
const DEATHS_MS: [u64; 5] = [0, 80, 200, 400, 1500];
/// How long an API server is away.
const AWAY_FOR: Duration = Duration::from_secs(15);

/// Either daemon dies at points of the bind, or an API server is away meanwhile: the pod runs, what it has written
/// is there after another death, and nothing is there twice.
pub(crate) async fn at_points_of_the_bind(shop: &Shop<'_>) -> Result<()> {
    for after_ms in DEATHS_MS {
        for (side, daemon) in [("home", shop.home), ("provider", shop.provider)] {
            let name = format!("{side}-{after_ms}");
            begins(shop, &name).await?;
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            daemon.kill().await?;
            goes_on(shop, &name, daemon).await.with_context(|| format!("{name} ms"))?;
        }
    }
    for (side, daemon) in [("home", shop.home), ("provider", shop.provider)] {
        let name = format!("api-of-{side}");
        begins(shop, &name).await?;
        daemon.cluster.pause("kube-apiserver")?;
        tokio::time::sleep(AWAY_FOR).await;
        daemon.cluster.resume("kube-apiserver")?;
        goes_on(shop, &name, daemon).await.with_context(|| name.clone())?;
    }
    Ok(())
}

async fn begins(shop: &Shop<'_>, name: &str) -> Result<()> {
    shop.claims(AWAY, name, &of_ours("100Mi")).await?;
    shop.user(AWAY).makes(name, &mounting(&[name])).await
}

async fn goes_on(shop: &Shop<'_>, name: &str, daemon: &Daemon<'_>) -> Result<()> {
    let user = shop.user(AWAY);
    user.sees(name, "Running").await?;
    shop.executes(AWAY, name, "echo carbonara > /0/dish").await?;
    let called = shop.called(AWAY, name).await?;
    let ask = ["get", "pv", "-o", "jsonpath={.items[*].metadata.name}"];
    let volumes = shop.home.cluster.kubectl(&ask).await?.ok()?;
    for all in [volumes.split_whitespace().map(str::to_owned).collect(), shop.held().await?] {
        let count = all.iter().filter(|it| **it == called).count();
        ensure!(count == 1, "{called} is there {count} times: {all:?}");
    }
    user.kubectl(&["delete", "pod", name, "--timeout=60s"]).await?;
    daemon.kill().await?;
    user.makes(name, &mounting(&[name])).await?;
    user.sees(name, "Running").await?;
    let read = shop.executes(AWAY, name, "cat /0/dish").await?;
    ensure!(read.trim() == "carbonara", "it reads {read:?}");
    user.kubectl(&["delete", "pod", name, "--timeout=60s"]).await?;
    user.kubectl(&["delete", "pvc", name, "--timeout=60s"]).await?;
    shop.is_gone(&called, PATIENCE).await
}
