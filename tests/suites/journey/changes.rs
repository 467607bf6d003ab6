//! A contract that is made longer and larger again and again, as its owner may for months.

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::Daemon;

/// More than one record once took.
const CHANGES: usize = 20;

/// Both daemons stay ready throughout, and both know the same contract afterwards.
pub(crate) async fn many(home: &Daemon<'_>, provider: &Daemon<'_>, contract: &str) -> Result<()> {
    provider.mercato(&["share", "set", "--approve", "auto"]).await?.ok()?;
    for n in 0..CHANGES {
        let change: &[&str] = match n % 4 {
            1 => &["contracts", "resize", contract, "--cpu", "1100m"],
            3 => &["contracts", "resize", contract, "--cpu", "1"],
            _ => &["contracts", "extend", contract, "--for", "1m"],
        };
        home.mercato(change).await?.ok().with_context(|| format!("change {n}"))?;
        ready(home, provider).await.with_context(|| format!("after change {n}"))?;
    }
    provider.mercato(&["share", "set", "--approve", "ask"]).await?.ok()?;
    let shown = [
        home.json(&["contracts", "show", contract]).await?,
        provider.json(&["contracts", "show", contract]).await?,
    ];
    let [ours, theirs] = shown.each_ref().map(|shown| (&shown["terms"], &shown["state"]));
    ensure!(ours == theirs && ours.0["termS"] == 7_200 + 600, "{ours:?} and {theirs:?}");
    Ok(())
}

/// Neither is degraded.
pub(crate) async fn ready(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    for side in [home, provider] {
        let health = side.readiness().await?;
        ensure!(health.contains("200 OK") && health.contains("ok store"), "{health}");
    }
    Ok(())
}
