//! Leases that come and go beside one that stays.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::{Daemon, order};
use mercato_tests::wait;

const PATIENCE: Duration = Duration::from_secs(90);

/// One after the other so many leases begin, are ready at home, and end on both sides.
pub(crate) async fn come_and_go(
    home: &Daemon<'_>,
    provider: &Daemon<'_>,
    count: u64,
) -> Result<()> {
    for nth in 0..count {
        come_and_go_once(home, provider).await.with_context(|| format!("lease {nth}"))?;
    }
    Ok(())
}

async fn come_and_go_once(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    let order = order(1);
    let order: Vec<&str> = order.iter().map(String::as_str).collect();
    let ordered = home.json(&[&order[..], &["--wait", "--timeout", "60s"]].concat()).await?;
    let contract = ordered["id"].as_str().context("an order has an id")?;
    let cancel = ["contracts", "cancel", contract, "--reason", "done", "--yes"];
    home.mercato(&cancel).await?.ok()?;
    wait::until("both sides have closed the contract", PATIENCE, || async {
        for side in [home, provider] {
            let shown = side.json(&["contracts", "show", contract]).await?;
            ensure!(shown["state"] == "closed", "{}", shown["state"]);
        }
        Ok(true)
    })
    .await
}
