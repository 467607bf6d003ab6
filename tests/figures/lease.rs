//! A lease, and pods that go over it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;
use mercato_tests::wait;
use serde_json::json;

use crate::stage;

/// Where the pods are made, in Rome, or in both without Mercato.
pub(crate) const NAMESPACE: &str = "shop";
/// Of Rome's, in Turin.
pub(crate) const GUESTS: &str = "shop-rome";
const PATIENCE: Duration = Duration::from_secs(600);

/// Both daemons, each in its cluster, with this configuration; Rome's first.
pub(crate) async fn daemons<'a>(
    rome: &'a Cluster,
    turin: &'a Cluster,
    config: &str,
) -> Result<(Daemon<'a>, Daemon<'a>)> {
    let program = stage::program("mercato")?;
    let home = Daemon::start(rome, &program, config).await?;
    Ok((home, Daemon::start(turin, &program, config).await?))
}

/// A lease with room for so many pods; those of the namespace go there.
pub(crate) async fn start<'a>(
    rome: &'a Cluster,
    turin: &'a Cluster,
    pods: usize,
) -> Result<(Daemon<'a>, Daemon<'a>)> {
    let (home, provider) = daemons(rome, turin, "").await?;
    home.leases_from(&provider, pods).await?;
    namespace(rome).await?;
    home.offload(NAMESPACE, "Remote").await?;
    Ok((home, provider))
}

/// The request that waits for its owner.
pub(crate) async fn request(provider: &Daemon<'_>) -> Result<String> {
    wait::until("a request waits for an answer", PATIENCE, || async {
        Ok(provider.json(&["requests"]).await?[0]["id"].is_string())
    })
    .await?;
    let requests = provider.json(&["requests"]).await?;
    Ok(requests[0]["id"].as_str().context("a request has an id")?.to_owned())
}

/// Makes the namespace of the pods.
pub(crate) async fn namespace(cluster: &Cluster) -> Result<()> {
    cluster.kubectl(&["create", "namespace", NAMESPACE]).await?.ok()?;
    wait::until("the namespace has its service account", PATIENCE, || async {
        let get = ["-n", NAMESPACE, "get", "serviceaccount", "default"];
        cluster.kubectl(&get).await?.ok()?;
        Ok(true)
    })
    .await
}

/// Makes a Deployment of so many pods, for simulated nodes: on a real one they would end at once.
pub(crate) async fn deploy(cluster: &Cluster, pods: usize) -> Result<()> {
    deploy_of(cluster, pods, "mercato.test/busybox:1").await
}

/// The same of an image that runs by itself.
pub(crate) async fn deploy_of(cluster: &Cluster, pods: usize, image: &str) -> Result<()> {
    let labels = json!({ "app": NAME });
    let requests = json!({ "cpu": "10m", "memory": "16Mi" });
    let deployment = serde_json::from_value(json!({
        "metadata": { "name": NAME },
        "spec": {
            "replicas": pods,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{
                    "name": "main",
                    "image": image,
                    "resources": { "requests": requests },
                }] },
            },
        },
    }))?;
    deployments(cluster).await?.create(&PostParams::default(), &deployment).await?;
    Ok(())
}

/// Waits until the Deployment says that so many of its pods are ready.
pub(crate) async fn ready(cluster: &Cluster, pods: usize) -> Result<()> {
    let deployments = deployments(cluster).await?;
    wait::until(&format!("{pods} pods are ready in {}", cluster.name()), PATIENCE, || async {
        let status = deployments.get(NAME).await?.status.unwrap_or_default();
        let ready = status.ready_replicas.unwrap_or_default();
        ensure!(usize::try_from(ready)? == pods, "{ready} are");
        Ok(true)
    })
    .await
}

/// Deletes the Deployment, and waits until none of its pods is left in a namespace.
pub(crate) async fn delete(cluster: &Cluster, namespace: &str) -> Result<()> {
    deployments(cluster).await?.delete(NAME, &DeleteParams::background()).await?;
    none(cluster, namespace).await
}

/// Waits until a namespace has no pods.
pub(crate) async fn none(cluster: &Cluster, namespace: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, namespace);
    let one = ListParams::default().limit(1);
    wait::until(&format!("no pod is left in {}", cluster.name()), PATIENCE, || async {
        Ok(pods.list_metadata(&one).await?.items.is_empty())
    })
    .await
}

/// What a cluster is in the tables.
pub(crate) fn side(cluster: &Cluster) -> &'static str {
    if cluster.name() == "rome" { "home" } else { "provider" }
}

async fn deployments(cluster: &Cluster) -> Result<Api<Deployment>> {
    Ok(Api::namespaced(cluster.client().await?, NAMESPACE))
}

/// The Deployment.
pub(crate) const NAME: &str = "web";
