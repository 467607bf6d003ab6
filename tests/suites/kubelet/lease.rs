//! A lease, by the shortest way there is.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::Daemon;
use mercato_tests::wait;

const PATIENCE: Duration = Duration::from_secs(60);
const SHARE: [&str; 14] = [
    "share",
    "set",
    "--cpu",
    "1500m",
    "--memory",
    "4Gi",
    "--pods",
    "40",
    "--price",
    "free",
    "--approve",
    "auto",
    "--network-isolation",
    "none",
];
const ORDER: [&str; 9] = ["order", "--cpu", "1", "--memory", "2Gi", "--pods", "20", "--for", "2h"];

/// Rome buys of Turin; the pods of `shop` run there.
pub(crate) async fn start(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    provider.mercato(&SHARE).await?.ok()?;
    wait::until("turin's offer is seen", PATIENCE, || async {
        let offers = home.json(&["browse"]).await?;
        let all = offers.as_array().context("a list")?;
        ensure!(all.iter().any(|offer| offer["name"] == "turin"), "{offers}");
        Ok(true)
    })
    .await?;
    home.mercato(&["peer", "trust", "turin", "--yes"]).await?.ok()?;
    home.mercato(&[&ORDER[..], &["--wait", "--timeout", "60s"]].concat()).await?.ok()?;
    home.mercato(&["offload", "shop", "--strategy", "remote"]).await?.ok().map(drop)
}
