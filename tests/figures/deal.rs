//! From two strangers to the first guest pod: how long each step takes that a person
//! waits for.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::{Daemon, order};
use mercato_tests::wait;

use crate::lease;
use crate::stage::{on_bed, program};
use crate::table::{self, spread};

const PATIENCE: Duration = Duration::from_secs(60);

/// Seconds.
struct Round {
    found: f64,
    first_pod: f64,
    ready: f64,
}

pub(crate) fn measure(rounds: usize) -> Result<()> {
    let rounds: Vec<Round> = (0..rounds)
        .map(|_| on_bed(2, async |rome, turin| round(rome, turin).await))
        .collect::<Result<_>>()?;
    table::head(&format!("A deal, {} rounds", rounds.len()));
    let of = |of: fn(&Round) -> f64| spread(&rounds.iter().map(of).collect::<Vec<_>>());
    let found =
        "the second daemon's start until the first has found it on the LAN and is connected";
    table::row(found, "2 s", &format!("{} s", of(|round| round.found)));
    table::row(
        "order until the first guest pod is made",
        "1.5 s",
        &format!("{} s", of(|round| round.first_pod)),
    );
    table::row(
        "accept until the node is Ready",
        "0.5 s",
        &format!("{} s", of(|round| round.ready)),
    );
    Ok(())
}

async fn round(rome: &Cluster, turin: &Cluster) -> Result<Round> {
    let mercato = program("mercato")?;
    let home = Daemon::start(rome, &mercato, "").await?;
    let provider = Daemon::prepare(turin, &mercato, "").await?;
    let start = Instant::now();
    provider.run()?;
    connected(&home).await?;
    let found = start.elapsed().as_secs_f64();
    provider.answers().await?;
    let share = ["share", "set", "--cpu", "80%", "--memory", "80%", "--price", "free"];
    let terms = ["--approve", "auto", "--network-isolation", "none"];
    provider.mercato(&[&share[..], &terms].concat()).await?.ok()?;
    home.sees_offer_of("turin").await?;
    home.mercato(&["peer", "trust", "turin", "--yes"]).await?.ok()?;
    lease::namespace(rome).await?;
    home.offload(lease::NAMESPACE, "Remote").await?;
    lease::deploy(rome, 1).await?;
    let order = order(5);
    let order: Vec<&str> = order.iter().map(String::as_str).collect();

    let start = Instant::now();
    home.mercato(&order).await?.ok()?;
    guest_pod(turin).await?;
    let first_pod = start.elapsed().as_secs_f64();

    provider.mercato(&["share", "set", "--approve", "ask"]).await?.ok()?;
    let before = nodes(rome).await?;
    home.mercato(&order).await?.ok()?;
    let request = lease::request(&provider).await?;
    let start = Instant::now();
    provider.mercato(&["requests", "accept", &request]).await?.ok()?;
    wait::until("a further node is ready", PATIENCE, || async { Ok(nodes(rome).await? > before) })
        .await?;
    Ok(Round { found, first_pod, ready: start.elapsed().as_secs_f64() })
}

async fn connected(home: &Daemon<'_>) -> Result<()> {
    wait::until("turin is found and connected", PATIENCE, || async {
        let peers = home.json(&["peers"]).await?;
        let peers = peers.as_array().context("a list of peers")?;
        Ok(peers.iter().any(|peer| peer["name"] == "turin" && peer["connected"].is_string()))
    })
    .await
}

async fn guest_pod(turin: &Cluster) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(turin.client().await?, lease::GUESTS);
    wait::until("there is a guest pod", PATIENCE, || async {
        Ok(!pods.list(&ListParams::default()).await?.items.is_empty())
    })
    .await
}

/// How many virtual nodes are ready.
async fn nodes(rome: &Cluster) -> Result<usize> {
    let nodes: Api<Node> = Api::all(rome.client().await?);
    let ours = nodes.list(&ListParams::default().labels("mercato.dev/contract")).await?;
    let ready = |node: &&Node| {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
    };
    Ok(ours.items.iter().filter(ready).count())
}
