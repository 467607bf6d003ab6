//! Nodes without a program, and programs that end.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::courier::{self, Sender};
use mercato_tests::daemon::Daemon;
use mercato_tests::nodes::Nodes;
use mercato_tests::tunnel::loses_the_tunnel;
use mercato_tests::wait;
use serde_json::json;

use super::calls::{Calls, FAR, MARKER, NEAR};

/// A node of home's that is no machine.
const JOINS: &str = "rome-joins";
/// Some seconds' worth through the tunnel of a test build,
const MANY_BYTES: u64 = 300_000_000;
/// when something is done to it,
const WELL_UNDER_WAY: Duration = Duration::from_millis(700);
/// for how long its node has nothing once a program runs that was just started,
const AGAIN: Duration = Duration::from_secs(5);
/// and for how long nothing passes then: about half a second.
const OUTAGE: Duration = Duration::from_secs(10);

/// While a node of home's is without a program, guests run without an address: nobody there could
/// reach one, and what was sent would go where the routes of the node lead. It is said which node.
pub(crate) async fn without_the_second(calls: &Calls<'_>, home: &Daemon<'_>) -> Result<()> {
    for guest in FAR {
        let of = ["get", "pod", guest, "-o", "jsonpath={.status.phase} {.status.podIP}"];
        let of = calls.user.kubectl(&of).await?;
        ensure!(of == "Running ", "{guest} is {of:?}");
    }
    let node = calls.home.machine(2).name();
    for command in ["status", "doctor"] {
        let said = home.mercato(&[command]).await?.stdout;
        let names = said.contains(&node) && said.contains("mercato-nodes");
        ensure!(names, "{command} does not name {node}: {said}");
    }
    Ok(())
}

/// A node that joins home, and on which no program runs yet, takes no guest's address, nor does one that
/// is left out. It is said which node.
pub(crate) async fn joined(
    calls: &Calls<'_>,
    home: &Daemon<'_>,
    guests: [IpAddr; 2],
) -> Result<()> {
    let manifest = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": JOINS } });
    calls.home.apply(&manifest.to_string()).await?;
    let status = json!({ "status": {
        "addresses": [{ "type": "InternalIP", "address": "10.77.250.250" }],
        "conditions": [{ "type": "Ready", "status": "True", "reason": "Tried", "message": "" }],
    } });
    let patch = ["patch", "node", JOINS, "--subresource=status", "-p", &status.to_string()];
    calls.home.kubectl(&patch).await?.ok()?;
    wait::until("the node is named", AGAIN, || async {
        Ok(home.mercato(&["status"]).await?.stdout.contains(JOINS))
    })
    .await?;
    calls.home.kubectl(&["label", "node", JOINS, "mercato.dev/gateway=off"]).await?.ok()?;
    wait::until("it is left out", AGAIN, || async {
        let gateway = &home.json(&["status"]).await?["daemon"]["gateway"];
        let left_out = gateway["leftOut"].as_array().is_some_and(|all| all.contains(&json!(JOINS)));
        Ok(left_out && gateway["cutOff"] == json!([]))
    })
    .await?;
    // It would be told within a second, and shown in another one.
    tokio::time::sleep(AGAIN).await;
    for (name, guest) in FAR.into_iter().zip(guests) {
        let of = ["get", "pod", name, "-o", "jsonpath={.status.podIP}"];
        let of = calls.user.kubectl(&of).await?;
        ensure!(of == guest.to_string(), "{name} has {of:?}, not {guest}");
    }
    calls.home.kubectl(&["delete", "node", JOINS]).await?.ok().map(drop)
}

/// A connection between pods of the second nodes goes on while the program of home's is killed, while
/// the pod of the other's is replaced, and while each daemon is killed; no byte is missing or
/// doubled.
pub(crate) async fn outlived(
    calls: &Calls<'_>,
    [near, far]: [&Nodes<'_>; 2],
    daemons: [&Daemon<'_>; 2],
    guests: [IpAddr; 2],
) -> Result<()> {
    let killed = async { near.killed(2).await };
    goes_on(calls, guests[1], killed).await.context("killed")?;
    let replaced = async { far.replaced(2).await };
    goes_on(calls, guests[1], replaced).await.context("replaced")?;
    for daemon in daemons {
        let what = format!("the daemon of {} killed", daemon.cluster.name());
        goes_on(calls, guests[1], daemon.kill()).await.context(what)?;
    }
    calls.meet().await.context("afterwards")?;
    loses_the_tunnel(calls.home, 2).await?;
    near.replaced(2).await?;
    let runs = Instant::now();
    let from = Sender::Pod(calls.user, NEAR[1]);
    let answers = || async { Ok(from.ping(guests[1], 1).await? == 1) };
    wait::until("a node that has lost everything has it again", AGAIN, answers).await?;
    println!("a node that lost everything has it again after {:.1?}", runs.elapsed());
    Ok(())
}

async fn goes_on(
    calls: &Calls<'_>,
    guest: IpAddr,
    done: impl Future<Output = Result<()>>,
) -> Result<()> {
    let from = Sender::Pod(calls.user, NEAR[1]);
    let ((sent, ended), began) = futures::join!(
        async { (from.tcp(guest, MANY_BYTES, MARKER).await, Instant::now()) },
        async {
            courier::is_under_way(calls.home, 2, guest).await?;
            tokio::time::sleep(WELL_UNDER_WAY).await;
            let began = Instant::now();
            done.await.map(|()| began)
        }
    );
    let (sent, began) = (sent?, began?);
    ensure!(ended > began, "all bytes had come before it was done");
    println!("nothing came for {:.1?}", sent.silence);
    ensure!(sent.silence < OUTAGE, "nothing came for {:.1?}", sent.silence);
    ensure!((sent.there, sent.back) == (MANY_BYTES, MANY_BYTES), "{sent:?}");
    Ok(())
}
