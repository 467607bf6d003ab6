//! Tokens for the one spec whose pods want some elsewhere: its namespace, which the suite names at
//! random, gets a NamespaceOffload with `apiAccess: home` as it appears.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use mercato_tests::cluster::Cluster;
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// Holds the spec back until its namespace has what [`leave`] gives it.
pub(crate) async fn held_back(home: &Cluster) -> Result<()> {
    home.apply(include_str!("token.yaml")).await
}

/// Lets tokens leave home with the pods of each namespace of the spec, until it is dropped.
pub(crate) async fn leave(home: &Cluster) -> Result<Infallible> {
    let mut known = BTreeSet::new();
    // The API server ends a watch after some time.
    loop {
        let mut kubectl = home
            .command(home.program_path("kubectl"))?
            .args(["get", "namespaces", "--selector=e2e-framework=prestop", "--watch"])
            .args(["--output=jsonpath={.metadata.name} {.status.phase}{\"\\n\"}"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let seen = kubectl.stdout.take().context("it is piped")?;
        let mut seen = BufReader::new(seen).lines();
        while let Some(line) = seen.next_line().await? {
            let Some(namespace) = line.strip_suffix(" Active") else { continue };
            if known.insert(namespace.to_owned()) {
                home.apply(&offload(namespace)).await?;
            }
        }
        kubectl.wait().await?;
    }
}

fn offload(namespace: &str) -> String {
    format!(
        "apiVersion: mercato.dev/v1alpha1\n\
         kind: NamespaceOffload\n\
         metadata: {{ name: default, namespace: {namespace} }}\n\
         spec: {{ apiAccess: home }}\n"
    )
}
