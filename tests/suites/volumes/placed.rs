//! Pods are where their volumes are.

use anyhow::{Result, ensure};
use mercato_tests::wait;
use serde_json::json;

use super::shop::{AWAY, BOTH, NODE, PATIENCE, Shop, mounting, of_ours};

/// A claim is one node's: two pods of it are on one of the provider's two, though they ask to be apart.
pub(crate) async fn one_node(shop: &Shop<'_>) -> Result<()> {
    shop.claims(AWAY, "together", &of_ours("1Gi")).await?;
    let mut spec = mounting(&["together"]);
    spec["topologySpreadConstraints"] = json!([{ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": { "matchLabels": { "app": "pair" } } }]);
    let user = shop.user(AWAY);
    for name in ["first", "second"] {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": AWAY, "labels": { "app": "pair" } }, "spec": spec });
        shop.home.cluster.apply(&pod.to_string()).await?;
    }
    for name in ["first", "second"] {
        user.sees(name, "Running").await?;
    }
    let (first, second) =
        (shop.real_node_of(AWAY, "first").await?, shop.real_node_of(AWAY, "second").await?);
    ensure!(first == second, "one is on {first}, the other on {second}");
    shop.executes(AWAY, "first", "echo carbonara > /0/dish").await?;
    let read = shop.executes(AWAY, "second", "cat /0/dish").await?;
    ensure!(read.trim() == "carbonara", "the other reads {read:?}");
    user.kubectl(&["delete", "pod", "first", "second", "--timeout=60s"]).await?;
    Ok(())
}

/// A pod that may run anywhere runs where its claim's volume can be: this cluster's own class keeps it, also
/// where the claim is made after it.
pub(crate) async fn at_home(shop: &Shop<'_>) -> Result<()> {
    let disks = json!({ "storageClassName": "disks", "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } } });
    shop.claims(BOTH, "own", &disks).await?;
    let user = shop.user(BOTH);
    user.makes("own", &mounting(&["own"])).await?;
    user.sees("own", "Running").await?;
    let node = shop.of_pod(BOTH, "own", "{.spec.nodeName}").await?;
    ensure!(node == "rome-1", "it is on {node}");
    shop.hears(BOTH, "own", "StaysHome", "storageClassName: mercato").await?;
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "early", "namespace": BOTH },
        "spec": { "selector": { "matchLabels": { "app": "early" } }, "template": {
            "metadata": { "labels": { "app": "early" } }, "spec": mounting(&["late"]) } } });
    shop.home.cluster.apply(&deployment.to_string()).await?;
    wait::until("its first pod waits for the claim", PATIENCE, || async {
        Ok(!user.kubectl(&["get", "pods", "-l", "app=early", "-o", "name"]).await?.is_empty())
    })
    .await?;
    shop.claims(BOTH, "late", &disks).await?;
    wait::until("a pod runs at home", PATIENCE, || async {
        let ask = "jsonpath={.items[*].spec.nodeName} {.items[*].status.phase}";
        let is = user.kubectl(&["get", "pods", "-l", "app=early", "-o", ask]).await?;
        ensure!(is == "rome-1 Running", "it is {is}, and {NODE} has no such volume");
        Ok(true)
    })
    .await?;
    user.kubectl(&["delete", "deployment", "early"]).await?;
    user.kubectl(&["delete", "pod", "own", "--timeout=60s"]).await?;
    Ok(())
}
