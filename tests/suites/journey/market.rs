//! Two owners at their command lines.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::Daemon;
use mercato_tests::wait;
use serde_json::Value;

use crate::Isolation;

const PATIENCE: Duration = Duration::from_secs(60);
const ORDER: [&str; 9] = ["order", "--cpu", "1", "--memory", "2Gi", "--pods", "20", "--for", "2h"];

/// With no configuration, by mDNS.
pub(crate) async fn found(home: &Daemon<'_>) -> Result<()> {
    wait::until("turin is found on the LAN and connected", PATIENCE, || async {
        let peers = home.json(&["peers"]).await?;
        let turin = named(&peers, "turin")?;
        let mdns = turin["found"].as_array().is_some_and(|found| found.contains(&"mdns".into()));
        ensure!(mdns && turin["connected"].is_string(), "{turin}");
        Ok(true)
    })
    .await
}

fn named<'a>(list: &'a Value, name: &str) -> Result<&'a Value> {
    let all = list.as_array().context("a list")?;
    all.iter().find(|one| one["name"] == name).with_context(|| format!("no {name} in {list}"))
}

pub(crate) async fn share(provider: &Daemon<'_>, isolation: Isolation) -> Result<()> {
    let share = ["share", "set", "--cpu", "1500m", "--memory", "4Gi", "--pods", "40"];
    let terms = ["--price", "cpu=0.60 EUR/h, memory=0.05 EUR/h", "--approve", "ask"];
    let isolated = provider.mercato(&[&share[..], &terms].concat()).await?;
    if isolation == Isolation::Required {
        return isolated.ok().map(drop);
    }
    // Nothing here enforces isolation here, and the seller has not said that it need not.
    let shown = provider.mercato(&["share"]).await?;
    ensure!(
        isolated.code == Some(0) && shown.stdout.contains("--network-isolation none"),
        "{isolated:?} {shown:?}"
    );
    let none = ["share", "set", "--network-isolation", "none"];
    provider.mercato(&none).await?.ok().map(drop)
}

pub(crate) async fn browse(home: &Daemon<'_>) -> Result<()> {
    home.sees_offer_of("turin").await?;
    let table = home.mercato(&["browse"]).await?.ok()?;
    ensure!(
        table.contains("turin") && table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
    Ok(())
}

/// Nothing is bought of somebody whose key the owner has not seen.
pub(crate) async fn stranger(home: &Daemon<'_>) -> Result<()> {
    let order = home.mercato(&ORDER).await?;
    ensure!(order.code == Some(1), "{order:?}");
    ensure!(order.stderr.contains("fingerprint") && order.stderr.contains("mercato peer trust"));
    Ok(())
}

pub(crate) async fn trust(home: &Daemon<'_>) -> Result<()> {
    home.mercato(&["peer", "trust", "turin", "--yes"]).await?.ok().map(drop)
}

/// Egress is offered once it is shared, and no longer than that: both sides are told so.
async fn egress(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    let order = home.mercato(&[&ORDER[..], &["--egress", "8.8.8.0/24"]].concat()).await?;
    ensure!(order.code == Some(3) && order.stderr.contains("offers no egress"), "{order:?}");
    for (to, is_offered) in [("internet", true), ("none", false)] {
        provider.mercato(&["share", "set", "--egress", to]).await?.ok()?;
        wait::until(&format!("egress to {to} is seen"), PATIENCE, || async {
            let found = home.mercato(&["browse", "egress in (internet)", "-o", "json"]).await?;
            let market: Value = serde_json::from_str(&found.stdout).unwrap_or_default();
            let is_found = named(&market["offers"], "turin").is_ok();
            ensure!(is_found == is_offered, "{found:?}");
            Ok(true)
        })
        .await?;
    }
    Ok(())
}

/// The contract's id, once the node is ready.
pub(crate) async fn order(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<String> {
    egress(home, provider).await.context("egress")?;
    let contract = home.buy(provider, &ORDER).await?;
    let ready = ["wait", "--for=condition=Ready", "node/mercato-turin", "--timeout=1s"];
    home.cluster.kubectl(&ready).await?.ok()?;
    Ok(contract)
}

/// What both have signed, the same on both sides.
pub(crate) async fn statement(
    home: &Daemon<'_>,
    provider: &Daemon<'_>,
    contract: &str,
) -> Result<()> {
    wait::until("a receipt is signed by both", PATIENCE * 2, || async {
        for side in [home, provider] {
            let statement = side.json(&["contracts", "statement", contract]).await?;
            ensure!(statement[0]["BilledCost"].is_string(), "{statement}");
        }
        Ok(true)
    })
    .await
}
