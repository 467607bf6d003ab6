//! How long a config map's change takes to the other side: from the request at home until
//! Turin's API server tells of the guest's.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use mercato_tests::cluster::Cluster;
use mercato_tests::wait;
use serde_json::json;

use crate::lease;
use crate::stage::on_bed;
use crate::table::{self, quantile, short};

const PATIENCE: Duration = Duration::from_secs(30);
const MENU: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: menu, namespace: shop}
data: {dish: carbonara}
---
apiVersion: v1
kind: Pod
metadata: {name: cook, namespace: shop}
spec:
  volumes: [{name: menu, configMap: {name: menu}}]
  containers: [{name: main, image: 'mercato.test/busybox:1', volumeMounts: [{name: menu, mountPath: /menu}]}]
";

pub(crate) fn measure(changes: usize) -> Result<()> {
    let took = on_bed(2, async |rome, turin| changed(rome, turin, changes).await)?;
    table::head(&format!("A config map's change until it is on the other side, {changes} times"));
    for (what, goal, part) in
        [("p50", "", 0.5), ("p99", "1,000 ms", 0.99), ("the longest", "", 1.0)]
    {
        table::row(what, goal, &format!("{} ms", short(quantile(&took, part))));
    }
    Ok(())
}

async fn changed(rome: &Cluster, turin: &Cluster, changes: usize) -> Result<Vec<f64>> {
    lease::start(rome, turin, 20).await?;
    rome.apply(MENU).await?;
    let here: Api<ConfigMap> = Api::namespaced(rome.client().await?, lease::NAMESPACE);
    let there: Api<ConfigMap> = Api::namespaced(turin.client().await?, lease::GUESTS);
    wait::until("the config map is over there", PATIENCE, || async {
        Ok(there.get_opt("menu").await?.is_some())
    })
    .await?;
    let seen = there.watch(&WatchParams::default().fields("metadata.name=menu"), "0").await?;
    let mut seen = seen.boxed();
    let mut took = Vec::new();
    for number in 0..changes {
        let dish = format!("number {number}");
        let patch = Patch::Merge(json!({ "data": { "dish": dish } }));
        let start = Instant::now();
        here.patch("menu", &PatchParams::default(), &patch).await?;
        let arrives = async {
            while let Some(event) = seen.try_next().await? {
                let (WatchEvent::Added(map) | WatchEvent::Modified(map)) = event else { continue };
                if map.data.is_some_and(|data| data.get("dish") == Some(&dish)) {
                    return Ok(());
                }
            }
            anyhow::bail!("the watch has ended")
        };
        tokio::time::timeout(PATIENCE, arrives).await.context("it never arrives")??;
        took.push(start.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(took)
}
