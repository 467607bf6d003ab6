//! All that there is in a cluster, and whether a visitor has left anything.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Cluster, PATIENCE};
use crate::wait;

/// What stays of its own accord: events fade, a Contract that is over is shown for an hour, and
/// a decided certificate request tells
/// who decided.
const STAY: [&str; 3] = ["Event", "CertificateSigningRequest", "Contract"];

impl Cluster {
    /// Every object of the cluster with its labels, annotations and finalizers.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn objects(&self) -> Result<BTreeSet<String>> {
        let kinds = ["api-resources", "--verbs=list", "-o", "name"];
        let kinds = self.kubectl(&kinds).await?.ok()?;
        let kinds: Vec<&str> =
            kinds.lines().filter(|kind| !kind.contains("metrics.k8s.io")).collect();
        let all = ["get", &kinds.join(","), "--all-namespaces", "-o", "json"];
        let all: Value = serde_json::from_str(&self.kubectl(&all).await?.ok()?)?;
        let all = all["items"].as_array().context("a list")?;
        let line = |object: &Value| {
            let metadata = &object["metadata"];
            let (labels, marks) = (&metadata["labels"], &metadata["finalizers"]);
            let place = format!("{}/{}", metadata["namespace"], metadata["name"]);
            let annotations = &metadata["annotations"];
            format!("{} {place} {labels} {annotations} {marks}", object["kind"]).replace('"', "")
        };
        let nodes: Vec<_> = all.iter().filter(|object| object["kind"] == "Node").collect();
        // A node of the cluster's own may be older than its Lease, and so may a daemon.
        let renewed = |object: &Value| {
            let metadata = &object["metadata"];
            let mut names = nodes.iter().map(|node| &node["metadata"]["name"]);
            let daemons = metadata["namespace"] == "mercato" && metadata["name"] == "daemon";
            object["kind"] == "Lease" && (daemons || names.any(|name| *name == metadata["name"]))
        };
        let stays =
            |object: &&Value| !STAY.iter().any(|kind| object["kind"] == *kind) && !renewed(object);
        Ok(all.iter().filter(stays).map(line).collect())
    }

    /// Waits until the cluster has the objects that it had before.
    ///
    /// # Errors
    /// After two minutes, with what there is too much, and what is gone.
    pub async fn is_as_before(&self, before: &BTreeSet<String>) -> Result<()> {
        wait::until("the cluster is as it was before", 2 * PATIENCE, || async {
            let now = self.objects().await?;
            let more: Vec<_> = now.difference(before).collect();
            let less: Vec<_> = before.difference(&now).collect();
            ensure!(more.is_empty() && less.is_empty(), "there too: {more:#?}, gone: {less:#?}");
            Ok(true)
        })
        .await
    }
}
