//! What a guest finds that goes on for a while when its lease is over, and home's daemon is away: the
//! provider ends it by itself, and until then it reaches nobody there.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::json;

use super::GUESTS;
use super::found::{Found, IMAGE, Targets, said};

/// What the guest is called, at home and there.
const GUEST: &str = "late";
/// How long a pod takes to be ready, at most.
const SOON: Duration = Duration::from_secs(60);
/// How long it has to end, in seconds: longer than it tries, and says so.
const GRACE: u64 = 20;

/// Makes a guest that tries them all once it is told to end.
pub(crate) async fn begins(user: &User<'_>, targets: &Targets) -> Result<()> {
    // A shell does what it was told between two of its commands.
    let tries = format!("ends() {{ {}; sleep 5; exit; }}; trap ends TERM; ", targets.script());
    let command = ["sh", "-c", &format!("{tries} while :; do sleep 0.2; done")];
    let spec = json!({ "terminationGracePeriodSeconds": GRACE,
        "containers": [{ "name": GUEST, "image": IMAGE, "command": command }] });
    user.makes(GUEST, &spec).await?;
    wait::until("the guest runs", SOON, || async {
        let phase = ["get", "pod", GUEST, "-o", "jsonpath={.status.phase}"];
        Ok(user.kubectl(&phase).await? == "Running")
    })
    .await
}

/// Home cancels, and is away at once; gives back once it is there again.
pub(crate) async fn ends(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    let contracts = home.json(&["contracts", "list"]).await?;
    let id = contracts[0]["id"].as_str().with_context(|| format!("no contract: {contracts}"))?;
    let cancel = ["contracts", "cancel", id, "--reason", "done", "--yes"];
    home.mercato(&cancel).await?.ok()?;
    let there = User::new(provider.cluster, GUESTS);
    wait::until("the guest is told to end", SOON, || async {
        let since = ["get", "pod", GUEST, "-o", "jsonpath={.metadata.deletionTimestamp}"];
        Ok(!there.kubectl(&since).await?.is_empty())
    })
    .await?;
    home.cluster.kill(PART)?;
    let found = said(&there, GUEST, GUEST).await;
    home.cluster.restart(PART)?;
    home.answers().await?;
    let found = found.context("it was not told to end")?;
    ensure!(found == Found::default(), "when its lease was over it found {found:?}");
    Ok(())
}
