//! Nodes without a program, and programs that end.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::capture::Capture;
use mercato_tests::courier::Sender;
use mercato_tests::nodes::Nodes;

use super::calls::{Calls, FAR, MARKER, NEAR};

const DATAGRAMS: u64 = 4;
/// Some seconds' worth through the tunnel of a test build,
const MANY_BYTES: u64 = 300_000_000;
/// and when something is done to it.
const WELL_UNDER_WAY: Duration = Duration::from_millis(700);

/// A guest on a node without a program runs without an address, and a pod on one reaches no guest:
/// what it sends goes where its node's own routes lead, and not to the other cluster.
pub(crate) async fn without_the_second(calls: &Calls<'_>) -> Result<()> {
    let guest = calls.user.address_of(FAR[0]).await.context("a guest on the daemon's node")?;
    let second = ["get", "pod", FAR[1], "-o", "jsonpath={.status.phase} {.status.podIP}"];
    let second = calls.user.kubectl(&second).await?;
    ensure!(second == "Running ", "{} is {second:?}", FAR[1]);
    let first = Sender::Pod(calls.user, NEAR[0]).tcp(guest, 1, MARKER).await?;
    ensure!(first.back == 1, "from the daemon's node: {first:?}");

    let machines = [calls.home.machine(2), calls.provider.machine(1), calls.provider.machine(2)];
    let mut captures = Vec::new();
    for machine in &machines {
        captures.push(Capture::begin(&machine.network()?, MARKER)?);
    }
    let sent = Sender::Pod(calls.user, NEAR[1]).udp(guest, DATAGRAMS, MARKER).await;
    ensure!(sent.is_err(), "somebody has answered: {sent:?}");
    for (machine, capture) in machines.iter().zip(captures) {
        let (name, seen) = (machine.name(), capture.end()?);
        let asks = machine.address() == machines[0].address();
        let marked = seen.values().any(|of| of.marked > 0);
        ensure!(marked == asks, "on {name}: {seen:?}");
    }
    Ok(())
}

/// A connection between pods of the second nodes goes on while the program of home's is killed, and
/// while the pod of the other's is replaced; no byte is missing or doubled.
pub(crate) async fn outlived(
    calls: &Calls<'_>,
    near: &Nodes<'_>,
    far: &Nodes<'_>,
    guests: [IpAddr; 2],
) -> Result<()> {
    let killed = async { near.killed(2).await };
    goes_on(calls, guests[1], killed).await.context("killed")?;
    let replaced = async { far.replaced(2).await };
    goes_on(calls, guests[1], replaced).await.context("replaced")?;
    calls.meet().await.context("afterwards").map(drop)
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
            tokio::time::sleep(WELL_UNDER_WAY).await;
            let began = Instant::now();
            done.await.map(|()| began)
        }
    );
    let (sent, began) = (sent?, began?);
    ensure!(ended > began, "all bytes had come before it was done");
    println!("nothing came for {:.1?}", sent.silence);
    ensure!((sent.there, sent.back) == (MANY_BYTES, MANY_BYTES), "{sent:?}");
    Ok(())
}
