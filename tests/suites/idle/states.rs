//! Every state in which an object of ours can stand for as long as nobody does anything: nothing of it
//! is written again. A change that waits for an answer, was refused or withdrawn; a counter-offer; a
//! contract that is taken back, or over; an order whose offers have changed; a policy; a namespace that
//! leaves; at level `full` a contract whose usage is not signed for, too.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::suite::{self, Level};
use mercato_tests::wait;

const PATIENCE: Duration = Duration::from_secs(30);
/// Whatever was begun is over by then: what is free is advertised again within ten seconds.
const SETTLE: Duration = Duration::from_secs(12);
const STANDS: Duration = Duration::from_secs(10);
/// Usage is metered once in so long, and a contract is suspended after three windows in which it is not signed
/// for, each of which counts as a minute at least.
pub(crate) const METERED: &str = "meteringInterval: 5s";
const UNSIGNED: Duration = Duration::from_secs(200);

const ORDER: &str = "
apiVersion: mercato.dev/v1alpha1
kind: Order
metadata: {name: looks, namespace: shop}
spec: {cpu: 1, memory: 1Gi, for: 2h, dryRun: true}
";

/// Between two daemons with a contract in force, and the namespace `shop` offloaded.
pub(crate) async fn stand(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    let (rome, turin) = (home.cluster, provider.cluster);
    sells(provider, "0.02").await?;
    rome.apply(ORDER).await?;
    shows(rome, "-n shop get order looks", "EUR").await?;

    let refused = buys(home, provider).await?;
    grows(home, provider, &refused).await?;
    provider.mercato(&["requests", "deny", &refused, "--reason", "no room"]).await?.ok()?;
    let withdrawn = buys(home, provider).await?;
    grows(home, provider, &withdrawn).await?;
    home.mercato(&["contracts", "withdraw", &withdrawn]).await?.ok()?;
    let reclaimed = buys(home, provider).await?;
    provider.mercato(&["reclaim", &reclaimed, "--notice", "1h", "--yes"]).await?.ok()?;
    let ended = buys(home, provider).await?;
    home.mercato(&["contracts", "cancel", &ended, "--yes"]).await?.ok()?;
    let pending = buys(home, provider).await?;
    grows(home, provider, &pending).await?;
    let offered = asks(home, provider).await?;
    provider.mercato(&["requests", "accept", &offered, "--price", "cpu=0.04 EUR/h"]).await?.ok()?;
    sells(provider, "0.03").await?;
    sells(provider, "0.05").await?;
    shows(rome, "-n shop get order looks", "0.11 EUR").await?;

    for side in [rome, turin] {
        for (id, said) in [
            (&pending, "needs the provider's approval"),
            (&refused, "no room"),
            (&withdrawn, "withdrawn"),
            (&reclaimed, "Reclaiming"),
            (&ended, "Closed"),
            (&offered, "Offered"),
        ] {
            shows(side, &format!("get contract {}", &id[..8]), said).await?;
        }
    }
    writes_nothing(&[rome, turin]).await?;
    if suite::level() == Level::Full {
        rome.pause(PART)?;
        tokio::time::sleep(UNSIGNED).await;
        shows(turin, &format!("get contract {}", &pending[..8]), "Suspended").await?;
        let stood = writes_nothing(&[turin]).await;
        rome.resume(PART)?;
        stood.context("while usage is not signed for")?;
    }
    Ok(())
}

/// What is written by us in ten seconds is the renewal of Leases alone.
async fn writes_nothing(sides: &[&Cluster]) -> Result<()> {
    tokio::time::sleep(SETTLE).await;
    let mut marks = Vec::new();
    for side in sides {
        marks.push((side, side.audit_mark()?));
    }
    tokio::time::sleep(STANDS).await;
    for (side, mark) in marks {
        let written = side.writes_since(mark)?;
        let ours: Vec<_> = written
            .iter()
            .filter(|(write, _)| write.by == PART && write.resource != "leases")
            .collect();
        ensure!(ours.is_empty(), "{} was written to while all stood: {ours:?}", side.name());
    }
    Ok(())
}

/// At this price for a processor and hour, and asks its owner about each request.
async fn sells(provider: &Daemon<'_>, price: &str) -> Result<()> {
    let price = format!("cpu={price} EUR/h,memory=0.005 EUR/h");
    let share = ["share", "set", "--cpu", "80%", "--memory", "80%", "--pods", "8000"];
    let terms = ["--price", &price, "--approve", "ask", "--network-isolation", "none"];
    provider.mercato(&[&share[..], &terms].concat()).await?.ok().map(drop)
}

const SIZE: [&str; 8] = ["order", "--cpu", "500m", "--memory", "512Mi", "--for", "2h", "--from"];

async fn buys(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<String> {
    home.buy(provider, &[&SIZE[..], &[provider.cluster.name()]].concat()).await
}

/// A request that waits for its answer.
async fn asks(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<String> {
    let order = [&SIZE[..], &[provider.cluster.name()]].concat();
    let ordered = home.json(&order).await?;
    let id = ordered["id"].as_str().context("the order has an id")?.to_owned();
    is_asked(provider, &id).await?;
    Ok(id)
}

/// A change that waits for its answer.
async fn grows(home: &Daemon<'_>, provider: &Daemon<'_>, contract: &str) -> Result<()> {
    home.mercato(&["contracts", "resize", contract, "--cpu", "1", "--yes"]).await?.ok()?;
    is_asked(provider, contract).await
}

async fn is_asked(provider: &Daemon<'_>, id: &str) -> Result<()> {
    wait::until("the provider's owner is asked", PATIENCE, || async {
        let requests = provider.json(&["requests"]).await?;
        ensure!(requests.to_string().contains(id), "{requests}");
        Ok(true)
    })
    .await
}

/// Waits until the status of an object has these words.
async fn shows(cluster: &Cluster, get: &str, words: &str) -> Result<()> {
    let get: Vec<&str> = get.split(' ').chain(["-o", "jsonpath={.status}"]).collect();
    let what = format!("{} in {} says {words:?}", get.join(" "), cluster.name());
    wait::until(&what, PATIENCE, || async {
        let status = cluster.kubectl(&get).await?.ok()?;
        ensure!(status.contains(words), "{status}");
        Ok(true)
    })
    .await
}
