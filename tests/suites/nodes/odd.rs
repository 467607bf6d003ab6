//! A third node of either cluster that cannot be prepared, since another program has its port: it is left
//! out by its label, takes nothing from others for a minute once it is not, and is named after that.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier::Sender;
use mercato_tests::daemon::Daemon;
use mercato_tests::nodes::Nodes;
use mercato_tests::wait;
use nix::sched::{CloneFlags, setns};
use serde_json::Value;

use super::calls::{Calls, FAR, NEAR};

const ODD: u8 = 3;
/// Of the packets between nodes (ADR 31).
const PORT: u16 = 7_477;
/// A node that takes part again is new for a minute (ADR 59); less, since what is to be seen in it takes
/// time as well.
const NEW: Duration = Duration::from_secs(45);
/// When everything about it is said after that.
const SAID: Duration = Duration::from_secs(60);
/// How soon a label is followed.
const FOLLOWED: Duration = Duration::from_secs(10);

/// Has another program take the port on that node, and leaves it out, before anything else is there.
///
/// # Errors
/// When the port is taken already, or the node is not there.
pub(crate) async fn prepare(cluster: &Cluster) -> Result<UdpSocket> {
    label(cluster, true).await?;
    let network = File::open(cluster.machine(ODD).network()?)?;
    let bind = move || {
        setns(network, CloneFlags::CLONE_NEWNET).context("enter the node's network")?;
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).context("the port of the overlay")
    };
    // The network is that of the thread.
    let thread = std::thread::Builder::new().name("another-program".to_owned()).spawn(bind)?;
    thread.join().map_err(|_| anyhow!("it panicked"))?
}

/// It is let in again, with its programs, which cannot have the port; and is left out once more.
pub(crate) async fn tried(
    calls: &Calls<'_>,
    nodes: [&Nodes<'_>; 2],
    daemons: [&Daemon<'_>; 2],
    guests: [IpAddr; 2],
) -> Result<()> {
    for daemon in daemons {
        is_left_out(daemon).await.context("from the beginning")?;
    }
    let mark = calls.home.audit_mark()?;
    for daemon in daemons {
        label(daemon.cluster, false).await?;
    }
    futures::try_join!(nodes[0].comes_to(ODD), nodes[1].comes_to(ODD))?;
    tokio::time::sleep(NEW).await;
    // Of those at home their kubelets write.
    let by_us = |write: &&(String, usize)| write.0 == "mercato";
    let writes = calls.home.writes_since(mark)?.into_iter();
    let writes = writes.filter(|(write, _)| write.resource == "pods/status");
    let writes: Vec<_> = writes.map(|(write, count)| (write.by, count)).collect();
    let told: usize = writes.iter().filter(by_us).map(|(_, count)| count).sum();
    ensure!(told == 0, "{told} statuses of guests were written while the node was new");
    have_addresses(calls, guests).await.context("while it is new")?;
    for daemon in daemons {
        is_named(daemon).await?;
    }
    for daemon in daemons {
        label(daemon.cluster, true).await?;
    }
    for daemon in daemons {
        is_left_out(daemon).await.context("once more")?;
    }
    have_addresses(calls, guests).await.context("without it")?;
    let from = Sender::Pod(calls.user, NEAR[1]);
    for guest in guests {
        wait::until("a guest answers", SAID, || async { Ok(from.ping(guest, 1).await? == 1) })
            .await?;
    }
    Ok(())
}

async fn label(cluster: &Cluster, off: bool) -> Result<()> {
    let node = cluster.node_name(ODD);
    let label = if off { "mercato.dev/gateway=off" } else { "mercato.dev/gateway-" };
    cluster.kubectl(&["label", "node", &node, label]).await?.ok().map(drop)
}

async fn gateway(daemon: &Daemon<'_>) -> Result<Value> {
    Ok(daemon.json(&["status"]).await?["daemon"]["gateway"].take())
}

/// Nothing hangs on it, and what is sold is sold.
async fn is_left_out(daemon: &Daemon<'_>) -> Result<()> {
    let node = daemon.cluster.node_name(ODD);
    wait::until("the node is left out", FOLLOWED, || async {
        let gateway = gateway(daemon).await?;
        let named =
            gateway["leftOut"].as_array().is_some_and(|all| all.iter().any(|it| *it == *node));
        let nothing = gateway["cutOff"].as_array().is_none_or(Vec::is_empty);
        Ok(named && nothing && gateway["isolates"] == true)
    })
    .await
}

/// With what keeps it from taking part, and the line that leaves it out.
async fn is_named(daemon: &Daemon<'_>) -> Result<()> {
    let node = daemon.cluster.node_name(ODD);
    let line = format!("kubectl label node {node} mercato.dev/gateway=off");
    wait::until("status and doctor name the node", SAID, || async {
        let status = daemon.mercato(&["status"]).await?.stdout;
        let doctor = daemon.mercato(&["doctor"]).await?.stdout;
        let doctor = doctor.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(status.contains(&node) && doctor.contains(&line))
    })
    .await
}

async fn have_addresses(calls: &Calls<'_>, guests: [IpAddr; 2]) -> Result<()> {
    for (name, guest) in FAR.into_iter().zip(guests) {
        let get = ["get", "pod", name, "-o", "jsonpath={.status.podIP}"];
        let address = calls.user.kubectl(&get).await?;
        ensure!(address == guest.to_string(), "{name} has {address:?}, not {guest}");
    }
    Ok(())
}
