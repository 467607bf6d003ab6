//! Whatever happens between a claim and its volume: what was written is there afterwards, and nothing twice.

use anyhow::{Context as _, Result, ensure};
use mercato_tests::wait;
use serde_json::Value;

use super::shop::{AWAY, PATIENCE, Shop, mounting, of_ours};

/// The last pod goes, and its namespace leaves no more: the provider keeps all claims, and its pods find their
/// files once it leaves again.
pub(crate) async fn leaves_no_more(shop: &Shop<'_>) -> Result<()> {
    let before = shop.held().await?;
    let user = shop.user(AWAY);
    user.kubectl(&["scale", "statefulset", "db", "--replicas=0"]).await?;
    user.kubectl(&["wait", "--for=delete", "pod", "-l", "app=db", "--timeout=60s"]).await?;
    user.kubectl(&["delete", "namespaceoffload", "default"]).await?;
    shop.provider.kill().await?;
    shop.home.kill().await?;
    futures::try_join!(shop.provider.answers(), shop.home.answers())?;
    shop.home.offload(AWAY, "Remote").await?;
    ensure!(shop.held().await? == before, "held are {:?}, and were {before:?}", shop.held().await?);
    user.kubectl(&["scale", "statefulset", "db", "--replicas=1"]).await?;
    super::database::has_it(shop).await.context("once it leaves again")
}

/// A volume is taken away by force: its claim is lost, the data stays over there, `status` says so, and the same
/// volume made again has it.
pub(crate) async fn taken_away(shop: &Shop<'_>) -> Result<()> {
    shop.claims(AWAY, "lost", &of_ours("1Gi")).await?;
    let user = shop.user(AWAY);
    user.makes("writer", &mounting(&["lost"])).await?;
    user.sees("writer", "Running").await?;
    shop.executes(AWAY, "writer", "echo carbonara > /0/dish").await?;
    user.kubectl(&["delete", "pod", "writer", "--timeout=60s"]).await?;
    let called = shop.called(AWAY, "lost").await?;
    let home = shop.home.cluster;
    let was: Value =
        serde_json::from_str(&home.kubectl(&["get", "pv", &called, "-o", "json"]).await?.ok()?)?;
    home.kubectl(&["delete", "pv", &called, "--wait=false"]).await?.ok()?;
    let none = r#"{"metadata":{"finalizers":null}}"#;
    home.kubectl(&["patch", "pv", &called, "--type=merge", "-p", none]).await?.ok()?;
    wait::until("status names what stays over there", PATIENCE, || async {
        let status = shop.home.mercato(&["status"]).await?.stdout;
        let uid = called.trim_start_matches("mercato-");
        ensure!(status.contains(uid), "it says {status}");
        Ok(true)
    })
    .await?;
    ensure!(shop.held().await?.contains(&called), "what was stored is gone");
    let phase = user.kubectl(&["get", "pvc", "lost", "-o", "jsonpath={.status.phase}"]).await?;
    ensure!(phase == "Lost", "the claim is {phase}");
    let mut again = was;
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        again["metadata"].as_object_mut().context("metadata")?.remove(field);
    }
    home.apply(&again.to_string()).await?;
    user.makes("reader", &mounting(&["lost"])).await?;
    user.sees("reader", "Running").await?;
    let read = shop.executes(AWAY, "reader", "cat /0/dish").await?;
    ensure!(read.trim() == "carbonara", "it reads {read:?}");
    user.kubectl(&["delete", "pod", "reader", "--timeout=60s"]).await?;
    user.kubectl(&["delete", "pvc", "lost", "--timeout=60s"]).await?;
    shop.is_gone(&called, PATIENCE).await
}

/// Its guest namespace is to have another name: one in which there is a claim keeps its own, and pods find their
/// files.
pub(crate) async fn renamed(shop: &Shop<'_>) -> Result<()> {
    let user = shop.user(AWAY);
    user.kubectl(&["scale", "statefulset", "db", "--replicas=0"]).await?;
    user.kubectl(&["wait", "--for=delete", "pod", "-l", "app=db", "--timeout=60s"]).await?;
    let before = shop.held().await?;
    let patch = r#"{"spec":{"name":"elsewhere"}}"#;
    user.kubectl(&["patch", "namespaceoffload", "default", "--type=merge", "-p", patch]).await?;
    user.kubectl(&["scale", "statefulset", "db", "--replicas=1"]).await?;
    super::database::has_it(shop).await.context("once it is to be called otherwise")?;
    ensure!(shop.held().await? == before, "held are {:?}, and were {before:?}", shop.held().await?);
    let patch = r#"{"spec":{"name":null}}"#;
    user.kubectl(&["patch", "namespaceoffload", "default", "--type=merge", "-p", patch]).await?;
    Ok(())
}
