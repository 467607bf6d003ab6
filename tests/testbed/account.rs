//! Kubeconfigs of Mercato's accounts: a program on the bed has their rights, and no others.

use std::fs;

use anyhow::{Context as _, Result};
use kube::config::Kubeconfig;
use serde_json::json;

use crate::cluster::Cluster;

/// Writes a kubeconfig of an account of the namespace `mercato` into the cluster's files, under this
/// name; its token lasts as long as a test may.
///
/// # Errors
/// When the API server refuses, or the file cannot be written.
pub(crate) async fn write(cluster: &Cluster, account: &str, file: &str) -> Result<()> {
    let token = ["-n", "mercato", "create", "token", account, "--duration=6h"];
    let token = cluster.kubectl(&token).await?.ok()?;
    let admin = fs::read_to_string(cluster.data_outside().join("admin.kubeconfig"))?;
    let admin = Kubeconfig::from_yaml(&admin)?;
    let of = admin.clusters.first().context("a kubeconfig names its cluster")?;
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [of],
        "users": [{ "name": account, "user": { "token": token.trim() } }],
        "contexts": [{ "name": account, "context": { "cluster": of.name, "user": account } }],
        "current-context": account,
    });
    Ok(fs::write(cluster.data_outside().join(file), kubeconfig.to_string())?)
}
