//! Pods of two clusters with equal pod ranges call each other through the tunnel of the lease.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::capture::Capture;
use mercato_tests::cluster::Cluster;
use mercato_tests::courier::{self, Carried, Sender};
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::tunnel::has_no_tunnel;
use mercato_tests::user::User;
use mercato_tests::wait;

const NODE: &str = "mercato-turin";
const NAMESPACE: &str = "calls";
/// What that namespace is called in turin.
const GUESTS: &str = "calls-rome";
const FIVE_MEGABYTES: u64 = 5_000_000;
const DATAGRAMS: u64 = 40;
const PINGS: u64 = 3;
/// Pods that are made to see how long one takes.
const STARTS: usize = 10;
/// What is looked for in packets.
const MARKER: &str = "from-one-cluster-to-the-other";
const DEVICE: &str = "mercato0";
/// Some seconds' worth through the tunnel of a test build,
const MANY_BYTES: u64 = 400_000_000;
/// and when a daemon is killed of them.
const WELL_UNDER_WAY: Duration = Duration::from_millis(700);
/// For how long nothing passes when a daemon is killed and starts again: a second or two.
const OUTAGE: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(20);

/// From a pod at home and from home's node to a guest, and back; and what passes is seen on the
/// tunnel's device, and in clear on no wire.
pub(crate) async fn each_other(rome: &Cluster, turin: &Cluster) -> Result<()> {
    let calls = User::new(rome, NAMESPACE);
    let (at_home, over_there) = (calls.on("rome-1"), calls.on(NODE));
    futures::try_join!(at_home.serves("near"), over_there.serves("far"))?;
    let (near, far) = (calls.address_of("near").await?, calls.address_of("far").await?);
    let ready = "jsonpath={.status.conditions[?(@.type=='mercato.dev/TunnelReady')].reason}";
    let ready = rome.kubectl(&["get", "node", NODE, "-o", ready]).await?.ok()?;
    ensure!(ready == "TunnelUp", "the node says of its tunnel {ready:?}");
    let guest = User::new(turin, GUESTS).address_of("far").await?;
    ensure!(pooled(far) && !pooled(guest), "{far} stands for {guest}");
    let wires = [rome.machine(1).network()?, turin.machine(1).network()?];
    let mut captures = Vec::new();
    for wire in &wires {
        captures.push(Capture::begin(wire, MARKER)?);
    }
    let seen_as = carried(Sender::Pod(calls, "near"), far).await.context("from home's pod")?;
    ensure!(pooled(seen_as) && seen_as != far, "home's pod is seen as {seen_as}");
    let node = carried(Sender::Node(rome, 1), far).await.context("from home's node")?;
    ensure!(pooled(node) && node != seen_as, "home's node is seen as {node}");
    let proxied = courier::by_pod_proxy(&calls, "far", FIVE_MEGABYTES, MARKER).await;
    let proxied = proxied.context("by home's API server")?;
    ensure!(proxied.seen_as == node && proxied.back == FIVE_MEGABYTES, "{proxied:?}");
    // The guest calls home's pod by the address that it was called from.
    let back = carried(Sender::Pod(calls, "far"), seen_as).await.context("from the guest")?;
    ensure!(back == far, "home's pod {near} sees the guest as {back}");
    for capture in captures {
        let seen = capture.end()?;
        let inside = seen.get(DEVICE).with_context(|| format!("no {DEVICE} in {seen:?}"))?;
        // Offloads make up to 64 KiB of it one packet.
        ensure!(inside.marked > 300 && inside.packets > 1_000, "{DEVICE}: {inside:?}");
        let wire = seen.get("eth0").with_context(|| format!("no eth0 in {seen:?}"))?;
        ensure!(wire.marked == 0 && wire.packets > 300, "in clear on the wire: {wire:?}");
    }
    Ok(())
}

/// A connection goes on through the death of each daemon, and no byte is missing or doubled. While a
/// daemon is dead nothing goes out in clear, and who cleans up after it finds all of it; once it
/// lives again, so does all of it.
pub(crate) async fn outlive(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    let calls = User::new(home.cluster, NAMESPACE);
    let far = calls.address_of("far").await?;
    let near = Sender::Pod(calls, "near");
    for daemon in [home, provider] {
        let ((sent, ended), back) = futures::join!(
            async { (near.tcp(far, MANY_BYTES, MARKER).await, Instant::now()) },
            async {
                courier::is_under_way(home.cluster, 1, far).await?;
                tokio::time::sleep(WELL_UNDER_WAY).await;
                daemon.kill().await?;
                Ok::<_, anyhow::Error>(Instant::now())
            }
        );
        let (sent, back, name) = (sent?, back?, daemon.cluster.name());
        ensure!(ended > back, "{name}: all bytes had come before the daemon was back");
        let silence = sent.silence;
        println!("{name}: nothing came for {silence:.1?}");
        ensure!(silence < OUTAGE, "{name}: nothing came for {silence:.1?}");
        ensure!((sent.there, sent.back) == (MANY_BYTES, MANY_BYTES), "{name}: {sent:?}");
    }
    home.cluster.kill(PART)?;
    let capture = Capture::begin(&home.cluster.machine(1).network()?, MARKER)?;
    let sent = near.udp(far, DATAGRAMS, MARKER).await;
    let seen = capture.end()?;
    home.cleans_the_gateway().await?;
    has_no_tunnel(home.cluster, 1).await?;
    home.cluster.restart(PART)?;
    home.answers().await?;
    ensure!(sent.is_err(), "somebody has answered: {sent:?}");
    let asked = seen.values().any(|of| of.marked >= 1);
    let wire = seen.get("eth0").with_context(|| format!("no eth0 in {seen:?}"))?;
    ensure!(asked && wire.marked == 0, "in clear on the wire: {seen:?}");
    wait::until("the guest answers again", PATIENCE, || async { Ok(near.ping(far, 1).await? == 1) })
        .await
}

/// A second pod has another address, and the two call each other by them; one that gets another over
/// there keeps its own at home, and one that is deleted answers no more.
pub(crate) async fn followed(rome: &Cluster, turin: &Cluster) -> Result<()> {
    let calls = User::new(rome, NAMESPACE);
    calls.on(NODE).serves("second").await?;
    let (far, second) = (calls.address_of("far").await?, calls.address_of("second").await?);
    ensure!(far != second, "both are {far}");
    let near = Sender::Pod(calls, "near");
    let first = near.tcp(second, 1, MARKER).await.context("at the first try")?;
    ensure!(first.back == 1, "{first:?}");
    for (from, to, seen_as) in [("far", second, far), ("second", far, second), ("far", far, far)] {
        let is = carried(Sender::Pod(calls, from), to).await;
        let is = is.with_context(|| format!("two guests there, {from} to {to}"))?;
        ensure!(is == seen_as, "{from}, which is {seen_as} at home, is seen as {is}");
    }
    let guests = User::new(turin, GUESTS);
    let before = guests.address_of("second").await?;
    turin.loses_network_of(1, GUESTS, "second").await?;
    wait::until("the guest has another address", PATIENCE, || async {
        Ok(guests.address_of("second").await? != before)
    })
    .await?;
    let another = Instant::now();
    wait::until("it answers by the one at home", PATIENCE, || async {
        Ok(near.tcp(second, 1, MARKER).await?.back == 1)
    })
    .await?;
    println!("with another address it answers after {:.1?}", another.elapsed());
    let shown = calls.address_of("second").await?;
    ensure!(shown == second, "home shows {shown} now, not {second}");
    calls.kubectl(&["delete", "pod", "far", "--grace-period=1"]).await?;
    wait::until("who is deleted answers no more", PATIENCE, || async {
        Ok(near.ping(far, 1).await? == 0)
    })
    .await?;
    let still = near.tcp(second, 1, MARKER).await.context("the other")?;
    ensure!(still.back == 1, "{still:?}");
    rome.kubectl(&["delete", "namespace", NAMESPACE]).await?.ok().map(drop)
}

/// By everything; gives as whom the other end has seen the sender.
async fn carried(from: Sender<'_>, to: IpAddr) -> Result<IpAddr> {
    let tcp = from.tcp(to, FIVE_MEGABYTES, MARKER).await?;
    let seen_as = tcp.seen_as;
    let all = Carried { there: FIVE_MEGABYTES, back: FIVE_MEGABYTES, ..tcp };
    ensure!(tcp == all, "by TCP {tcp:?}");
    let udp = from.udp(to, DATAGRAMS, MARKER).await?;
    ensure!(udp == Carried { there: DATAGRAMS, back: DATAGRAMS, seen_as, ..udp }, "by UDP {udp:?}");
    let answered = from.ping(to, PINGS).await?;
    ensure!(answered == PINGS, "{answered} of {PINGS} pings were answered");
    Ok(seen_as)
}

/// Whether it is of the pool of addresses of tunnels.
fn pooled(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address.octets()[0] == 10 && (200..208).contains(&address.octets()[1]))
}

/// How long pods take from being asked for until they are ready at home: printed, and not judged.
pub(crate) async fn start(rome: &Cluster) -> Result<()> {
    let user = User::new(rome, NAMESPACE).on(NODE);
    let mut took = Vec::new();
    for number in 1..=STARTS {
        let (name, asked) = (format!("start-{number}"), Instant::now());
        user.run(&name, "exec sleep 3600").await?;
        took.push(asked.elapsed());
        user.kubectl(&["delete", "pod", &name, "--grace-period=1"]).await?;
    }
    took.sort();
    let [least, median, most] = [0, took.len() / 2, took.len() - 1].map(|nth| took[nth]);
    println!(
        "of {STARTS} pods the median was ready after {median:.2?} ({least:.2?} to {most:.2?})"
    );
    Ok(())
}
