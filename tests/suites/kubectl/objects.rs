//! The custom resources themselves.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;
use mercato_tests::wait;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/deploy/");
/// Longer than the minute in which no second change of an offer is heard.
const PATIENCE: Duration = Duration::from_secs(100);
const ABSENT: &str = "kubectl apply -f config/deploy/crds.yaml";

/// Without them the command line works, and says what is missing in one line.
pub(crate) async fn absent(daemon: &Daemon<'_>) -> Result<()> {
    wait::until("the daemon says what is missing", PATIENCE, || async {
        let status = daemon.mercato(&["status"]).await?.ok()?;
        ensure!(status.lines().filter(|line| line.contains(ABSENT)).count() == 1, "{status}");
        Ok(true)
    })
    .await?;
    daemon.mercato(&["contracts"]).await?.ok().map(drop)
}

/// The whole folder is applied while the daemon runs.
pub(crate) async fn installed(daemon: &Daemon<'_>) -> Result<()> {
    daemon.cluster.kubectl(&["apply", "-f", DEPLOY]).await?.ok()?;
    wait::until("the custom resources are noticed", PATIENCE, || async {
        let status = daemon.mercato(&["status"]).await?.ok()?;
        ensure!(!status.contains(ABSENT), "{status}");
        Ok(true)
    })
    .await
}

/// Waits until an object says this word.
pub(crate) async fn condition(cluster: &Cluster, object: &str, reason: &str) -> Result<()> {
    let path = "{.status.conditions[?(@.type=='Ready')].reason}: {.status.conditions[0].message}";
    wait::until(&format!("{object} is {reason}"), PATIENCE, || async {
        let is = field(cluster, object, path).await?;
        ensure!(is.starts_with(&format!("{reason}:")), "it is {is}");
        Ok(true)
    })
    .await
}

/// Waits until what is said of an object is of its latest generation.
pub(crate) async fn observed(cluster: &Cluster, object: &str) -> Result<()> {
    wait::until(&format!("{object} is observed"), PATIENCE, || async {
        let seen = "{.metadata.generation} {.status.conditions[0].observedGeneration}";
        let seen = field(cluster, object, seen).await?;
        let (wanted, known) = seen.split_once(' ').unwrap_or_default();
        ensure!(!wanted.is_empty() && wanted == known, "{seen}");
        Ok(true)
    })
    .await
}

/// A field of an object, of those in `shop` if it has a namespace.
pub(crate) async fn field(cluster: &Cluster, object: &str, path: &str) -> Result<String> {
    let path = format!("jsonpath={path}");
    cluster.kubectl(&["-n", "shop", "get", object, "-o", &path]).await?.ok()
}

/// Prints what a person sees.
pub(crate) async fn show(cluster: &Cluster, words: &str) -> Result<String> {
    let words: Vec<_> = words.split(' ').collect();
    let seen = cluster.kubectl(&words).await?.ok()?;
    println!("$ kubectl {}\n{seen}", words.join(" "));
    Ok(seen)
}

/// What a person sees fits a terminal, and is the same on both sides.
pub(crate) async fn readable(rome: &Cluster, turin: &Cluster, contract: &str) -> Result<()> {
    for (side, verb) in [(rome, "Buys"), (turin, "Sells")] {
        let table = fits(side, "get contracts").await?;
        let row = table.lines().find(|line| line.starts_with(contract)).unwrap_or_default();
        ensure!(row.contains(verb) && row.contains("Active") && row.contains("EUR"), "{table}");
    }
    let orders = fits(rome, "-n shop get orders").await?;
    ensure!(orders.contains("Active") && orders.contains("turin"), "{orders}");
    let offloads = fits(rome, "-n shop get namespaceoffloads").await?;
    ensure!(offloads.contains("Offloaded") && offloads.contains("Remote"), "{offloads}");
    let policy = fits(turin, "get marketpolicies").await?;
    ensure!(policy.contains("1.5 cpu 4Gi") && policy.contains("0.60/cpu"), "{policy}");
    let described = show(rome, "-n shop describe order web").await?;
    ensure!(described.contains("node mercato-turin is ready"), "{described}");
    Ok(())
}

/// As wide as a terminal always is.
const WIDTH: usize = 80;

async fn fits(cluster: &Cluster, words: &str) -> Result<String> {
    let table = show(cluster, words).await?;
    let widest = table.lines().map(|line| line.trim_end().chars().count()).max();
    ensure!(widest <= Some(WIDTH), "{table}");
    show(cluster, &format!("{words} -o wide")).await?;
    Ok(table)
}

/// A mirror that is deleted is made again, and its contract goes on.
pub(crate) async fn made_again(rome: &Cluster, contract: &str) -> Result<()> {
    let which = format!("contract/{contract}");
    let first = field(rome, &which, "{.metadata.uid}").await?;
    rome.kubectl(&["delete", "contract", contract]).await?.ok()?;
    wait::until("the Contract is made again", PATIENCE, || async {
        let uid = field(rome, &which, "{.metadata.uid}").await?;
        let state = field(rome, &which, "{.status.state}").await?;
        ensure!(uid != first && state == "Active", "{uid} {state}");
        Ok(true)
    })
    .await
}

/// Rises with whatever is written to one of them.
pub(crate) async fn versions(rome: &Cluster) -> Result<String> {
    let all = ["get", "contracts,orders,marketpolicies,namespaceoffloads", "-n", "shop"];
    let form = ["-o", "jsonpath={.items[*].metadata.resourceVersion}"];
    rome.kubectl(&[&all[..], &form].concat()).await?.ok()
}

/// What is over is shown for an hour; one that is deleted before is not made again.
pub(crate) async fn closed_ones_go(rome: &Cluster, turin: &Cluster) -> Result<()> {
    for side in [rome, turin] {
        let states = side.kubectl(&["get", "contracts", "-o", "jsonpath={.items[*].status.state}"]);
        let states = states.await?.ok()?;
        ensure!(states == "Closed Closed", "{states}");
        side.kubectl(&["delete", "contracts", "--all"]).await?.ok()?;
    }
    Ok(())
}
