//! Pods that change while they run: a container of `kubectl debug`, another size.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of a script that is one word: the kernel takes 128 KiB.
const SCRIPT: usize = 127 << 10;

const SIZED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: sized, namespace: shop}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: app
    image: mercato.test/busybox:1
    command: [sh, -c, 'sleep 3600']
    resources: {requests: {cpu: 50m, memory: 16Mi}, limits: {cpu: 100m, memory: 32Mi}}
";

/// A script in one word, and a thousand words.
pub(crate) async fn long_commands(rome: &Cluster) -> Result<()> {
    let shop = User::new(rome, "shop");
    let exec = ["exec", "sized", "-c", "app", "--"];
    let script = format!(": {}; echo through", "x".repeat(SCRIPT));
    let said = shop.kubectl(&[&exec[..], &["sh", "-c", &script]].concat()).await?;
    ensure!(said.trim() == "through", "{said}");
    let words = vec!["x"; 1_000];
    let count = ["sh", "-c", "echo $#", "sh"];
    let said = shop.kubectl(&[&exec[..], &count, &words].concat()).await?;
    ensure!(said.trim() == "1000", "{said}");
    Ok(())
}

pub(crate) async fn debugged(rome: &Cluster) -> Result<()> {
    rome.apply(SIZED).await?;
    let shop = User::new(rome, "shop");
    shop.kubectl(&["wait", "pod/sized", "--for=condition=Ready", "--timeout=180s"]).await?;
    let debug = ["debug", "pod/sized", "--image=mercato.test/busybox:1", "--target=app"];
    let seen = ["--", "sh", "-c", "echo beside $(cat /proc/1/comm); sleep 3600"];
    let plain = ["-c", "plain", "--profile=baseline"];
    // What traces needs more than the contract's pod-security level gives.
    let tracer = ["-c", "tracer", "--profile=general"];
    shop.kubectl(&[&debug[..], &tracer, &seen].concat()).await?;
    shop.kubectl(&[&debug[..], &plain, &seen].concat()).await?;
    wait::until("the debugger runs beside the container", PATIENCE, || async {
        let said = shop.kubectl(&["logs", "sized", "-c", "plain"]).await?;
        ensure!(said.trim() == "beside sleep", "{said}");
        Ok(true)
    })
    .await?;
    let inside = shop.kubectl(&["exec", "sized", "-c", "plain", "--", "echo", "in"]).await?;
    ensure!(inside.trim() == "in", "{inside}");
    wait::until("the one that is refused says why", PATIENCE, || async {
        let pod = pod(&shop).await?;
        let all = pod["status"]["ephemeralContainerStatuses"].as_array();
        let tracer = all.into_iter().flatten().find(|one| one["name"] == "tracer");
        let why = tracer.map_or(&Value::Null, |one| &one["state"]["waiting"]);
        ensure!(why["reason"] == "OffloadRefused", "{all:?}");
        ensure!(why["message"].as_str().is_some_and(|text| text.contains("capabilities")));
        ensure!(pod["status"]["phase"] == "Running", "{}", pod["status"]["phase"]);
        Ok(true)
    })
    .await
}

pub(crate) async fn resized(rome: &Cluster, turin: &Cluster) -> Result<()> {
    let shop = User::new(rome, "shop");
    resize(&shop, "75m", "150m").await?;
    wait::until("the pod has its new size", PATIENCE, || async {
        let pod = pod(&shop).await?;
        let status = &pod["status"];
        let app = &status["containerStatuses"][0];
        ensure!(app["resources"]["limits"]["cpu"] == "150m", "{app}");
        ensure!(app["allocatedResources"]["cpu"] == "75m", "{app}");
        ensure!(app["restartCount"] == 0, "{app}");
        ensure!(status["observedGeneration"] == pod["metadata"]["generation"], "{pod}");
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut types = conditions.filter_map(|one| one["type"].as_str());
        ensure!(!types.any(|name| name.starts_with("PodResize")), "{status}");
        Ok(true)
    })
    .await?;
    let there = ["get", "pod/sized", "-o", "jsonpath={.status.containerStatuses[0].resources}"];
    let there = User::new(turin, "shop-rome").kubectl(&there).await?;
    ensure!(there.contains("150m"), "over there it has {there}");
    Ok(())
}

/// More than was bought: the pod goes on as it is, and somebody says why.
pub(crate) async fn too_large(rome: &Cluster) -> Result<()> {
    let shop = User::new(rome, "shop");
    resize(&shop, "8", "8").await?;
    wait::until("an event says that there is no room", PATIENCE, || async {
        let events = ["events", "--for=pod/sized", "-o", "json"];
        let events = shop.kubectl(&events).await?;
        ensure!(events.contains("OffloadRefused") && events.contains("1000m of cpu"), "{events}");
        Ok(true)
    })
    .await?;
    let phase = pod(&shop).await?["status"]["phase"].clone();
    ensure!(phase == "Running", "the pod is {phase}");
    resize(&shop, "60m", "120m").await?;
    wait::until("a size for which there is room is taken", PATIENCE, || async {
        let app = pod(&shop).await?["status"]["containerStatuses"][0].clone();
        ensure!(app["resources"]["limits"]["cpu"] == "120m", "{app}");
        Ok(true)
    })
    .await
}

async fn resize(shop: &User<'_>, request: &str, limit: &str) -> Result<()> {
    let size = json!({ "requests": { "cpu": request }, "limits": { "cpu": limit } });
    let patch = json!({ "spec": { "containers": [{ "name": "app", "resources": size }] } });
    let patch = patch.to_string();
    let resize = ["patch", "pod/sized", "--subresource=resize", "--patch", &patch];
    shop.kubectl(&resize).await.map(drop)
}

async fn pod(shop: &User<'_>) -> Result<Value> {
    Ok(serde_json::from_str(&shop.kubectl(&["get", "pod/sized", "-o", "json"]).await?)?)
}
