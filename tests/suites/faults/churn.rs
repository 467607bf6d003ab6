//! Pods that come and go, as their owners want it: a Deployment that is scaled and rolled,
//! Jobs, single pods that are deleted, deleted by force, and made again under one name.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::wait;
use serde_json::{Value, json};

use crate::pair::{HOME, PATIENCE, Pair};

/// Until it is told to end.
#[derive(Default)]
pub(crate) struct Churn {
    ends: AtomicBool,
}

impl Churn {
    /// No more after the step that is under way.
    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Steps, one after the other, until the end; how many there were.
    pub(crate) async fn run(&self, pair: &Pair<'_>) -> Result<u32> {
        apply(pair, &deployment(2)).await?;
        let mut steps = 0;
        while !self.ends.load(Ordering::Relaxed) {
            step(pair, steps).await.with_context(|| format!("step {steps}"))?;
            steps += 1;
        }
        apply(pair, &deployment(3)).await?;
        Ok(steps)
    }
}

async fn step(pair: &Pair<'_>, number: u32) -> Result<()> {
    let named = |stem: &str| format!("{stem}-{}", number / 8);
    let forced = ["--grace-period=0", "--force"];
    match number % 8 {
        0 => scale(pair, 4).await,
        1 => apply(pair, &job(&named("job"))).await,
        2 => {
            delete(pair, "again", &forced).await?;
            apply(pair, &pod("again")).await
        }
        3 => kubectl(pair, &["set", "env", "deploy/web", &format!("ROUND={number}")]).await,
        4 => {
            apply(pair, &pod(&named("deleted"))).await?;
            apply(pair, &pod(&named("forced"))).await
        }
        5 => scale(pair, 1).await,
        6 => delete(pair, &named("deleted"), &["--wait=false"]).await,
        _ => delete(pair, &named("forced"), &forced).await,
    }
}

async fn scale(pair: &Pair<'_>, replicas: u32) -> Result<()> {
    kubectl(pair, &["scale", "deploy/web", &format!("--replicas={replicas}")]).await
}

pub(crate) async fn delete(pair: &Pair<'_>, pod: &str, how: &[&str]) -> Result<()> {
    kubectl(pair, &[&["delete", "pod", pod, "--ignore-not-found"], how].concat()).await
}

/// Until it succeeds: home's API server, too, may be what is broken.
async fn kubectl(pair: &Pair<'_>, args: &[&str]) -> Result<()> {
    wait::until(&format!("kubectl {}", args.join(" ")), PATIENCE, || async {
        pair.shop().kubectl(&[&["--request-timeout=10s"], args].concat()).await?;
        Ok(true)
    })
    .await
}

pub(crate) async fn apply(pair: &Pair<'_>, object: &Value) -> Result<()> {
    let text = object.to_string();
    wait::until(&format!("{} is applied", object["metadata"]["name"]), PATIENCE, || async {
        pair.rome().apply(&text).await?;
        Ok(true)
    })
    .await
}

/// Every pod and every Job is as its owner wants it, on the virtual node.
pub(crate) async fn as_wanted(pair: &Pair<'_>) -> Result<()> {
    let all = pair.shop().kubectl(&["get", "deploy,job", "-o", "json"]).await?;
    let all: Value = serde_json::from_str(&all)?;
    for owner in all["items"].as_array().context("a list")? {
        let (status, name) = (&owner["status"], &owner["metadata"]["name"]);
        if owner["kind"] == "Job" {
            let done = status["succeeded"] == owner["spec"]["completions"];
            ensure!(done && status["failed"].is_null(), "{name}: {status}");
        } else {
            let replicas = &owner["spec"]["replicas"];
            let counts = ["replicas", "updatedReplicas", "readyReplicas"];
            let all = counts.iter().all(|count| status[count] == *replicas);
            ensure!(
                all && status["observedGeneration"] == owner["metadata"]["generation"],
                "{owner}"
            );
        }
    }
    Ok(())
}

/// Removes all that there is in the offloaded namespace.
pub(crate) async fn clean_up(pair: &Pair<'_>) -> Result<()> {
    let all = ["delete", "deploy,job,pod", "--all", "--timeout=90s"];
    kubectl(pair, &all).await
}

/// `replicas` pods that end at once when they are told to.
pub(crate) fn deployment(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": HOME },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": runs(WAITS) },
        },
    })
}

/// Two pods that each succeed once: a pod that fails fails the Job.
fn job(name: &str) -> Value {
    let mut runs = runs("sleep 0.5");
    runs["restartPolicy"] = "Never".into();
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": name, "namespace": HOME },
        "spec": {
            "completions": 2, "parallelism": 2, "backoffLimit": 0, "template": { "spec": runs },
        },
    })
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": HOME }, "spec": runs(WAITS),
    })
}

const WAITS: &str = "trap 'exit 0' TERM; while :; do sleep 0.2; done";

pub(crate) fn runs(script: &str) -> Value {
    json!({
        "terminationGracePeriodSeconds": 5,
        "containers": [{
            "name": "main", "image": "mercato.test/busybox:1", "command": ["sh", "-c", script],
            "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
        }],
    })
}
