//! What Services cost between two clusters: how long a change of an endpoint takes to the other
//! side, and what the daemons write for each pod behind a Service. Both clusters have a node with a
//! kubelet, since Services cross only with a tunnel.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier;
use mercato_tests::daemon::PART;
use mercato_tests::wait;
use serde_json::json;

use crate::lease::{self, GUESTS, NAMESPACE, side};
use crate::stage::on_two_nodes;
use crate::table::{self, quantile, short};

const PATIENCE: Duration = Duration::from_secs(60);
const GATEWAY: &str = "gateway: {enabled: on}";
/// What is still to be written once all are ready.
const SETTLE: Duration = Duration::from_secs(3);
/// Fewer writes a pod are those of nodes and Leases.
const WORTH_SAYING: f64 = 0.02;
/// What is written for each pod; Services and the like are written once, events are the kubelet's.
const OURS: [&str; 3] = [" pods", " pods/status", " endpointslices"];
/// A Service whose endpoints the scene writes itself, and one of the guests.
const OBJECTS: &str = "
apiVersion: v1
kind: Service
metadata: {name: written, namespace: shop}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: near, namespace: shop}
spec: {containers: [{name: main, image: 'mercato.test/pause:1'}]}
";
const SLICE: &str = "written-1";

/// Of each kind how many were written for a pod, by cluster and what was written.
type Writes = BTreeMap<(&'static str, String), f64>;

pub(crate) fn measure(changes: usize, pods: usize) -> Result<()> {
    let (took, writes) = on_two_nodes(async |rome, turin| scene(rome, turin, changes, pods).await)?;
    table::head(&format!("Services: {changes} changes of an endpoint, {pods} pods behind one"));
    let seen = "an endpoint's change until it is on the other side";
    for (what, goal, part) in
        [("p50", "50 ms", 0.5), ("p99", "1,000 ms", 0.99), ("the longest", "", 1.0)]
    {
        let figure = format!("{} ms", short(quantile(&took, part)));
        table::row(&format!("{seen}, {what}"), goal, &figure);
    }
    for side in ["home", "provider"] {
        let ours = |of: &str, what: &str| {
            of == side && what.starts_with(PART) && OURS.iter().any(|it| what.ends_with(it))
        };
        let all = writes.iter().filter(|((of, what), _)| ours(of, what)).map(|(_, count)| count);
        let what =
            format!("writes of ours to pods and endpoints for each that runs, at the {side}");
        table::row(&what, "2", &short(all.sum()));
    }
    for ((side, what), count) in writes.iter().filter(|(_, count)| **count >= WORTH_SAYING) {
        table::row(&format!("writes for each at the {side}: {what}"), "", &short(*count));
    }
    Ok(())
}

async fn scene(
    rome: &Cluster,
    turin: &Cluster,
    changes: usize,
    pods: usize,
) -> Result<(Vec<f64>, Writes)> {
    let (home, provider) = lease::daemons(rome, turin, GATEWAY).await?;
    home.leases_from(&provider, pods + 1).await?;
    lease::namespace(rome).await?;
    // This pod is there before pods of its namespace leave.
    rome.apply(OBJECTS).await?;
    let near = address_of(rome, "near").await?;
    home.offload(NAMESPACE, "Remote").await?;
    let marks = [(rome, rome.audit_mark()?), (turin, turin.audit_mark()?)];
    lease::deploy_of(rome, pods, courier::IMAGE).await?;
    lease::ready(rome, pods).await?;
    tokio::time::sleep(SETTLE).await;
    let mut writes = Writes::new();
    for (cluster, mark) in marks {
        for (write, count) in cluster.writes_since(mark)? {
            let refused = if write.ok { "" } else { ", refused" };
            let what = format!("{} {} {}{refused}", write.by, write.verb, write.resource);
            writes.insert((side(cluster), what), count as f64 / pods as f64);
        }
    }
    Ok((changed(rome, turin, &near, changes).await?, writes))
}

/// Milliseconds that each change took.
async fn changed(rome: &Cluster, turin: &Cluster, near: &str, changes: usize) -> Result<Vec<f64>> {
    let slice = json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": SLICE, "namespace": NAMESPACE,
            "labels": { "kubernetes.io/service-name": "written" } },
        "addressType": "IPv4", "ports": [{ "port": 80 }],
        "endpoints": [{ "addresses": [near], "conditions": { "ready": true } }] });
    rome.apply(&slice.to_string()).await?;
    let here: Api<EndpointSlice> = Api::namespaced(rome.client().await?, NAMESPACE);
    let there: Api<EndpointSlice> = Api::namespaced(turin.client().await?, GUESTS);
    wait::until("the slice is over there", PATIENCE, || async {
        Ok(there.get_opt(SLICE).await?.is_some_and(|slice| is_ready(&slice) == Some(true)))
    })
    .await?;
    let by_name = WatchParams::default().fields(&format!("metadata.name={SLICE}"));
    let mut seen = there.watch(&by_name, "0").await?.boxed();
    let mut took = Vec::new();
    for number in 0..changes {
        let ready = number % 2 == 1;
        let endpoints = json!([{ "addresses": [near], "conditions": { "ready": ready } }]);
        let patch = Patch::Merge(json!({ "endpoints": endpoints }));
        let start = Instant::now();
        here.patch(SLICE, &PatchParams::default(), &patch).await?;
        let arrives = async {
            while let Some(event) = seen.try_next().await? {
                let (WatchEvent::Added(slice) | WatchEvent::Modified(slice)) = event else {
                    continue;
                };
                if is_ready(&slice) == Some(ready) {
                    return Ok(());
                }
            }
            anyhow::bail!("the watch has ended")
        };
        tokio::time::timeout(PATIENCE, arrives).await.context("it never arrives")??;
        took.push(start.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(took)
}

fn is_ready(slice: &EndpointSlice) -> Option<bool> {
    slice.endpoints.as_ref()?.first()?.conditions.as_ref()?.ready
}

async fn address_of(cluster: &Cluster, pod: &str) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, NAMESPACE);
    let address =
        async || Ok::<_, anyhow::Error>(pods.get(pod).await?.status.and_then(|it| it.pod_ip));
    wait::until(&format!("{pod} has an address"), PATIENCE, || async {
        Ok(address().await?.is_some())
    })
    .await?;
    address().await?.context("it has lost its address")
}
