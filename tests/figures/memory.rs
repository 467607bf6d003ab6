//! What the daemons hold in memory: before they have a lease, and with many pods on one.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use mercato_tests::daemon::{Daemon, PART};
use serde_json::json;

use crate::lease;
use crate::stage::on_bed;
use crate::table;

/// What a burst leaves is given back by then.
const SETTLE: Duration = Duration::from_secs(20);
const NODES: u32 = 50;

pub(crate) fn measure(some: usize, many: usize) -> Result<()> {
    table::head("Memory (RSS), home and provider");
    on_bed(2, async |rome, turin| {
        let (home, provider) = lease::daemons(rome, turin, "").await?;
        print("no lease", "60 MB", &home, &provider).await
    })?;
    on_bed(NODES, async |rome, turin| {
        let (home, provider) = lease::start(rome, turin, many).await?;
        print(&format!("a lease, {NODES} nodes, no pods"), "", &home, &provider).await?;
        lease::deploy(rome, some).await?;
        lease::ready(rome, some).await?;
        print(&format!("{some} pods"), "150 MB", &home, &provider).await?;
        let deployments: Api<Deployment> = Api::namespaced(rome.client().await?, lease::NAMESPACE);
        let more = Patch::Merge(json!({ "spec": { "replicas": many } }));
        deployments.patch(lease::NAME, &PatchParams::default(), &more).await?;
        lease::ready(rome, many).await?;
        print(&format!("{many} pods"), "150 MB", &home, &provider).await
    })
}

async fn print(what: &str, goal: &str, home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    tokio::time::sleep(SETTLE).await;
    let mb = |daemon: &Daemon<'_>| -> Result<u64> {
        Ok(daemon.cluster.usage(PART)?.rss_kib * 1_024 / 1_000_000)
    };
    table::row(what, goal, &format!("{} and {} MB", mb(home)?, mb(provider)?));
    Ok(())
}
