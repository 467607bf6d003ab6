//! Simulated nodes take pods by the thousand, and have GPUs.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::suite::{Level, Stage, level};
use mercato_tests::wait;

const PATIENCE: Duration = Duration::from_secs(180);

fn deployment(name: &str, replicas: u32, limits: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
      - {{name: main, image: 'mercato.test/busybox:1', resources: {{limits: {{{limits}}}}}}}
"
    )
}

async fn ready(cluster: &Cluster, name: &str) -> Result<u32> {
    let path = ["get", "deploy", name, "-o", "jsonpath={.status.readyReplicas}"];
    Ok(cluster.kubectl(&path).await?.ok()?.parse().unwrap_or(0))
}

pub(crate) async fn many_pods(stage: &Stage) -> Result<()> {
    let milan = stage.cluster("milan");
    let many = if level() == Level::Full { 1000 } else { 200 };
    milan.apply(&deployment("many", many, "cpu: 100m, memory: 64Mi")).await?;
    wait::until("as many pods are ready", PATIENCE, || async {
        Ok(ready(milan, "many").await? == many)
    })
    .await?;
    milan.kubectl(&["delete", "deploy", "many", "--wait=false"]).await?.ok()?;
    Ok(())
}

pub(crate) async fn gpus(stage: &Stage) -> Result<()> {
    let milan = stage.cluster("milan");
    // 8 nodes of 8: 16 pods of 4 fit, the 17th does not.
    milan.apply(&deployment("train", 17, "nvidia.com/gpu: 4")).await?;
    wait::until("sixteen pods have their GPUs", PATIENCE, || async {
        Ok(ready(milan, "train").await? == 16)
    })
    .await?;
    let pending = ["get", "pods", "-l", "app=train", "--field-selector=status.phase=Pending", "-o"];
    let why = "jsonpath={.items[*].status.conditions[0].message}";
    let left = milan.kubectl(&[&pending[..], &[why]].concat()).await?.ok()?;
    ensure!(left.contains("Insufficient nvidia.com/gpu"), "the one left says {left:?}");
    let labels =
        ["get", "nodes", "-l", "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3", "-o", "name"];
    let found = milan.kubectl(&labels).await?.ok()?;
    ensure!(found.lines().count() == 8, "nodes with GPUs: {found}");
    Ok(())
}
