//! What pods use: by `kubectl top`, to an autoscaler, on the kubelet's own paths.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::NODE;

/// Two metrics-servers, one behind the other, need two looks each, 10 s apart; an
/// autoscaler looks every 15 s.
const PATIENCE: Duration = Duration::from_secs(150);

/// Twice as busy as it asks for.
const BURNER: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: burner, namespace: shop}
spec:
  selector: {matchLabels: {app: burner}}
  template:
    metadata: {labels: {app: burner}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: burner
        image: mercato.test/busybox:1
        command: [sh, -c, 'while :; do :; done']
        resources: {requests: {cpu: 50m, memory: 16Mi}, limits: {cpu: 100m, memory: 64Mi}}
";

pub(crate) async fn start_burning(rome: &Cluster) -> Result<()> {
    rome.apply(BURNER).await?;
    let wait = ["rollout", "status", "deploy/burner", "--timeout=180s"];
    User::new(rome, "shop").kubectl(&wait).await.map(drop)
}

pub(crate) async fn top(rome: &Cluster) -> Result<()> {
    let shop = User::new(rome, "shop");
    wait::until("kubectl top shows the burner", PATIENCE, || async {
        let pods = shop.kubectl(&["top", "pods", "--no-headers", "-l", "app=burner"]).await?;
        // burner-5d9c7 99m 0Mi
        let millis = pods.split_whitespace().nth(1).and_then(|cpu| cpu.strip_suffix('m'));
        let millis: u32 = millis.context("no figure")?.parse()?;
        ensure!((40..=130).contains(&millis), "{pods}");
        Ok(true)
    })
    .await?;
    wait::until("kubectl top shows the virtual node", PATIENCE, || async {
        let node = shop.kubectl(&["top", "node", NODE, "--no-headers"]).await?;
        let words: Vec<_> = node.split_whitespace().collect();
        // Its pods together may hold less than 1Mi.
        ensure!(words.len() == 5 && words[1] != "0m" && words[3].ends_with("Mi"), "{node}");
        Ok(true)
    })
    .await
}

pub(crate) async fn read_raw(rome: &Cluster) -> Result<()> {
    let read = async |path: &str| {
        let path = format!("/api/v1/nodes/{NODE}/proxy/{path}");
        rome.kubectl(&["get", "--raw", &path]).await?.ok()
    };
    let summary: Value = serde_json::from_str(&read("stats/summary").await?)?;
    ensure!(summary["node"]["nodeName"] == NODE, "{summary}");
    let held = summary["node"]["memory"]["workingSetBytes"].as_u64();
    ensure!(held.is_some_and(|bytes| bytes > 0), "{summary}");
    let pods = summary["pods"].as_array().context("a list")?;
    let ours = |pod: &Value| pod["podRef"]["namespace"] == "shop";
    ensure!(!pods.is_empty() && pods.iter().all(ours), "{summary}");
    let cadvisor = read("metrics/cadvisor").await?;
    let line = "container_memory_working_set_bytes{container=\"burner\",namespace=\"shop\"";
    ensure!(cadvisor.contains(line), "{cadvisor}");
    ensure!(!cadvisor.contains("turin-1") && !cadvisor.contains("shop-rome"), "{cadvisor}");
    let running: Value = serde_json::from_str(&read("runningpods/").await?)?;
    ensure!(running["items"].as_array().is_some_and(|pods| !pods.is_empty()), "{running}");
    let pods: Value = serde_json::from_str(&read("pods").await?)?;
    let all = pods["items"].as_array().context("a list")?;
    ensure!(all.iter().all(|pod| pod["spec"]["nodeName"] == NODE), "{pods}");
    ensure!(read("healthz").await? == "ok");
    ensure!(read("configz").await?.contains("kubeletconfig"));
    ensure!(read("metrics").await?.contains("kubelet_running_pods"));
    let run = format!("/api/v1/nodes/{NODE}/proxy/run/shop/sized/app?cmd=echo+it+ran");
    let ran = rome.kubectl_with_input(&["create", "--raw", &run, "-f", "-"], "").await?.ok()?;
    ensure!(ran.trim() == "it ran", "{ran:?}");
    Ok(())
}

/// A pod that is silent, followed by somebody who goes: nobody follows it over there.
pub(crate) async fn logs_end(rome: &Cluster, turin: &Cluster) -> Result<()> {
    User::new(rome, "shop").run("quiet", "echo once; sleep 3600").await?;
    let mut follow = rome
        .command("kubectl")?
        .args(["-n", "shop", "logs", "-f", "quiet"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(follow.stdout.take().context("piped above")?).lines();
    let first = tokio::time::timeout(PATIENCE, lines.next_line()).await??;
    ensure!(first.as_deref() == Some("once"), "{first:?}");
    let stages = |stage: &str| -> Result<usize> {
        let log = fs::read_to_string(turin.data_outside().join("audit.log"))?;
        let followed = |line: &&str| line.contains("/pods/quiet/log?") && line.contains(stage);
        Ok(log.lines().filter(followed).count())
    };
    ensure!(stages("ResponseStarted")? == 1 && stages("ResponseComplete")? == 0);
    follow.kill().await?;
    wait::until("nobody follows the logs in turin", Duration::from_secs(20), || async {
        Ok(stages("ResponseComplete")? == 1)
    })
    .await
}

pub(crate) async fn scaled(rome: &Cluster) -> Result<()> {
    let shop = User::new(rome, "shop");
    let autoscale = ["autoscale", "deploy/burner", "--cpu=50%", "--min=1", "--max=2"];
    shop.kubectl(&autoscale).await?;
    wait::until("the autoscaler has made a second burner", PATIENCE, || async {
        let ready = ["get", "deploy/burner", "-o", "jsonpath={.status.readyReplicas}"];
        let ready = shop.kubectl(&ready).await?;
        let status = ["get", "hpa/burner", "-o", "jsonpath={.status}"];
        ensure!(ready == "2", "{ready} ready: {}", shop.kubectl(&status).await?);
        Ok(true)
    })
    .await
}
