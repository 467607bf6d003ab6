//! What virtual nodes show of the provider's nodes: labels of the list, zones that home's own nodes are
//! not in, and each as it changes over there.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::wait;
use serde_json::Value;

use super::bought::PATIENCE;

const ZONE: &str = "topology.kubernetes.io/zone";
/// What changes at a provider is the same at home within this time.
const FOLLOWS: Duration = Duration::from_secs(20);

async fn labels(home: &Cluster, node: &str) -> Result<Value> {
    let get = ["get", "node", node, "-o", "jsonpath={.metadata.labels}"];
    Ok(serde_json::from_str(&home.kubectl(&get).await?.ok()?)?)
}

/// Labels of devices as they were bought, and none by which programs come that are home's own.
pub(crate) async fn shown(home: &Cluster, whole: &str, cut: &str) -> Result<()> {
    let of_whole = labels(home, whole).await?;
    ensure!(of_whole["nvidia.com/gpu.memory"] == "23034", "{of_whole}");
    ensure!(of_whole["nvidia.com/gpu.count"] == "6", "{of_whole}");
    let operators = ["nvidia.com/gpu.present", "nvidia.com/gpu.deploy.device-plugin"];
    ensure!(operators.iter().all(|key| of_whole[key].is_null()), "{of_whole}");
    let of_parts = labels(home, cut).await?;
    let product = &of_parts["nvidia.com/mig-1g.10gb.product"];
    ensure!(product == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "{of_parts}");
    ensure!(of_parts["nvidia.com/mig-1g.10gb.count"] == "7", "{of_parts}");
    ensure!(of_parts["nvidia.com/gpu.count"].is_null(), "{of_parts}");
    Ok(())
}

/// A spread over zones puts a pod at each of two providers; the zone of home's own node is not shown.
pub(crate) async fn zones(home: &Cluster, turin: &Cluster, milan: &Cluster) -> Result<()> {
    zone(turin, "turin-1").await?;
    zone(milan, "milan-1").await?;
    let both = ["milan-1", "turin-1"].map(str::to_owned).into();
    wait::until("home knows both zones", FOLLOWS, || async {
        Ok(of_virtual_nodes(home, "{.metadata.labels.topology\\.kubernetes\\.io/zone}").await?
            == both)
    })
    .await?;
    home.apply(SPREAD).await?;
    let node = "jsonpath={range .items[*]}{.spec.nodeName}{\"\\n\"}{end}";
    let get = ["get", "pods", "-n", "train", "-l", "app=spread", "-o", node];
    wait::until("a pod is at each provider", PATIENCE, || async {
        let nodes = home.kubectl(&get).await?.ok()?;
        let at = |provider: &str| nodes.lines().filter(|node| node.contains(provider)).count();
        Ok(at("milan") == 1 && at("turin") == 1)
    })
    .await?;
    home.kubectl(&["delete", "-n", "train", "deploy/spread", "--now"]).await?.ok()?;
    let own = ["label", "nodes", "--overwrite", "-l", "!mercato.dev/contract"];
    home.kubectl(&[&own[..], &[&format!("{ZONE}=turin-1")]].concat()).await?.ok()?;
    let one = ["milan-1".to_owned()].into();
    wait::until("home's own zone is not shown", FOLLOWS, || async {
        Ok(of_virtual_nodes(home, "{.metadata.labels.topology\\.kubernetes\\.io/zone}").await?
            == one)
    })
    .await?;
    let said = ["get", "events", "-A", "--field-selector", "reason=ZoneNotShown", "-o", "name"];
    wait::until("an event says so", FOLLOWS, || async {
        Ok(!home.kubectl(&said).await?.ok()?.trim().is_empty())
    })
    .await?;
    home.kubectl(&[&own[..], &[&format!("{ZONE}-")]].concat()).await?.ok().map(drop)
}

async fn zone(provider: &Cluster, zone: &str) -> Result<()> {
    let label = format!("{ZONE}={zone}");
    provider.kubectl(&["label", "nodes", "--all", "--overwrite", &label]).await?.ok().map(drop)
}

/// What virtual nodes have of a field, those without it left out.
async fn of_virtual_nodes(home: &Cluster, field: &str) -> Result<BTreeSet<String>> {
    let path = format!("jsonpath={{range .items[*]}}{field}{{\"\\n\"}}{{end}}");
    let get = ["get", "nodes", "-l", "type=virtual-kubelet", "-o", &path];
    let said = home.kubectl(&get).await.context("virtual nodes")?.ok()?;
    Ok(said.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

const SPREAD: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: spread, namespace: train}
spec:
  replicas: 2
  selector: {matchLabels: {app: spread}}
  template:
    metadata: {labels: {app: spread}}
    spec:
      terminationGracePeriodSeconds: 0
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: spread}}
      containers:
      - name: main
        image: 'mercato.test/busybox:1'
        command: [sleep, '86400']
        resources: {requests: {cpu: 10m, memory: 4Mi}}
";
