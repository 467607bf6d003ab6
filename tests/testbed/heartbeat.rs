//! What keeps the virtual nodes of a daemon that is away, in a cluster of the bed: the real program, two of
//! it, with the account of `config/deploy/optional/heartbeat.yaml` and no other rights.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::account;
use crate::cluster::Cluster;

/// Their names among the parts of the cluster.
pub const PARTS: [&str; 2] = ["heartbeat-1", "heartbeat-2"];
const ACCOUNT: &str = "mercato-heartbeat";
const KUBECONFIG: &str = "heartbeat.kubeconfig";
const MANIFEST: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../config/deploy/optional/heartbeat.yaml");

/// Gives the account its rights, which takes what [`deploy`](crate::daemon::deploy) applies, and starts
/// both, which keep nodes for so long (`1h`).
///
/// # Errors
/// When the API server refuses something, or one cannot be started.
pub async fn start(cluster: &Cluster, program: &Path, keep_alive: &str) -> Result<()> {
    let manifest = fs::read_to_string(MANIFEST).context(MANIFEST)?;
    // The program runs beside the nodes here.
    let in_pods = |object: &&str| object.contains("kind: Deployment");
    let objects: Vec<_> = manifest.split("\n---\n").filter(|object| !in_pods(object)).collect();
    cluster.apply(&objects.join("\n---\n")).await?;
    account::write(cluster, ACCOUNT, KUBECONFIG).await?;
    let kubeconfig = cluster.data().join(KUBECONFIG).display().to_string();
    let args = ["heartbeat", "--verbose", "--kubeconfig", &kubeconfig, "--keep-alive", keep_alive];
    let args: Vec<_> = args.map(str::to_owned).into();
    PARTS.iter().try_for_each(|part| cluster.start_program(part, program, &args))
}
