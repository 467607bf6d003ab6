//! The end of a contract, and what then is left: nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;
use mercato_tests::wait;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(90);

/// Rome cancels; both sides have closed the contract once all is drained.
pub(crate) async fn cancel(home: &Daemon<'_>, provider: &Daemon<'_>, contract: &str) -> Result<()> {
    let cancel = ["contracts", "cancel", contract, "--reason", "done", "--yes"];
    home.mercato(&cancel).await?.ok()?;
    wait::until("both sides have closed the contract", PATIENCE, || async {
        for side in [home, provider] {
            let shown = side.json(&["contracts", "show", contract]).await?;
            ensure!(shown["state"] == "closed", "{}", shown["state"]);
        }
        Ok(true)
    })
    .await?;
    home.mercato(&["unoffload", "shop", "--yes"]).await?.ok().map(drop)
}

/// What stays of its own accord: events fade, and a decided certificate request tells
/// who decided.
const STAY: [&str; 2] = ["Event", "CertificateSigningRequest"];

/// Every object of the cluster with its labels, annotations and finalizers.
pub(crate) async fn objects(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let kinds = ["api-resources", "--verbs=list", "-o", "name"];
    let kinds = cluster.kubectl(&kinds).await?.ok()?;
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.contains("metrics.k8s.io")).collect();
    let all = ["get", &kinds.join(","), "--all-namespaces", "-o", "json"];
    let all: Value = serde_json::from_str(&cluster.kubectl(&all).await?.ok()?)?;
    let all = all["items"].as_array().context("a list")?;
    let line = |object: &Value| {
        let metadata = &object["metadata"];
        let (labels, marks) = (&metadata["labels"], &metadata["finalizers"]);
        let place = format!("{}/{}", metadata["namespace"], metadata["name"]);
        let annotations = &metadata["annotations"];
        format!("{} {place} {labels} {annotations} {marks}", object["kind"]).replace('"', "")
    };
    let nodes: Vec<_> = all.iter().filter(|object| object["kind"] == "Node").collect();
    // A node of the cluster's own may be older than its Lease.
    let renewed = |object: &Value| {
        let mut names = nodes.iter().map(|node| &node["metadata"]["name"]);
        object["kind"] == "Lease" && names.any(|name| *name == object["metadata"]["name"])
    };
    let stays =
        |object: &&Value| !STAY.iter().any(|kind| object["kind"] == *kind) && !renewed(object);
    Ok(all.iter().filter(stays).map(line).collect())
}

/// The cluster has the objects that it had before.
pub(crate) async fn nothing_left(cluster: &Cluster, before: &BTreeSet<String>) -> Result<()> {
    wait::until("the cluster is as it was before", PATIENCE, || async {
        let now = objects(cluster).await?;
        let more: Vec<_> = now.difference(before).collect();
        let less: Vec<_> = before.difference(&now).collect();
        ensure!(more.is_empty() && less.is_empty(), "there too: {more:#?}, gone: {less:#?}");
        Ok(true)
    })
    .await
}
