//! Access to home's API server for specs whose pods want it elsewhere: their namespaces, which the
//! suite names at random, get a NamespaceOffload with `apiAccess: home` as they appear.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::cluster::Cluster;

/// The label that the suite gives its namespaces: the specs that they are of.
const LABEL: &str = "e2e-framework";

/// Runs specs while those of that name have access to home's API server.
///
/// # Errors
/// Those of the specs, or when the cluster does not take a NamespaceOffload.
pub async fn with_api_access<T>(
    home: &Cluster,
    of: &str,
    specs: impl Future<Output = Result<T>>,
) -> Result<T> {
    // Holds the specs back until their namespaces have what is given them.
    home.apply(&include_str!("api_access.yaml").replace("SPECS", of)).await?;
    tokio::select! {
        outcome = specs => outcome,
        ended = give(home, of) => match ended? {},
    }
}

/// Gives each namespace of such specs access, until it is dropped.
async fn give(home: &Cluster, of: &str) -> Result<Infallible> {
    let mut known = BTreeSet::new();
    // The API server ends a watch after some time.
    loop {
        let mut kubectl = home
            .command(home.program_path("kubectl"))?
            .args(["get", "namespaces", "--watch", &format!("--selector={LABEL}={of}")])
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
