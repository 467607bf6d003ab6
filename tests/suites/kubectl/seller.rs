//! Turin's owner, with kubectl.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;
use mercato_tests::wait;

use crate::objects::{condition, field, observed, show};

const PATIENCE: Duration = Duration::from_secs(90);

const POLICY: &str = "
apiVersion: mercato.dev/v1alpha1
kind: MarketPolicy
metadata: {name: default}
spec:
  share:
    cpu: 1500m
    memory: 4Gi
    pods: 40
    storage: 10Gi
    storageClass: fast
    price: cpu=0.60 EUR/h, memory=0.05 EUR
";

/// What is wrong in it is told in its condition; once that is right, it holds.
pub(crate) async fn shares(provider: &Daemon<'_>) -> Result<()> {
    let turin = provider.cluster;
    turin.apply(POLICY).await?;
    condition(turin, "marketpolicy/default", "Invalid").await?;
    show(turin, "describe marketpolicy default").await?;
    let path = "{.status.conditions[0].message}";
    let said = field(turin, "marketpolicy/default", path).await?;
    ensure!(
        said.starts_with("spec.share.price: expected '/' at character")
            && said.contains("for example cpu=0.02 EUR/h"),
        "{said}"
    );
    turin.apply(&POLICY.replace("memory=0.05 EUR\n", "memory=0.05 EUR/h\n")).await?;
    // No gateway enforces isolation here, and the seller has not said that it need not.
    condition(turin, "marketpolicy/default", "NothingOnSale").await?;
    let none = r#"{"spec":{"share":{"networkIsolation":"none"}}}"#;
    turin
        .kubectl(&["patch", "marketpolicy", "default", "--type", "merge", "-p", none])
        .await?
        .ok()?;
    condition(turin, "marketpolicy/default", "Holds").await?;
    show(turin, "get marketpolicy").await?;
    stores(provider).await.context("storage")?;
    let set = provider.mercato(&["share", "set", "--cpu", "1"]).await?;
    ensure!(set.code == Some(1) && set.stderr.contains("kubectl edit marketpolicy"), "{set:?}");
    Ok(())
}

/// A class of storage that this cluster may have.
fn class(name: &str) -> String {
    format!(
        "{{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{name: {name}}}, \
         provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}}"
    )
}

/// A class that is missing is named, with the line that helps; once it is there, it is on sale.
async fn stores(provider: &Daemon<'_>) -> Result<()> {
    let turin = provider.cluster;
    turin.apply(&class("slow")).await?;
    let why = "the cluster has no StorageClass fast";
    wait::until("the class that is missing is named", PATIENCE, || async {
        let share = provider.json(&["share"]).await?;
        let missing = &share["storage"]["missing"];
        ensure!(missing["why"] == why && missing["line"] == "share.storageClass: slow", "{share}");
        ensure!(share["onSale"][0]["free"]["storageBytes"].is_null(), "{share}");
        Ok(true)
    })
    .await?;
    for asked in [&["share"][..], &["status"], &["doctor"]] {
        let said = provider.mercato(asked).await?.stdout;
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        ensure!(words.contains(why) && words.contains("share.storageClass: slow"), "{said}");
    }
    turin.apply(&class("fast")).await?;
    wait::until("the class that is there is on sale", Duration::from_secs(10), || async {
        let share = provider.json(&["share"]).await?;
        ensure!(share["onSale"][0]["free"]["storageBytes"] == 10u64 << 30, "{share}");
        Ok(true)
    })
    .await
}

/// The request waits as a Contract.
pub(crate) async fn accepts(turin: &Cluster, contract: &str) -> Result<()> {
    let which = format!("contract/{contract}");
    condition(turin, &which, "Review").await?;
    show(turin, "get contracts -o wide").await?;
    let message = field(turin, &which, "{.status.conditions[0].message}").await?;
    ensure!(message.contains("\"desired\":\"Accepted\""), "{message}");
    desire(turin, contract, "Accepted").await
}

pub(crate) async fn desire(cluster: &Cluster, contract: &str, desired: &str) -> Result<()> {
    let patch = format!(r#"{{"spec":{{"desired":"{desired}","reason":"as agreed"}}}}"#);
    let patch = ["patch", "contract", contract, "--type", "merge", "-p", &patch];
    cluster.kubectl(&patch).await?.ok().map(drop)
}

/// A second contract, which is granted by rule, ends by the seller's word.
pub(crate) async fn closes(rome: &Cluster, turin: &Cluster) -> Result<()> {
    let us = field(rome, "marketpolicy/default", "{.status.fingerprint}").await?;
    let allow = format!(r#"{{"spec":{{"share":{{"allow":["{us}"]}}}}}}"#);
    let patch = ["patch", "marketpolicy", "default", "--type", "merge", "-p", &allow];
    turin.kubectl(&patch).await?.ok()?;
    observed(turin, "marketpolicy/default").await?;
    rome.apply(
        "{apiVersion: mercato.dev/v1alpha1, kind: Order, metadata: {name: second, namespace: shop}, \
         spec: {cpu: 500m, memory: 1Gi, for: 2h, from: turin}}",
    )
    .await?;
    condition(rome, "order/second", "Active").await?;
    let contract = field(rome, "order/second", "{.status.contract}").await?;
    desire(turin, &contract, "Closed").await?;
    condition(rome, "order/second", "Closed").await?;
    let message = field(rome, "order/second", "{.status.conditions[0].message}").await?;
    ensure!(message.contains("ended by provider (as agreed)"), "{message}");
    rome.kubectl(&["-n", "shop", "delete", "order", "second"]).await?.ok().map(drop)
}

/// Without the MarketPolicy nothing is shared.
pub(crate) async fn withdraws(provider: &Daemon<'_>) -> Result<()> {
    provider.cluster.kubectl(&["delete", "marketpolicy", "default"]).await?.ok()?;
    provider.cluster.kubectl(&["delete", "storageclass", "slow", "fast"]).await?.ok()?;
    wait::until("nothing is shared any more", PATIENCE, || async {
        let share = provider.json(&["share"]).await?;
        ensure!(share["policy"].is_null(), "{share}");
        Ok(true)
    })
    .await
    .context("after its MarketPolicy")
}
