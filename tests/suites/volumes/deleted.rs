//! What deletes data, and what does not.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::wait;
use serde_json::json;

use super::shop::{AWAY, PATIENCE, Shop, mounting, of_ours};

/// Until a claim of a provider has gone whose claim at home was deleted.
const SOON: Duration = Duration::from_secs(5);

/// A generic ephemeral volume comes and goes with its pod.
pub(crate) async fn ephemeral(shop: &Shop<'_>) -> Result<()> {
    let user = shop.user(AWAY);
    let mut spec = mounting(&["none"]);
    spec["volumes"] = json!([{ "name": "v0", "ephemeral": { "volumeClaimTemplate": {
        "spec": of_ours("1Gi") } } }]);
    user.makes("scratch", &spec).await?;
    user.sees("scratch", "Running").await?;
    shop.executes(AWAY, "scratch", "echo hello > /0/file").await?;
    let called = shop.called(AWAY, "scratch-v0").await?;
    ensure!(shop.held().await?.contains(&called), "{called} is not held");
    user.kubectl(&["delete", "pod", "scratch", "--timeout=60s"]).await?;
    shop.is_gone(&called, PATIENCE).await
}

/// A claim that is deleted goes with its data, and one whose volume says Retain stays over there.
pub(crate) async fn by_its_claim(shop: &Shop<'_>) -> Result<()> {
    let user = shop.user(AWAY);
    let retained = shop.called(AWAY, "data-db-1").await?;
    let patch = r#"{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}"#;
    shop.home.cluster.kubectl(&["patch", "pv", &retained, "-p", patch]).await?.ok()?;
    user.kubectl(&["delete", "pvc", "data-db-1", "--timeout=60s"]).await?;
    let deleted = shop.called(AWAY, "together").await?;
    user.kubectl(&["delete", "pvc", "together", "--timeout=60s"]).await?;
    shop.is_gone(&deleted, SOON).await?;
    wait::until("its volume at home is gone, too", SOON, || async {
        let volume = ["get", "pv", &deleted, "--ignore-not-found", "-o", "name"];
        Ok(shop.home.cluster.kubectl(&volume).await?.ok()?.is_empty())
    })
    .await?;
    ensure!(shop.held().await?.contains(&retained), "what was to stay is gone");
    let phase = ["get", "pv", &retained, "-o", "jsonpath={.status.phase}"];
    let phase = shop.home.cluster.kubectl(&phase).await?.ok()?;
    ensure!(phase == "Released", "the volume that was to stay is {phase}");
    Ok(())
}

/// Data ends with its contract: nothing is left on either side, and claims at home are lost.
pub(crate) async fn with_the_contract(shop: &Shop<'_>) -> Result<()> {
    let cancel = ["contracts", "cancel", &shop.contract, "--reason", "done", "--yes"];
    shop.home.mercato(&cancel).await?.ok()?;
    wait::until("the provider holds nothing", PATIENCE, || async {
        let held = shop.held().await?;
        ensure!(held.is_empty(), "held are {held:?}");
        Ok(true)
    })
    .await?;
    wait::until("no volume is left at home", PATIENCE, || async {
        let ask = ["get", "pv", "-l", "mercato.dev/contract", "-o", "name"];
        let volumes = shop.home.cluster.kubectl(&ask).await?.ok()?;
        ensure!(volumes.is_empty(), "there are {volumes}");
        Ok(true)
    })
    .await?;
    wait::until("claims are lost", PATIENCE, || async {
        let ask = ["get", "pvc", "data-db-0", "-o", "jsonpath={.status.phase}"];
        let phase = shop.user(AWAY).kubectl(&ask).await?;
        ensure!(phase == "Lost", "the claim is {phase}");
        Ok(true)
    })
    .await?;
    let capacity = ["get", "csistoragecapacities", "-n", "mercato", "-o", "name"];
    let capacity = shop.home.cluster.kubectl(&capacity).await?.ok()?;
    ensure!(capacity.is_empty(), "what says how much is left stays: {capacity}");
    Ok(())
}
