//! What the bed has for packets, tried within clusters: bytes that are counted at both ends, and
//! captures that see them; what the address of a pod is to whom; and that a program beside the
//! cluster's parts is in its node's network.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::capture::Capture;
use mercato_tests::cluster::Cluster;
use mercato_tests::courier::{self, Carried, Sender};
use mercato_tests::suite::Stage;
use mercato_tests::user::User;
use mercato_tests::wait;

const NAMESPACE: &str = "packets";
const FIVE_MEGABYTES: u64 = 5_000_000;
const DATAGRAMS: u64 = 40;
const PINGS: u64 = 3;
/// What is looked for in packets, of each test: they may run at the same time.
const ON_A_NODE: &str = "read-on-the-node";
const ON_THE_LAN: &str = "read-on-the-lan";
/// Of the programs that are started on nodes.
const ON_NODE: &str = "courier";
const PATIENCE: Duration = Duration::from_secs(30);

/// Two pods and their addresses.
struct Pods<'a> {
    user: User<'a>,
    near: IpAddr,
    far: IpAddr,
    marker: &'a str,
}

impl<'a> Pods<'a> {
    /// Pods `near` and `far` on these nodes.
    async fn start(cluster: &'a Cluster, on: [&'a str; 2], marker: &'a str) -> Result<Self> {
        cluster.kubectl(&["create", "namespace", NAMESPACE]).await?.ok()?;
        let user = User::new(cluster, NAMESPACE);
        let (on_near, on_far) = (user.on(on[0]), user.on(on[1]));
        futures::try_join!(on_near.serves("near"), on_far.serves("far"))?;
        let (near, far) = (user.address_of("near").await?, user.address_of("far").await?);
        Ok(Self { user, near, far, marker })
    }

    /// From one to the other by everything, which sees the first as this.
    async fn carries(&self, from: Sender<'_>, seen_as: IpAddr) -> Result<()> {
        let tcp = from.tcp(self.far, FIVE_MEGABYTES, self.marker).await?;
        let all = Carried { there: FIVE_MEGABYTES, back: FIVE_MEGABYTES, seen_as, ..tcp };
        ensure!(tcp == all, "by TCP {tcp:?} instead of {all:?}");
        let udp = from.udp(self.far, DATAGRAMS, self.marker).await?;
        let all = Carried { there: DATAGRAMS, back: DATAGRAMS, seen_as, ..udp };
        ensure!(udp == all, "by UDP {udp:?} instead of {all:?}");
        let answered = from.ping(self.far, PINGS).await?;
        ensure!(answered == PINGS, "{answered} of {PINGS} pings were answered");
        Ok(())
    }
}

pub(crate) async fn within_a_node(stage: &Stage) -> Result<()> {
    let turin = stage.cluster("turin");
    let pods = Pods::start(turin, ["turin-1", "turin-1"], ON_A_NODE).await?;
    let node = turin.machine(1);
    let (near, far) = (node.device_to(pods.near).await?, node.device_to(pods.far).await?);

    let capture = Capture::begin(&node.network()?, ON_A_NODE)?;
    pods.carries(Sender::Pod(pods.user, "near"), pods.near).await.context("from a pod")?;
    let seen = capture.end()?;
    // Each of them carries everything, there and back; offloads make 64 KiB of it one packet.
    let at_least = 2 * (FIVE_MEGABYTES / (64 << 10) + DATAGRAMS);
    for device in [&near, &far] {
        let of = seen.get(device).with_context(|| format!("no {device} in {seen:?}"))?;
        ensure!(of.marked >= at_least && of.packets > of.marked, "{device}: {of:?}");
    }
    ensure!(seen.get("eth0").is_none_or(|of| of.marked == 0), "it left the node: {seen:?}");

    let capture = Capture::begin(&node.network()?, ON_A_NODE)?;
    // A node has an address towards each pod: its gateway's.
    let gateway = gateway(pods.near)?;
    pods.carries(Sender::Node(turin, 1), gateway).await.context("from the node")?;
    let proxied = courier::by_pod_proxy(&pods.user, "far", FIVE_MEGABYTES, ON_A_NODE).await?;
    let all = Carried { there: FIVE_MEGABYTES, back: FIVE_MEGABYTES, seen_as: gateway, ..proxied };
    ensure!(proxied == all, "by the pod proxy {proxied:?}");
    let seen = capture.end()?;
    ensure!(seen.get(&far).is_some_and(|of| of.marked >= at_least), "{far}: {seen:?}");
    ensure!(seen.get(&near).is_none_or(|of| of.marked == 0), "{near} took part: {seen:?}");
    turin.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]).await?.ok().map(drop)
}

/// The first address of the node's part.
fn gateway(pod: IpAddr) -> Result<IpAddr> {
    let IpAddr::V4(pod) = pod else { anyhow::bail!("{pod} is not of version 4") };
    let [a, b, c, _] = pod.octets();
    Ok(IpAddr::from([a, b, c, 1]))
}

/// A pod has its own address throughout its cluster, and its node's outside.
pub(crate) async fn between_nodes(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let pods = Pods::start(rome, ["rome-1", "rome-2"], ON_THE_LAN).await?;
    let near = Sender::Pod(pods.user, "near");
    let capture = Capture::begin(stage.bed.network().as_ref(), ON_THE_LAN)?;
    pods.carries(near, pods.near).await.context("to another node")?;
    let seen = capture.end()?;
    ensure!(seen.values().any(|of| of.marked > DATAGRAMS), "nothing on the LAN: {seen:?}");

    let port = courier::PORT.to_string();
    let serve = ["serve", &port].map(str::to_owned);
    turin.start_program(ON_NODE, &turin.program_path("courier"), &serve)?;
    let there = turin.machine(1).address();
    wait::until("a node serves", PATIENCE, || async {
        near.tcp(there, 1, ON_THE_LAN).await?;
        Ok(true)
    })
    .await?;
    let seen_as = rome.machine(1).address();
    for carried in [near.tcp(there, 1, ON_THE_LAN).await?, near.udp(there, 1, ON_THE_LAN).await?] {
        ensure!(
            carried == Carried { there: 1, back: 1, seen_as, ..carried },
            "outside: {carried:?}"
        );
    }
    turin.kill(ON_NODE)?;
    rome.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]).await?.ok().map(drop)
}

/// As a daemon does: it makes a TUN device, an address and a route, and they are the node's.
pub(crate) async fn in_its_network(stage: &Stage) -> Result<()> {
    let turin = stage.cluster("turin");
    let script = "set -e
        ip tuntap add dev given mode tun
        ip address add 10.200.0.1/32 dev given
        ip link set given up
        ip route add 10.200.0.0/13 dev given
        exec sleep infinity";
    let args = ["-c", script].map(str::to_owned);
    turin.start_program("router", Path::new("/bin/sh"), &args)?;
    let node = turin.machine(1);
    wait::until("the node has its route", PATIENCE, || async {
        let device = node.device_to(IpAddr::from([10, 200, 1, 1])).await?;
        ensure!(device == "given", "it goes by {device}");
        Ok(true)
    })
    .await?;
    turin.kill("router")?;
    turin.on_machine("ip link delete given").await
}
