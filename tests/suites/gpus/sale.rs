//! What of simulated nodes is on sale, what is not and why, and whose pods land where.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{Cluster, Kind};
use mercato_tests::daemon::Daemon;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{Level, Stage, level};
use mercato_tests::wait;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(90);
const PODS: usize = 20;

/// Two nodes without devices, and one or two of each kind; their numbers are in this order.
const KINDS: [(&str, u32); 12] = [
    ("gfd-h100-eight", 3),
    ("gfd-h100-mig-mixed-balanced", 1),
    ("gfd-a100-mig-single", 1),
    ("gke-l4", 20),
    ("hand-vgpu", 1),
    ("amd-mi300x-whole", 1),
    ("intel-flex-170", 1),
    ("gfd-t4-turns", 1),
    ("hami-v100", 1),
    ("aks-whole", 1),
    ("eks-gb200-simulated-unknown", 1),
    ("hand-wrong-memory", 1),
];

/// What of them is not sold, each with the line that sells it, if one does.
const UNSOLD: [(&str, Option<&str>); 5] = [
    ("4 take turns on each", Some("share.sharedGpus: [t4.ts4]")),
    ("shared by HAMi", None),
    ("Azure says", Some("share.gpuModels: {Standard_NC24ads_A100_v4: a100}")),
    ("no GPU that Mercato knows", Some("share.gpuModels: {NVIDIA-GB200-192GB-HBM3e: gb200}")),
    ("the labels say 40 GiB", None),
];

pub(crate) fn kinds() -> Vec<Kind> {
    let kinds = KINDS.into_iter().map(|(devices, count)| Kind::of(devices, count));
    [Kind::plain(2)].into_iter().chain(kinds).collect()
}

pub(crate) async fn sale(stage: &Stage) -> Result<()> {
    let (rome, milan) = (stage.cluster("rome"), stage.cluster("milan"));
    let program = stage.program("mercato")?;
    let mut steps = StepTimer::start();
    let (home, seller) =
        futures::join!(Daemon::start(rome, &program, ""), Daemon::start(milan, &program, ""));
    let (home, seller) = (home?, seller?);
    there(&seller).await.context("what is there, none of it shared yet")?;
    let gpus = "h100=16,l4=20,mi300x=8,flex170=1,v100.8c=1,a100.1g.5gb=7,h100.1g.10gb=2";
    let share = ["share", "set", "--cpu", "100%", "--memory", "100%", "--pods", "2000"];
    let terms = ["--price", "cpu=0.01 EUR/h, gpu.h100=2.40 EUR/h", "--gpu", gpus];
    let how = ["--network-isolation", "none", "--approve", "auto"];
    seller.mercato(&[&share[..], &terms, &how].concat()).await?.ok()?;
    steps.step("daemons and what is shared");
    pools(&seller).await.context("the pools")?;
    unsold(&seller).await.context("what is not sold")?;
    steps.step("what is on sale");
    owners_word(&seller).await.context("the owner's word")?;
    steps.step("the owner's word");
    home.sees_offer_of("milan").await?;
    home.mercato(&["peer", "trust", "milan", "--yes"]).await?.ok()?;
    trade(&home).await.context("orders by family")?;
    steps.step("orders");
    places(&home, milan).await.context("where pods land")?;
    steps.step("pods");
    if level() == Level::Full {
        outlives(&home, &seller).await.context("the owner's word after share stop")?;
        steps.step("the word outlives share stop");
    }
    Ok(())
}

/// Each kind of device with its word and its line, before anything is shared.
async fn there(seller: &Daemon<'_>) -> Result<()> {
    let words = ["h100=24", "l4=20", "mi300x=8", "flex170=1", "v100.8c=1", "a100.1g.5gb=7"];
    let last = Mutex::new(String::new());
    let said = wait::until("share names each", PATIENCE, || async {
        let said = seller.mercato(&["share"]).await?.ok()?;
        let all = words.iter().all(|word| said.contains(&format!("share.gpu: {word}")));
        let unsold = UNSOLD.iter().filter_map(|(_, line)| *line);
        let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let all = all && unsold.into_iter().all(|line| flat.contains(line));
        *last.lock().expect("nobody panics with it") = said;
        Ok(all)
    });
    said.await.with_context(|| last.lock().expect("nobody panics with it").clone())
}

/// By pool, so much of it is on sale.
async fn on_sale(seller: &Daemon<'_>) -> Result<Vec<(String, Value)>> {
    let share = seller.json(&["share"]).await?;
    let all = share["onSale"].as_array().context("a list of pools")?.iter();
    let row = |row: &Value| {
        let id = row["pool"]["id"].as_str().unwrap_or_default().to_owned();
        (id, row["free"].clone())
    };
    Ok(all.map(row).collect())
}

async fn pools(seller: &Daemon<'_>) -> Result<()> {
    let expected = BTreeSet::from([
        "amd64",
        "amd64-a100-40gb-sxm.1g.5gb",
        "amd64-flex170",
        "amd64-h100-80gb-sxm",
        "amd64-h100-80gb-sxm-mixed",
        "amd64-l4",
        "amd64-mi300x",
        "amd64-v100.8c",
    ]);
    let last = Mutex::new(Vec::new());
    let found = wait::until("all pools are on sale", PATIENCE, || async {
        let pools = on_sale(seller).await?;
        let ids: BTreeSet<_> = pools.iter().map(|(id, _)| id.clone()).collect();
        *last.lock().expect("nobody panics with it") = pools;
        Ok(ids == expected.iter().map(|id| (*id).to_owned()).collect())
    });
    found.await.with_context(|| format!("{last:?}"))?;
    let last = last.into_inner().expect("nobody panics with it");
    let free = |id: &str| &last.iter().find(|(pool, _)| pool == id).expect("it is among them").1;
    // Two nodes without devices, of 32 processors each.
    ensure!(free("amd64")["cpuMillis"] == 64_000, "{}", free("amd64"));
    // Sixteen of the 24 are shared, and a processor's eighth of a node comes with each.
    let whole = free("amd64-h100-80gb-sxm");
    ensure!(whole["gpus"]["h100-80gb-sxm"] == 16 && whole["cpuMillis"] == 64_000, "{whole}");
    Ok(())
}

/// `share` and `doctor` name each, with the reason and the line to write.
async fn unsold(seller: &Daemon<'_>) -> Result<()> {
    for command in ["share", "doctor"] {
        let said = seller.mercato(&[command]).await?;
        let said = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        for (reason, line) in UNSOLD {
            ensure!(said.contains(reason), "{command} does not say {reason:?}: {said}");
            let line = line.unwrap_or_default();
            ensure!(said.contains(line), "{command} does not say {line:?}: {said}");
        }
    }
    Ok(())
}

/// What the lines that were named come to: the owner may sell turns, and what nobody else knows.
async fn owners_word(seller: &Daemon<'_>) -> Result<()> {
    let models = "Standard_NC24ads_A100_v4=a100-80gb-pcie,NVIDIA-GB200-192GB-HBM3e=gb200";
    let words = ["share", "set", "--shared-gpus", "t4.ts4", "--gpu-models", models];
    let gpus = ["--gpu", "h100=16,l4=20,t4.ts4=16,a100=1,gb200=8,h100.1g.10gb=2,a100.1g.5gb=7"];
    seller.mercato(&[&words[..], &gpus].concat()).await?.ok()?;
    wait::until("the owner's devices are on sale", PATIENCE, || async {
        let ids: Vec<_> = on_sale(seller).await?.into_iter().map(|(id, _)| id).collect();
        let has = |id: &str| ids.iter().any(|it| it == id);
        Ok(has("amd64-t4.ts4") && has("amd64-gb200") && has("amd64-a100-80gb-pcie"))
    })
    .await
}

/// Rome asks for families, and gets a contract for a model; more than comes with a GPU is refused.
async fn trade(home: &Daemon<'_>) -> Result<()> {
    let order = |gpu: &'static str, cpu: &'static str, memory: &'static str| {
        ["order", "--from", "milan", "--gpu", gpu, "--cpu", cpu, "--memory", memory]
    };
    let pods = ["--pods", "40", "--for", "2h", "--wait", "--timeout", "60s", "-o", "json"];
    for (cpu, gpu) in [("5", &["--gpu", "h100=1"][..]), ("4", &[])] {
        let order = ["order", "gpu.model=h100", "--from", "milan", "--cpu", cpu, "--memory", "8Gi"];
        let refused = home.mercato(&[&order[..], gpu, &pods].concat()).await?;
        ensure!(refused.code == Some(3), "{cpu} processors and {gpu:?}: {refused:?}");
        let term = ["--for", "2h", "--dry-run"];
        let said = home.mercato(&[&order[..], gpu, &term].concat()).await?;
        let says = said.stdout.contains("comes with") || said.stderr.contains("comes with");
        ensure!(says, "{cpu} processors and {gpu:?}: {said:?}");
    }
    for (gpu, cpu, model) in [
        ("h100=2", "4", "h100-80gb-sxm"),
        ("l4=20", "10", "l4"),
        ("h100.1g.10gb=2", "2", "h100-80gb-sxm.1g.10gb"),
    ] {
        let bought = home.mercato(&[&order(gpu, cpu, "8Gi")[..], &pods].concat()).await?.ok()?;
        let bought: Value = serde_json::from_str(&bought)?;
        let id = bought["id"].as_str().context("the order has an id")?;
        let contract = home.json(&["contracts", "show", id]).await?;
        let gpus = contract["terms"]["quantity"]["gpus"].as_object().context("GPUs")?;
        let models: Vec<_> = gpus.keys().collect();
        ensure!(models == [model], "{gpu}: {contract}");
    }
    let plain = ["order", "--from", "milan", "--cpu", "8", "--memory", "16Gi"];
    home.mercato(&[&plain[..], &pods].concat()).await?.ok().map(drop)
}

/// Twenty pods of each contract, by what they ask for: where they run in Milan.
async fn places(home: &Daemon<'_>, milan: &Cluster) -> Result<()> {
    let rome = home.cluster;
    rome.kubectl(&["create", "namespace", "train"]).await?.ok()?;
    home.offload("train", "Remote").await?;
    let has = |node: &&Value, resource: &str| !node["status"]["allocatable"][resource].is_null();
    let with_none = |node: &&Value| {
        let virtual_node = node["metadata"]["labels"]["type"] == "virtual-kubelet";
        let devices = node["status"]["allocatable"].as_object().into_iter().flatten();
        virtual_node && !devices.into_iter().any(|(name, _)| name.contains('/'))
    };
    // A node has its devices as soon as the provider has said how they are asked for.
    let known = Mutex::new(Vec::new());
    wait::until("three of four virtual nodes have devices", PATIENCE, || async {
        let nodes = rome.kubectl(&["get", "nodes", "-l", "type=virtual-kubelet", "-o", "json"]);
        let mut nodes: Value = serde_json::from_str(&nodes.await?.ok()?)?;
        let all: Vec<Value> = serde_json::from_value(nodes["items"].take())?;
        let is_all = all.len() == 4 && all.iter().filter(with_none).count() == 1;
        *known.lock().expect("nobody panics with it") = all;
        Ok(is_all)
    })
    .await?;
    let all = known.into_inner().expect("nobody panics with it");
    let plain = all.iter().find(with_none).context("a virtual node without devices")?;
    let name = plain["metadata"]["name"].as_str().context("its name")?;
    let part = "nvidia.com/mig-1g.10gb";
    let of_parts = all.iter().find(|node| has(node, part)).context("a node with parts")?;
    ensure!(of_parts["status"]["allocatable"][part] == "2", "{of_parts}");
    let host = format!("nodeSelector: {{kubernetes.io/hostname: {name}}}");
    let cpu = deployment("cpu", PODS, "cpu: 100m", &host);
    let l4 = deployment("l4", PODS, "nvidia.com/gpu: 1", "");
    let parts = deployment("parts", 2, &format!("{part}: 1"), "");
    rome.apply(&[cpu, l4, parts].join("---\n")).await?;
    let whole = first_of("gfd-h100-eight");
    let mixed = first_of("gfd-h100-mig-mixed-balanced");
    let l4 = first_of("gke-l4");
    // Those with whole GPUs of either contract ask for the same, and may be at both.
    for (app, count, nodes) in [
        ("cpu", PODS, [0..2, 0..0]),
        ("l4", PODS, [whole..whole + 3, l4..l4 + 20]),
        ("parts", 2, [mixed..mixed + 1, 0..0]),
    ] {
        let selector = format!("app={app}");
        let get = ["get", "pods", "-A", "-l", &selector, "-o", "json"];
        let last = Mutex::new(Value::Null);
        let bound = wait::until("the guests are bound", PATIENCE, || async {
            let pods: Value = serde_json::from_str(&milan.kubectl(&get).await?.ok()?)?;
            let all = pods["items"].as_array().context("pods")?;
            let bound = all.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count();
            *last.lock().expect("nobody panics with it") = pods;
            Ok(bound == count)
        });
        bound.await.with_context(|| format!("{app}: {last:?}"))?;
        let last = last.into_inner().expect("nobody panics with it");
        for pod in last["items"].as_array().into_iter().flatten() {
            let node = pod["spec"]["nodeName"].as_str().context("bound above")?;
            let number: u32 = node.rsplit('-').next().unwrap_or_default().parse()?;
            let is_right = nodes.iter().any(|range| range.contains(&number));
            ensure!(is_right, "a pod of {app} is on {node}");
        }
    }
    Ok(())
}

/// What is sold by the owner's word alone goes on where nothing is shared any more, over a start too.
async fn outlives(home: &Daemon<'_>, seller: &Daemon<'_>) -> Result<()> {
    let order = ["order", "--from", "milan", "--gpu", "gb200=2", "--cpu", "2", "--memory", "8Gi"];
    let how = ["--pods", "10", "--for", "2h", "--wait", "--timeout", "60s"];
    home.mercato(&[&order[..], &how].concat()).await?.ok()?;
    seller.mercato(&["share", "stop"]).await?.ok()?;
    seller.kill().await?;
    let there = seller.json(&["share"]).await?;
    ensure!(there["policy"].is_null() && there["onSale"] == Value::Array(Vec::new()), "{there}");
    let node = wait_for_node(home.cluster, "NVIDIA-GB200-192GB-HBM3e").await?;
    let on = format!("nodeSelector: {{kubernetes.io/hostname: {node}}}");
    home.cluster.apply(&deployment("word", 1, "nvidia.com/gpu: 1", &on)).await?;
    let get = ["get", "pods", "-n", "train", "-l", "app=word", "-o", "jsonpath={..status.phase}"];
    wait::until("a new pod of it runs", PATIENCE, || async {
        Ok(home.cluster.kubectl(&get).await?.ok()?.trim() == "Running")
    })
    .await
}

/// The name of the virtual node whose devices are of that product, once it says so.
async fn wait_for_node(home: &Cluster, product: &str) -> Result<String> {
    let found = Mutex::new(String::new());
    let label = format!("nvidia.com/gpu.product={product}");
    let get = ["get", "nodes", "-l", &label, "-o", "jsonpath={.items[0].metadata.name}"];
    wait::until("a virtual node says its product", PATIENCE, || async {
        let name = home.kubectl(&get).await?.stdout.trim().to_owned();
        let is_there = name.starts_with("mercato-");
        *found.lock().expect("nobody panics with it") = name;
        Ok(is_there)
    })
    .await?;
    Ok(found.into_inner().expect("nobody panics with it"))
}

/// The number of the first node of a kind.
fn first_of(devices: &str) -> u32 {
    let before = KINDS.into_iter().take_while(|(name, _)| *name != devices);
    2 + before.map(|(_, count)| count).sum::<u32>()
}

pub(crate) fn deployment(name: &str, replicas: usize, limits: &str, further: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: train}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      {further}
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: 'mercato.test/busybox:1'
        command: [sleep, '86400']
        resources: {{requests: {{cpu: 10m, memory: 4Mi}}, limits: {{{limits}}}}}
"
    )
}
