//! The end of a contract.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::daemon::Daemon;
use mercato_tests::wait;

const PATIENCE: Duration = Duration::from_secs(90);

/// Rome cancels; both sides have closed the contract once all is drained.
pub(crate) async fn cancel(home: &Daemon<'_>, provider: &Daemon<'_>, contract: &str) -> Result<()> {
    let cancel = ["contracts", "cancel", contract, "--reason", "done", "--yes"];
    home.mercato(&cancel).await?.ok()?;
    wait::until("both sides have closed the contract", PATIENCE, || async {
        for side in [home, provider] {
            let shown = side.json(&["contracts", "show", contract]).await?;
            ensure!(shown["state"] == "closed", "{}", shown["state"]);
        }
        Ok(true)
    })
    .await?;
    home.unoffload("shop").await
}
