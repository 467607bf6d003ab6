//! A provider takes its capacity back with notice: pods move home in time, as far as their budgets and
//! the room there let them, and the rest is ended before the provider ends it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(90);
const NODE: &str = "mercato-turin";
const NAMESPACE: &str = "moves";
/// What a notice shows at once.
const SOON: Duration = Duration::from_secs(5);

/// A lease of turin's with pods of each kind, which is taken back within two minutes.
pub(crate) async fn pods_move(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let program = stage.program("mercato")?;
    let (home, provider) = (daemon(rome, &program).await?, daemon(turin, &program).await?);
    home.leases_from(&provider, 12).await?;
    opened(&home).await?;
    let before = on_node(rome).await?;
    ensure!(before.len() == 7, "{before:?}");

    let contracts = home.json(&["contracts", "list"]).await?;
    let contract = contracts[0]["id"].as_str().context("a contract")?.to_owned();
    let reclaim = ["reclaim", &contract, "--notice", "2m", "--reason", "a trial", "--yes"];
    provider.mercato(&reclaim).await?.ok()?;
    let given = Instant::now();
    wait::until("the node says so", SOON, || says_so(rome)).await?;
    // Whoever cordons and uncordons a node is not overruled.
    rome.kubectl(&["cordon", NODE]).await?.ok()?;
    rome.kubectl(&["uncordon", NODE]).await?.ok()?;
    let free = |pods: &[String]| pods.iter().filter(|pod| pod.starts_with("free")).count();
    wait::until("what may move has moved", PATIENCE, || async {
        let there = on_node(rome).await?;
        ensure!(free(&there) == 0, "{there:?}");
        Ok(true)
    })
    .await?;
    println!("what may move has moved after {:.0?}", given.elapsed());
    ensure!(on_node(rome).await?.len() == 5, "others have moved, too: {:?}", on_node(rome).await?);
    wait::until("the contract says who has still to go", SOON, || async {
        let shown = home.json(&["contracts", "show", &contract]).await?;
        let left = json!({ "budget": 1, "turn": 1, "noRoom": 2, "alone": 1 });
        ensure!(shown["left"] == left, "{}", shown["left"]);
        Ok(true)
    })
    .await?;
    let node = node(rome).await?;
    ensure!(node["spec"]["unschedulable"] != true, "{}", node["spec"]);
    for reason in ["Leaving", "LeavingHeld", "LeavingNoRoom"] {
        was_told(rome, reason).await?;
    }
    // 30 s of skew, the grace of 5 s and 10 s before the end.
    wait::until("the rest is ended in time", PATIENCE, || async {
        let there = on_node(rome).await?;
        ensure!(there.iter().all(|pod| pod.starts_with("stuck")), "{there:?}");
        Ok(true)
    })
    .await?;
    let after = given.elapsed();
    ensure!(
        after > Duration::from_secs(70) && after < Duration::from_secs(110),
        "after {after:.0?}"
    );
    was_told(rome, "LeavingEnded").await?;
    let job = json(rome, "job/sum").await?;
    ensure!(job["status"]["failed"].is_null(), "{}", job["status"]);
    kubectl(rome, &["wait", "deployment/held", "--for=condition=Available", "--timeout=60s"])
        .await?;
    wait::until("the node is gone", PATIENCE, || async {
        let nodes = rome.kubectl(&["get", "nodes", "-o", "name"]).await?.ok()?;
        Ok(!nodes.contains(NODE))
    })
    .await?;
    rome.kubectl(&["delete", "namespace", NAMESPACE, "--timeout=90s"]).await?.ok()?;
    home.kept_to_its_rights().context("in rome")
}

/// Pods of each kind, all on the virtual node, and room for some of them at home.
async fn opened(home: &Daemon<'_>) -> Result<()> {
    let rome = home.cluster;
    rome.kubectl(&["create", "namespace", NAMESPACE]).await?.ok()?;
    home.offload(NAMESPACE, "Both").await?;
    let own = ["-l", "!mercato.dev/contract"];
    rome.kubectl(&[&["cordon"], &own[..]].concat()).await?.ok()?;
    rome.apply(&pods()).await?;
    for what in ["deployment/free", "deployment/held", "deployment/stuck", "pod/bare"] {
        let condition = if what == "pod/bare" { "Ready" } else { "Available" };
        let condition = format!("--for=condition={condition}");
        kubectl(rome, &["wait", what, &condition, "--timeout=120s"]).await?;
    }
    kubectl(rome, &["wait", "pod", "-l", "job-name=sum", "--for=condition=Ready", "--timeout=60s"])
        .await?;
    rome.kubectl(&[&["uncordon"], &own[..]].concat()).await?.ok().map(drop)
}

async fn daemon<'a>(cluster: &'a Cluster, program: &std::path::Path) -> Result<Daemon<'a>> {
    if Daemon::runs(cluster)? {
        return Ok(Daemon::attach(cluster, program));
    }
    Daemon::start(cluster, program, "{}").await
}

/// Taint, condition, annotation and event of the node.
async fn says_so(rome: &Cluster) -> Result<bool> {
    let node = node(rome).await?;
    let taints = node["spec"]["taints"].as_array().context("taints")?;
    ensure!(taints.iter().any(|taint| taint["key"] == "mercato.dev/leaving"), "{taints:?}");
    let conditions = node["status"]["conditions"].as_array().context("conditions")?;
    let said = conditions.iter().find(|one| one["type"] == "mercato.dev/Leaving").context("one")?;
    let (reason, message) = (&said["reason"], said["message"].as_str().unwrap_or_default());
    ensure!(reason == "Reclaimed" && message.contains("a trial"), "{said}");
    let until = node["metadata"]["annotations"]["mercato.dev/not-after"].as_str().context("end")?;
    ensure!(message.contains(until), "{until}: {message}");
    let events =
        ["get", "events", "-n", "default", "--field-selector=reason=Leaving", "-o", "name"];
    Ok(!rome.kubectl(&events).await?.ok()?.is_empty())
}

async fn node(rome: &Cluster) -> Result<Value> {
    let node = rome.kubectl(&["get", "node", NODE, "-o", "json"]).await?.ok()?;
    Ok(serde_json::from_str(&node)?)
}

/// Names of the pods that are bound to the virtual node, and not ending.
async fn on_node(rome: &Cluster) -> Result<Vec<String>> {
    let pods: Value = serde_json::from_str(&kubectl(rome, &["get", "pods", "-o", "json"]).await?)?;
    let all = pods["items"].as_array().context("pods")?.iter();
    let there = all.filter(|pod| {
        pod["spec"]["nodeName"] == NODE && pod["metadata"]["deletionTimestamp"].is_null()
    });
    Ok(there.filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

async fn was_told(rome: &Cluster, reason: &str) -> Result<()> {
    let selector = format!("--field-selector=reason={reason}");
    let told = kubectl(rome, &["get", "events", &selector, "-o", "name"]).await?;
    ensure!(!told.is_empty(), "no event {reason}");
    Ok(())
}

async fn json(rome: &Cluster, what: &str) -> Result<Value> {
    Ok(serde_json::from_str(&kubectl(rome, &["get", what, "-o", "json"]).await?)?)
}

async fn kubectl(rome: &Cluster, args: &[&str]) -> Result<String> {
    rome.kubectl(&[&["-n", NAMESPACE], args].concat()).await?.ok()
}

/// Two pods that may move, two that their budget holds, one for which home has no room, one without a
/// controller, and a Job's, whose pod home has no room for.
fn pods() -> String {
    let spec = |more: Value| {
        let mut spec = json!({ "terminationGracePeriodSeconds": 5, "containers": [{
            "name": "app", "image": "mercato.test/busybox:1",
            "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.2; done"],
            "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } } }] });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        spec
    };
    let away = json!({ "nodeSelector": { "type": "virtual-kubelet" } });
    let deployment = |name: &str, replicas: u32, more: Value| {
        json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } },
                "template": { "metadata": { "labels": { "app": name } }, "spec": spec(more) } } })
    };
    let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "held", "namespace": NAMESPACE },
        "spec": { "minAvailable": 2, "selector": { "matchLabels": { "app": "held" } } } });
    let bare = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "bare", "namespace": NAMESPACE }, "spec": spec(json!({})) });
    let mut of_job = spec(away.clone());
    of_job["restartPolicy"] = json!("Never");
    let ignore = json!({ "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget" }] });
    let job = json!({ "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": "sum", "namespace": NAMESPACE },
        "spec": { "backoffLimit": 0, "podFailurePolicy": { "rules": [ignore] },
            "template": { "spec": of_job } } });
    let all = [
        deployment("free", 2, json!({})),
        deployment("held", 2, json!({})),
        deployment("stuck", 1, away),
        budget,
        bare,
        job,
    ];
    json!({ "apiVersion": "v1", "kind": "List", "items": all }).to_string()
}
