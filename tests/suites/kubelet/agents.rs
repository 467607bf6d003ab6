//! DaemonSets that tolerate every taint, of a namespace that nobody has offloaded: their roll-outs end,
//! though nothing of them runs on the virtual node, and it says so.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

use super::NODE;

const NAMESPACE: &str = "agents";
const PATIENCE: Duration = Duration::from_secs(60);

/// Before there is a virtual node.
pub(crate) async fn before(rome: &Cluster) -> Result<()> {
    rome.kubectl(&["create", "namespace", NAMESPACE]).await?.ok()?;
    make(rome, "early").await?;
    rolled_out(rome, "early").await
}

/// Once there is one, also of another DaemonSet.
pub(crate) async fn after(rome: &Cluster) -> Result<()> {
    let user = User::new(rome, NAMESPACE);
    make(rome, "late").await?;
    for name in ["early", "late"] {
        let pod = on_node(rome, name).await?;
        rolled_out(rome, name).await?;
        says_so(&user, &pod).await?;
    }
    let endpoints =
        ["get", "endpointslices", "-l", "kubernetes.io/service-name=late", "-o", "json"];
    let slices: Value = serde_json::from_str(&user.kubectl(&endpoints).await?)?;
    let addresses = slices["items"].as_array().into_iter().flatten();
    let addresses: usize =
        addresses.filter_map(|slice| Some(slice["endpoints"].as_array()?.len())).sum();
    ensure!(addresses == 1, "the Service has the pod on the real node alone: {slices}");
    // It ends at once, and another is answered for in its place.
    let first = on_node(rome, "late").await?;
    user.kubectl(&["delete", "pod", &first, "--timeout=20s"]).await?;
    wait::until("another pod is on the virtual node", PATIENCE, || async {
        Ok(on_node(rome, "late").await? != first)
    })
    .await?;
    rolled_out(rome, "late").await?;
    rome.kubectl(&["delete", "namespace", NAMESPACE, "--timeout=180s"]).await?.ok().map(drop)
}

async fn says_so(user: &User<'_>, name: &str) -> Result<()> {
    let pod: Value =
        serde_json::from_str(&user.kubectl(&["get", "pod", name, "-o", "json"]).await?)?;
    let status = &pod["status"];
    ensure!(status["phase"] == "Running" && status["podIP"].is_null(), "{status}");
    let conditions = status["conditions"].as_array();
    let said = conditions.into_iter().flatten().find(|it| it["type"] == "mercato.dev/NotOffloaded");
    let said = said.and_then(|it| it["message"].as_str()).unwrap_or_default();
    ensure!(said.contains("mercato offload agents"), "{conditions:?}");
    let about = format!("involvedObject.name={name},reason=NotOffloaded");
    let events = user.kubectl(&["get", "events", "--field-selector", &about, "-o", "name"]).await?;
    ensure!(events.lines().count() == 1, "{events:?}");
    // Its certificate may be on its way.
    wait::until("logs and exec say so", PATIENCE, || async {
        for ask in [&["logs", name][..], &["exec", name, "--", "true"]] {
            let said = user.output(ask).await?.stderr;
            let is_clear = said.contains("runs here") && said.contains("mercato offload agents");
            ensure!(is_clear, "{ask:?}: {said}");
        }
        Ok(true)
    })
    .await
}

async fn rolled_out(rome: &Cluster, name: &str) -> Result<()> {
    let set = format!("daemonset/{name}");
    User::new(rome, NAMESPACE)
        .kubectl(&["rollout", "status", &set, "--timeout=180s"])
        .await
        .map(drop)
}

/// The one pod of this DaemonSet on the virtual node, once it is there.
async fn on_node(rome: &Cluster, name: &str) -> Result<String> {
    let (app, on) = (format!("app={name}"), format!("spec.nodeName={NODE}"));
    let get = ["get", "pods", "-l", &app, "--field-selector", &on, "-o", "name"];
    let user = User::new(rome, NAMESPACE);
    wait::until("a pod is on the virtual node", PATIENCE, || async {
        Ok(user.kubectl(&get).await?.lines().count() == 1)
    })
    .await?;
    Ok(user.kubectl(&get).await?.trim().trim_start_matches("pod/").to_owned())
}

/// As agents on nodes are, with a Service.
async fn make(rome: &Cluster, name: &str) -> Result<()> {
    let labels = json!({ "app": name });
    let container = json!({ "name": name, "image": "mercato.test/busybox:1",
        "command": ["sh", "-c", "trap exit TERM; while :; do sleep 1; done"] });
    let spec = json!({ "tolerations": [{ "operator": "Exists" }], "containers": [container],
        "terminationGracePeriodSeconds": 1 });
    let set = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": spec } } });
    let service = json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "selector": labels, "ports": [{ "port": 80 }] } });
    rome.apply(&set.to_string()).await?;
    rome.apply(&service.to_string()).await
}
