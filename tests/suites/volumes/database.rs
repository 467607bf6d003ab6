//! A StatefulSet of etcd whose members have a volume each, as charts of databases make them.

use anyhow::{Context as _, Result, ensure};
use mercato_tests::suite::{Level, level};
use mercato_tests::wait;

use super::shop::{AWAY, NODE, PATIENCE, Shop};

/// As people apply it who read docs/volumes.md.
const DATABASE: &str = include_str!("../../../docs/volumes.yaml");

/// `dish` and `carbonara`, as etcd's API has keys and values.
const PUT: &str = r#"{"key":"ZGlzaA==","value":"Y2FyYm9uYXJh"}"#;
const ASK: &str = r#"{"key":"ZGlzaA=="}"#;

/// A key is put; the member is deleted, all are scaled away and back: the key is there.
pub(crate) async fn outlives_its_pods(shop: &Shop<'_>) -> Result<()> {
    shop.home.cluster.apply(DATABASE).await?;
    scaled(shop, 1).await.context("begun")?;
    ensure!(shop.of_pod(AWAY, "db-0", "{.spec.nodeName}").await? == NODE, "db-0 is not over there");
    called(shop, "put", PUT).await?;
    has_it(shop).await?;
    shop.user(AWAY).kubectl(&["delete", "pod", "db-0", "--timeout=60s"]).await?;
    scaled(shop, 1).await.context("deleted")?;
    has_it(shop).await.context("after its pod was deleted")?;
    scales(shop, 3).await?;
    scales(shop, 0).await?;
    if level() == Level::Full {
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    }
    let held = shop.held().await?;
    ensure!(held.len() == 3, "with no pod the provider holds {held:?}");
    scales(shop, 1).await?;
    has_it(shop).await.context("after it was scaled to none")
}

async fn scales(shop: &Shop<'_>, members: usize) -> Result<()> {
    let replicas = format!("--replicas={members}");
    shop.user(AWAY).kubectl(&["scale", "statefulset", "db", &replicas]).await?;
    scaled(shop, members).await.with_context(|| format!("scaled to {members}"))
}

async fn scaled(shop: &Shop<'_>, members: usize) -> Result<()> {
    let pods = ["get", "pods", "-l", "app=db", "-o"];
    let ready = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
    wait::until(&format!("{members} members are ready"), PATIENCE, || async {
        let ready = shop.user(AWAY).kubectl(&[&pods[..], &[ready]].concat()).await?;
        let all = ready.split_whitespace().collect::<Vec<_>>();
        ensure!(all.len() == members && all.iter().all(|one| *one == "True"), "ready: {all:?}");
        Ok(true)
    })
    .await
}

async fn called(shop: &Shop<'_>, what: &str, body: &str) -> Result<String> {
    let url =
        format!("http://127.0.0.1:2379/v3/kv/{}", if what == "put" { "put" } else { "range" });
    let script = format!("wget -qO- --post-data='{body}' {url}");
    shop.executes(AWAY, "db-0", &script).await
}

/// Waits until the key is there.
pub(crate) async fn has_it(shop: &Shop<'_>) -> Result<()> {
    wait::until("the key is there", PATIENCE, || async {
        let said = called(shop, "range", ASK).await?;
        ensure!(said.contains("Y2FyYm9uYXJh"), "it says {said}");
        Ok(true)
    })
    .await
}
