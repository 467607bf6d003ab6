//! Offers and orders.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::Daemon;
use mercato_tests::wait;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const ORDER: [&str; 9] =
    ["order", "--cpu", "2", "--memory", "2Gi", "--pods", "20", "--for", "2h"];

async fn share(seller: &Daemon<'_>, price: &str, terms: &[&str]) -> Result<()> {
    let share = ["share", "set", "--cpu", "8", "--memory", "16Gi", "--pods", "60"];
    seller.mercato(&[&share[..], &["--price", price], terms].concat()).await?.ok().map(drop)
}

/// A seller that cannot keep its guests apart sells nothing, until its owner says that it
/// need not; then the offer shows it.
pub(crate) async fn unproven_isolation(buyer: &Daemon<'_>, seller: &Daemon<'_>) -> Result<()> {
    share(seller, "cpu=0.60 EUR/h", &["--approve", "deny"]).await?;
    let shown = seller.json(&["share"]).await?;
    ensure!(shown["onSale"].as_array().is_some_and(Vec::is_empty), "{shown}");
    let told = seller.mercato(&["share"]).await?.ok()?;
    ensure!(told.contains("--network-isolation none"), "{told}");
    seller.mercato(&["share", "set", "--network-isolation", "none"]).await?.ok()?;
    buyer.sees_offer_of(seller.cluster.name()).await?;
    let offer = buyer.mercato(&["offer", "show", seller.cluster.name()]).await?.ok()?;
    let line = offer.lines().find(|line| line.contains("solation") && line.contains("none"));
    ensure!(line.is_some(), "{offer}");
    Ok(())
}

/// However cheap: nothing is bought from somebody whom the owner has not accepted.
pub(crate) async fn cheap_stranger(
    buyer: &Daemon<'_>,
    seller: &Daemon<'_>,
    stranger: &Daemon<'_>,
) -> Result<()> {
    let free = ["--network-isolation", "none", "--approve", "auto"];
    share(stranger, "cpu=0.01 EUR/h", &free).await?;
    buyer.sees_offer_of(stranger.cluster.name()).await?;
    let order = buyer.mercato(&ORDER).await?;
    ensure!(order.code == Some(1) && order.stderr.contains("peer trust"), "{order:?}");
    buyer.mercato(&["peer", "trust", seller.cluster.name(), "--yes"]).await?.ok()?;
    let candidates = buyer.mercato(&[&ORDER[..], &["--dry-run"]].concat()).await?.ok()?;
    ensure!(candidates.contains("pisa") && candidates.contains("stranger"), "{candidates}");
    Ok(())
}

/// The seller's owner does not want this buyer: at once, or after a look.
pub(crate) async fn denied(buyer: &Daemon<'_>, seller: &Daemon<'_>) -> Result<()> {
    let wait = [&ORDER[..], &["--wait", "--timeout", "60s"]].concat();
    let order = buyer.mercato(&wait).await?;
    ensure!(order.code == Some(4) && order.stderr.contains("siena"), "{order:?}");
    seller.mercato(&["share", "set", "--approve", "ask"]).await?.ok()?;
    let deny = wait::until("the request waits for an answer", PATIENCE, || async {
        let requests = seller.json(&["requests"]).await?;
        let id = requests[0]["id"].as_str().context("no request")?;
        let deny = ["requests", "deny", id, "--reason", "maintenance this week"];
        seller.mercato(&deny).await?.ok()?;
        Ok(true)
    });
    let (order, denied) = futures::join!(buyer.mercato(&wait), deny);
    denied?;
    let order = order?;
    let told = order.code == Some(4) && order.stderr.contains("maintenance this week");
    ensure!(told, "{order:?}");
    let held: Value = seller.json(&["share"]).await?;
    ensure!(held["onSale"][0]["free"]["cpuMillis"] == 8_000, "{held}");
    Ok(())
}
