//! Devices of real nodes: guests of two contracts with one provider get the ids that were allocated to
//! them, on the nodes of what was bought; what ends gives them back; nodes that are relabelled.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{Level, Stage, level};
use mercato_tests::wait;
use serde_json::Value;

use super::hostile;
use super::labels;
use super::sale::deployment;

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Turin's second node, with a taint as most guides have it.
const L4: [(&str, &str); 6] = [
    ("nvidia.com/gpu.product", "NVIDIA-L4"),
    // By these an operator's programs come to a node.
    ("nvidia.com/gpu.present", "true"),
    ("nvidia.com/gpu.deploy.device-plugin", "true"),
    ("nvidia.com/gpu.memory", "23034"),
    ("nvidia.com/gpu.count", "6"),
    ("nvidia.com/gpu.replicas", "1"),
];
/// Its third: one device, cut in seven.
const CUT: [(&str, &str); 9] = [
    ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
    ("nvidia.com/gpu.memory", "81559"),
    ("nvidia.com/gpu.count", "1"),
    ("nvidia.com/mig.strategy", "mixed"),
    ("nvidia.com/mig.config.state", "success"),
    ("nvidia.com/mig-1g.10gb.product", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"),
    ("nvidia.com/mig-1g.10gb.memory", "9984"),
    ("nvidia.com/mig-1g.10gb.count", "7"),
    ("nvidia.com/mig-1g.10gb.replicas", "1"),
];
const GPU: &str = "nvidia.com/gpu";
const PART: &str = "nvidia.com/mig-1g.10gb";

fn ids(what: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{what}-{n}")).collect()
}

pub(crate) async fn bought(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let mut steps = StepTimer::start();
    devices(turin).await.context("devices of turin's nodes")?;
    steps.step("devices");
    // What was bought of Milan would be a place for these pods as well.
    let home = Daemon::attach(rome, &stage.program("mercato")?);
    home.mercato(&["unoffload", "train"]).await?;
    rome.kubectl(&["delete", "namespace", "train", "--ignore-not-found"]).await?.ok()?;
    let provider = Daemon::start(turin, &stage.program("mercato")?, "").await?;
    let share = ["share", "set", "--cpu", "80%", "--memory", "50%", "--pods", "100%"];
    let gpus = ["--gpu", "l4=6,h100.1g.10gb=7", "--gpu-runtime-class", "nvidia"];
    let terms = ["--price", "free", "--approve", "auto", "--network-isolation", "none"];
    provider.mercato(&[&share[..], &gpus, &terms].concat()).await?.ok()?;
    home.sees_offer_of("turin").await?;
    home.mercato(&["peer", "trust", "turin", "--yes"]).await?.ok()?;
    for gpu in ["l4=6", "h100.1g.10gb=7"] {
        let order =
            ["order", "--from", "turin", "--gpu", gpu, "--cpu", "500m", "--memory", "512Mi"];
        let how = ["--pods", "40", "--for", "2h", "--wait", "--timeout", "90s"];
        home.mercato(&[&order[..], &how].concat()).await?.ok()?;
    }
    steps.step("two contracts");
    rome.kubectl(&["create", "namespace", "train"]).await?.ok()?;
    home.offload("train", "Remote").await?;
    let whole = virtual_node(rome, "turin", GPU, "6").await?;
    let cut = virtual_node(rome, "turin", PART, "7").await?;
    // They choose their nodes as they would at a provider's own cluster: nobody else has an L4 that says so.
    let by = |product: &str| format!("nodeSelector: {{nvidia.com/gpu.product: {product}}}");
    let on = format!("nodeSelector: {{kubernetes.io/hostname: {cut}}}");
    let parts = deployment("parts", 7, &format!("{PART}: 1"), &on);
    let whole_pods = deployment("whole", 6, &format!("{GPU}: 1"), &by("NVIDIA-L4"));
    let none = deployment("nobodys", 1, &format!("{GPU}: 1"), &by("NVIDIA-L40S"));
    rome.apply(&[parts, whole_pods, none].join("---\n")).await?;
    got(rome, turin, "whole", 2, &ids("GPU", 6)).await?;
    got(rome, turin, "parts", 3, &ids("MIG", 7)).await?;
    waits(rome, "nobodys").await.context("a product that nobody has")?;
    labels::shown(rome, &whole, &cut).await.context("labels of virtual nodes")?;
    steps.step("their pods");
    runtime_class(rome, turin, &cut).await.context("a runtime class")?;
    steps.step("a runtime class");
    hostile::hostile(rome, &whole, &cut).await.context("pods that name devices")?;
    steps.step("pods that name devices");
    given_back(rome, turin).await.context("devices of pods that ended")?;
    steps.step("given back");
    if level() == Level::Full {
        labels::zones(rome, turin, stage.cluster("milan")).await.context("zones")?;
        steps.step("zones");
        relabelled(rome, turin, &whole).await.context("nodes that are relabelled")?;
        steps.step("relabelled");
    }
    Ok(())
}

async fn devices(turin: &Cluster) -> Result<()> {
    let label = async |number: u8, labels: &[(&str, &str)]| {
        let node = turin.node_name(number);
        let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let labels = labels.iter().map(String::as_str);
        let label = ["label", "node", &node].into_iter().chain(labels).collect::<Vec<_>>();
        turin.kubectl(&label).await?.ok()
    };
    label(2, &L4).await?;
    label(3, &CUT).await?;
    let taint = ["taint", "node", &turin.node_name(2), "nvidia.com/gpu=present:NoSchedule"];
    turin.kubectl(&taint).await?.ok()?;
    let class = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}, \
                 handler: nvidia}";
    turin.apply(class).await?;
    let (gpus, parts) = (ids("GPU", 6), ids("MIG", 7));
    futures::try_join!(turin.plug(2, GPU, &gpus), turin.plug(3, PART, &parts)).map(drop)
}

/// The name of a virtual node of a provider with so many of a resource, once it is there.
async fn virtual_node(
    home: &Cluster,
    provider: &str,
    resource: &str,
    count: &str,
) -> Result<String> {
    let found = Mutex::new(None);
    wait::until("a virtual node has the devices that were bought", PATIENCE, || async {
        let nodes = home.kubectl(&["get", "nodes", "-o", "json"]).await?.ok()?;
        let nodes: Value = serde_json::from_str(&nodes)?;
        let mut all = nodes["items"].as_array().context("nodes")?.iter();
        let name = |node: &Value| node["metadata"]["name"].as_str().map(str::to_owned);
        let is_it = |node: &&Value| {
            name(node).is_some_and(|it| it.contains(provider))
                && node["status"]["allocatable"][resource] == count
        };
        let one = all.find(is_it).and_then(name);
        let is_there = one.is_some();
        *found.lock().expect("nobody panics with it") = one;
        Ok(is_there)
    })
    .await?;
    found.into_inner().expect("nobody panics with it").context("found above")
}

/// The pod of an application is bound nowhere, and says why.
async fn waits(home: &Cluster, app: &str) -> Result<()> {
    wait::until("the pod says why it waits", PATIENCE, || async {
        let selector = format!("app={app}");
        let get = ["get", "pods", "-n", "train", "-l", &selector, "-o", "json"];
        let said = home.kubectl(&get).await?.ok()?;
        ensure!(!said.contains("\"nodeName\""), "it is bound: {said}");
        Ok(said.contains("didn't match Pod's node affinity/selector"))
    })
    .await
}

/// Pods of an application at home that run.
pub(crate) async fn running(home: &Cluster, app: &str) -> Result<Vec<String>> {
    let selector = format!("app={app}");
    let get = ["get", "pods", "-n", "train", "-l", &selector, "-o", "json"];
    let pods: Value = serde_json::from_str(&home.kubectl(&get).await?.ok()?)?;
    let runs = |pod: &&Value| {
        pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let pods = pods["items"].as_array().context("pods")?.iter().filter(runs);
    Ok(pods.filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

/// Each pod of an application sees one device that no other sees, and runs on that node of the
/// provider's.
async fn got(
    home: &Cluster,
    provider: &Cluster,
    app: &str,
    node: u8,
    ids: &[String],
) -> Result<()> {
    let all = || async { Ok(running(home, app).await?.len() == ids.len()) };
    wait::until("all pods with devices run", PATIENCE, all)
        .await
        .with_context(|| app.to_owned())?;
    let mut seen = BTreeSet::new();
    for pod in running(home, app).await? {
        let device = device(home, &pod).await?;
        ensure!(ids.contains(&device), "{pod} sees {device:?}, and not one of {ids:?}");
        ensure!(seen.insert(device.clone()), "{device} is given twice");
    }
    let selector = format!("app={app}");
    let path = "jsonpath={.items[*].spec.nodeName}";
    let get = ["get", "pods", "-A", "-l", &selector, "-o", path];
    let nodes = provider.kubectl(&get).await?.ok()?;
    let right = provider.node_name(node);
    ensure!(nodes.split_whitespace().all(|it| it == right), "{app} runs on {nodes}");
    Ok(())
}

/// What the first process of a pod's container is told to see.
pub(crate) async fn device(home: &Cluster, pod: &str) -> Result<String> {
    let exec = ["exec", "-n", "train", pod, "--", "cat", "/proc/1/environ"];
    let env = home.kubectl(&exec).await?.ok()?;
    let mut said = env.split('\0').filter_map(|it| it.strip_prefix("NVIDIA_VISIBLE_DEVICES="));
    let device = said.next().unwrap_or_default().to_owned();
    ensure!(said.next().is_none(), "said twice: {env:?}");
    Ok(device)
}

/// A pod that names the class its own cluster needs runs under the provider's.
async fn runtime_class(home: &Cluster, provider: &Cluster, cut: &str) -> Result<()> {
    home.kubectl(&["scale", "-n", "train", "deploy/parts", "--replicas=6"]).await?.ok()?;
    let class = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}, \
                 handler: nvidia}";
    home.apply(class).await?;
    let further =
        format!("runtimeClassName: nvidia\n      nodeSelector: {{kubernetes.io/hostname: {cut}}}");
    home.apply(&deployment("class", 1, &format!("{PART}: 1"), &further)).await?;
    let runs = || async { Ok(running(home, "class").await?.len() == 1) };
    wait::until("a pod with a runtime class runs", PATIENCE, runs).await?;
    let get = ["get", "pods", "-A", "-l", "app=class", "-o"];
    let classes = [&get[..], &["jsonpath={.items[*].spec.runtimeClassName}"]].concat();
    let classes = provider.kubectl(&classes).await?.ok()?;
    ensure!(classes == "nvidia", "at the provider: {classes:?}");
    home.kubectl(&["delete", "-n", "train", "deploy/class"]).await?.ok().map(drop)
}

/// Pods that end give their devices to those that come.
async fn given_back(home: &Cluster, provider: &Cluster) -> Result<()> {
    home.kubectl(&["scale", "-n", "train", "deploy/whole", "--replicas=0"]).await?.ok()?;
    let none = || async { Ok(running(home, "whole").await?.is_empty()) };
    wait::until("they have ended", PATIENCE, none).await?;
    home.kubectl(&["scale", "-n", "train", "deploy/whole", "--replicas=6"]).await?.ok()?;
    got(home, provider, "whole", 2, &ids("GPU", 6)).await
}

/// The node is another kind from now on: what runs there runs on, and what is new waits, and says why;
/// until it is what it was.
async fn relabelled(home: &Cluster, provider: &Cluster, whole: &str) -> Result<()> {
    home.kubectl(&["scale", "-n", "train", "deploy/whole", "--replicas=5"]).await?.ok()?;
    let five = || async { Ok(running(home, "whole").await?.len() == 5) };
    wait::until("five are left", PATIENCE, five).await?;
    let before = running(home, "whole").await?;
    let label = async |product: &str| {
        let label = format!("nvidia.com/gpu.product={product}");
        let node = provider.node_name(2);
        provider.kubectl(&["label", "node", &node, &label, "--overwrite"]).await?.ok()
    };
    label("NVIDIA-GB300").await?;
    let on = format!("nodeSelector: {{kubernetes.io/hostname: {whole}}}");
    home.apply(&deployment("late", 1, &format!("{GPU}: 1"), &on)).await?;
    wait::until("the pod that came says why it waits", PATIENCE, || async {
        let get = ["get", "pods", "-n", "train", "-l", "app=late", "-o", "json"];
        let said = home.kubectl(&get).await?.ok()?;
        Ok(said.contains("node affinity"))
    })
    .await?;
    // Home hears of it within a minute.
    wait::until("the virtual node has no devices", PATIENCE, || async {
        let get = ["get", "node", whole, "-o", "jsonpath={.status.allocatable}"];
        Ok(!home.kubectl(&get).await?.ok()?.contains(GPU))
    })
    .await?;
    ensure!(running(home, "whole").await? == before, "what ran there runs on");
    label("NVIDIA-L4").await?;
    let runs = || async { Ok(running(home, "late").await?.len() == 1) };
    wait::until("it runs once the node is what it was", PATIENCE, runs).await
}
