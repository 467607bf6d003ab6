//! A guest that is gone: connections to it end.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier::{PORT, Sender};
use mercato_tests::wait;
use serde_json::{Value, json};

use super::calls::{Calls, FAR, NAMESPACE, NEAR};

const SERVICE: &str = "ends";
/// Of the guest's own network nobody hears that it ends: as where its node is gone.
const MUTE: &str = "table ip mercato-test { chain forward { type filter hook forward priority -400; \
                    tcp flags & (fin | rst) != 0 drop; }; }";
/// When all connections are under way,
const UNDER_WAY: Duration = Duration::from_secs(4);
/// how long each may last once the guest is deleted,
const ENDS: Duration = Duration::from_secs(2);
/// and how long it takes to be refused, with the time that `kubectl exec` takes.
const REFUSED: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(60);

/// From pods and nodes of home, from another guest, and through a node port.
pub(crate) async fn of_connections(
    calls: &Calls<'_>,
    provider: &Cluster,
    guests: [IpAddr; 2],
) -> Result<()> {
    let node_port = node_port(calls).await?;
    let guest = SocketAddr::new(guests[1], PORT);
    let [near_1, near_2, far] =
        [NEAR[0], NEAR[1], FAR[0]].map(|name| Sender::Pod(calls.user, name));
    let node = |number| Sender::Node(calls.home, number);
    let ways = [
        ("a pod on the gateway's node", near_1, guest),
        ("a pod on another node", near_2, guest),
        ("another guest", far, guest),
        ("the gateway's node", node(1), guest),
        ("another node", node(2), guest),
        ("the node port", node(2), node_port),
    ];
    rules(provider, &[MUTE]).await?;
    let kept = ways.map(|(what, from, to)| async move {
        from.keep(to).await.map(|ended| (what, ended)).with_context(|| what.to_owned())
    });
    let (kept, deleted) = futures::join!(futures::future::try_join_all(kept), deleted(calls));
    rules(provider, &["delete", "table", "ip", "mercato-test"]).await?;
    let (began, done) = deleted?;
    for (what, ended) in kept? {
        println!("{what}: over {:.1?} after the guest was deleted", ended - began);
        ensure!(ended > began, "the connection of {what} was none");
        let after = ended.saturating_duration_since(done);
        ensure!(after < ENDS, "that of {what} has ended {after:.1?} after it");
    }
    for (what, from, to) in &ways[..5] {
        let began = Instant::now();
        from.keep(*to).await?;
        let refused = began.elapsed();
        ensure!(refused < REFUSED, "{what} is refused after {refused:.1?}");
    }
    Ok(())
}

/// Says this of packet rules to the machine on which the guest runs.
async fn rules(provider: &Cluster, words: &[&str]) -> Result<()> {
    let said = provider.machine(2).command("nft")?.args(words).output().await?;
    ensure!(said.status.success(), "nft: {}", String::from_utf8_lossy(&said.stderr));
    Ok(())
}

/// Deletes the guest once all is under way; when that was begun, and when it was done.
async fn deleted(calls: &Calls<'_>) -> Result<(Instant, Instant)> {
    tokio::time::sleep(UNDER_WAY).await;
    let began = Instant::now();
    calls.user.kubectl(&["delete", "pod", FAR[1], "--grace-period=0", "--force"]).await?;
    Ok((began, Instant::now()))
}

/// That of the first node, once it leads to the guest.
async fn node_port(calls: &Calls<'_>) -> Result<SocketAddr> {
    let service = json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": SERVICE, "namespace": NAMESPACE },
        "spec": { "type": "NodePort", "selector": { "run": FAR[1] }, "ports": [{ "port": PORT }] } });
    calls.home.apply(&service.to_string()).await?;
    let made = calls.user.kubectl(&["get", "service", SERVICE, "-o", "json"]).await?;
    let made: Value = serde_json::from_str(&made)?;
    let port = made["spec"]["ports"][0]["nodePort"].as_u64().context("no node port")?;
    let to = SocketAddr::new(calls.home.machine(1).address(), port.try_into()?);
    let (at, port) = (to.ip().to_string(), port.to_string());
    wait::until("the node port leads to the guest", PATIENCE, || async {
        let ask = format!("echo word | busybox nc -w 2 {at} {port}");
        let ask = calls.home.machine(2).command("busybox")?.args(["sh", "-c", &ask]).output();
        Ok(!ask.await?.stdout.is_empty())
    })
    .await?;
    Ok(to)
}
