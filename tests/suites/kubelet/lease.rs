//! A lease, by the shortest way there is.

use anyhow::Result;
use mercato_tests::daemon::Daemon;

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
    home.sees_offer_of("turin").await?;
    home.mercato(&["peer", "trust", "turin", "--yes"]).await?.ok()?;
    home.mercato(&[&ORDER[..], &["--wait", "--timeout", "60s"]].concat()).await?.ok()?;
    home.offload("shop", "Remote").await
}
