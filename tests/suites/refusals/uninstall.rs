//! Uninstalling on the machine of another cluster's daemon, while the cluster's own runs elsewhere.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::{Daemon, PART};

/// Twice what it is to take at most.
const PATIENCE: Duration = Duration::from_secs(80);

/// Whoever leaves the seller's cluster on the buyer's machine ends no contract of the buyer's, and takes
/// no guest away from the seller, whose daemon lives.
pub(crate) async fn elsewhere(
    buyer: &Daemon<'_>,
    seller: &Daemon<'_>,
    program: &Path,
) -> Result<()> {
    let guests = ["get", "namespaces", "-l", "mercato.dev/contract", "-o", "name"];
    let before = seller.cluster.kubectl(&guests).await?.ok()?;
    ensure!(!before.is_empty(), "there are no guests");
    let data = buyer.cluster.data_outside().join(PART);
    let named = seller.cluster.data_outside().join("admin.kubeconfig");
    let [data, named] = [data, named].map(|path| path.display().to_string());
    let uninstall = ["--yes", "--data-dir", &data, "uninstall", "--kubeconfig", &named];
    let said = tokio::time::timeout(PATIENCE, buyer.cluster.run(program, &uninstall, "")).await;
    let said = said.context("it does not come back")??;
    let told = said.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        format!("the daemon {} on this machine is not asked", buyer.cluster.name()),
        "nothing was removed".to_owned(),
        format!("renews the Lease daemon in mercato: {}", seller.cluster.name()),
    ] {
        ensure!(said.code == Some(1) && told.contains(&part), "{part}: {said:?}");
    }
    let after = seller.cluster.kubectl(&guests).await?.ok()?;
    ensure!(after == before, "{before}, and then {after}");
    Ok(())
}
