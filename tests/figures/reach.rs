//! What gateways add to a deal and to a pod's start, and whether the first byte to a guest
//! passes: with gateways and without in turns, each round on a bed of its own, with a kubelet at
//! the provider.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, PostParams, WatchEvent, WatchParams};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier::{self, Sender};
use mercato_tests::daemon::order;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::lease::{self, GUESTS, NAMESPACE};
use crate::stage::on_real_bed;
use crate::table::{self, quantile, short, spread};

const PATIENCE: Duration = Duration::from_secs(60);
const GATEWAY: &str = "gateway: {enabled: on}";
/// Linux sends the first packet of a connection again after this time: what took longer has lost
/// it.
const SENT_AGAIN: Duration = Duration::from_secs(1);
/// Pods that there may be: one at a time, and those that end.
const ROOM: usize = 10;

/// Milliseconds, but for the first.
#[derive(Default)]
struct Figures {
    /// Seconds until the node is ready; until it has a tunnel.
    accepted: Vec<f64>,
    tunnels: Vec<f64>,
    /// Of each pod, from one cluster to the other.
    starts: Vec<f64>,
    /// Of each first byte that came at the first try; why others did not.
    first: Vec<f64>,
    lost: Vec<String>,
}

pub(crate) fn measure(rounds: usize, pods: usize) -> Result<()> {
    let (mut without, mut with) = (Figures::default(), Figures::default());
    for _ in 0..rounds {
        on_real_bed(async |rome, turin| round(rome, turin, "", pods, &mut without).await)?;
        on_real_bed(async |rome, turin| round(rome, turin, GATEWAY, pods, &mut with).await)?;
    }
    for why in &with.lost {
        eprintln!("a first byte: {why}");
    }
    let (each, all) = (with.accepted.len(), with.starts.len());
    let rounds = format!("{each} rounds of each kind in turns, {all} pods of each");
    table::head(&format!("What gateways add, {rounds}"));
    let accepted = |of: &Figures| format!("{} s", spread(&of.accepted));
    table::row("accept until the node is Ready, with gateways", "0.3 s", &accepted(&with));
    table::row("the same without", "", &accepted(&without));
    let tunnels = format!("{} s", spread(&with.tunnels));
    table::row("accept until the tunnel of the first lease is up", "", &tunnels);
    let median = |of: &Figures| quantile(&of.starts, 0.5);
    let more = format!("{} ms", short(median(&with) - median(&without)));
    let what = "a pod's Running at the provider until Ready at home: how much more with gateways";
    table::row(what, "100 ms", &more);
    for (what, of) in [("with gateways", &with), ("without", &without)] {
        let part = |part| short(quantile(&of.starts, part));
        let figure = format!("{}, {} and {} ms", part(0.5), part(0.9), part(1.0));
        table::row(&format!("that time {what}: p50, p90 and the longest"), "", &figure);
    }
    let passed = format!("{} of {all}", with.first.len());
    let what = "first bytes from home's node to a pod, sent as soon as it is Ready, that come";
    table::row(what, &format!("{all} of {all}"), &passed);
    let took = format!("{} ms", short(quantile(&with.first, 1.0)));
    table::row("the longest of them, with the start of the program that sends it", "", &took);
    Ok(())
}

async fn round(
    rome: &Cluster,
    turin: &Cluster,
    config: &str,
    pods: usize,
    figures: &mut Figures,
) -> Result<()> {
    let (home, provider) = lease::daemons(rome, turin, config).await?;
    let share = ["share", "set", "--cpu", "80%", "--memory", "80%", "--price", "free"];
    let terms = ["--approve", "ask", "--network-isolation", "none"];
    provider.mercato(&[&share[..], &terms].concat()).await?.ok()?;
    home.sees_offer_of("turin").await?;
    home.mercato(&["peer", "trust", "turin", "--yes"]).await?.ok()?;
    lease::namespace(rome).await?;
    home.offload(NAMESPACE, "Remote").await?;
    let order = order(ROOM);
    let order: Vec<&str> = order.iter().map(String::as_str).collect();
    home.mercato(&order).await?.ok()?;
    let request = lease::request(&provider).await?;

    let virtual_node = WatchParams::default().labels("mercato.dev/contract");
    let nodes: Api<Node> = Api::all(rome.client().await?);
    let ready = |node: &Node| is_true(node, "Ready").then(Instant::now);
    let tunnel = |node: &Node| is_true(node, "mercato.dev/TunnelReady").then(Instant::now);
    let start = Instant::now();
    let accepted = async { provider.mercato(&["requests", "accept", &request]).await?.ok() };
    let ready = seen(&nodes, virtual_node.clone(), "the node is ready", ready);
    let tunnel = async {
        if config.is_empty() {
            return Ok(None);
        }
        seen(&nodes, virtual_node.clone(), "the tunnel is up", tunnel).await.map(Some)
    };
    let (_, ready, tunnel) = futures::try_join!(accepted, ready, tunnel)?;
    figures.accepted.push((ready - start).as_secs_f64());
    figures.tunnels.extend(tunnel.map(|up| (up - start).as_secs_f64()));
    for number in 0..pods {
        pod(rome, turin, &format!("pod-{number}"), !config.is_empty(), figures).await?;
    }
    Ok(())
}

/// One pod: until it is ready at home, and a byte to it.
async fn pod(
    rome: &Cluster,
    turin: &Cluster,
    name: &str,
    is_called: bool,
    figures: &mut Figures,
) -> Result<()> {
    let at_home: Api<Pod> = Api::namespaced(rome.client().await?, NAMESPACE);
    let there: Api<Pod> = Api::namespaced(turin.client().await?, GUESTS);
    let pod = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            // The courier is the first process of its pod, which ends by no other signal.
            "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "main", "image": courier::IMAGE }],
        },
    }))?;
    let by_name = WatchParams::default().fields(&format!("metadata.name={name}"));
    let runs = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        (phase == Some("Running")).then(Instant::now)
    };
    let ready = |pod: &Pod| {
        let status = pod.status.as_ref()?;
        let mut conditions = status.conditions.iter().flatten();
        conditions.any(|one| one.type_ == "Ready" && one.status == "True").then_some(())?;
        let address: Option<IpAddr> = status.pod_ip.as_ref().and_then(|it| it.parse().ok());
        Some((Instant::now(), address))
    };
    let called = async {
        let (at, address) = seen(&at_home, by_name.clone(), "it is ready at home", ready).await?;
        ensure!(address.is_some() == is_called, "{name} is ready, and its address is {address:?}");
        if let Some(to) = address {
            figures.call(rome, to).await;
        }
        Ok(at)
    };
    let made = async { at_home.create(&PostParams::default(), &pod).await.context("make a pod") };
    let runs = seen(&there, by_name.clone(), "it runs at the provider", runs);
    let (_, runs, at) = futures::try_join!(made, runs, called)?;
    figures.starts.push(at.saturating_duration_since(runs).as_secs_f64() * 1_000.0);
    at_home.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

impl Figures {
    /// A byte to a pod and back, at the first try.
    async fn call(&mut self, rome: &Cluster, to: IpAddr) {
        let sent = Instant::now();
        let back = Sender::Node(rome, 1).tcp(to, 1, "b").await;
        let took = sent.elapsed();
        match back {
            Ok(byte) if byte.back == 1 && took < SENT_AGAIN => {
                self.first.push(took.as_secs_f64() * 1_000.0);
            }
            Ok(byte) => self.lost.push(format!("{byte:?} after {took:?}")),
            Err(error) => self.lost.push(format!("{error:#}")),
        }
    }
}

/// What is looked for, as soon as a watch tells of it.
async fn seen<K, T>(
    api: &Api<K>,
    which: WatchParams,
    what: &str,
    found: impl Fn(&K) -> Option<T>,
) -> Result<T>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let told = async {
        let mut told = api.watch(&which, "0").await?.boxed();
        while let Some(event) = told.try_next().await? {
            let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else {
                continue;
            };
            if let Some(found) = found(&object) {
                return Ok(found);
            }
        }
        bail!("the watch has ended")
    };
    let told = tokio::time::timeout(PATIENCE, told).await;
    told.with_context(|| format!("waited {PATIENCE:?} in vain: {what}"))?
}

fn is_true(node: &Node, condition: &str) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == condition && one.status == "True")
}
