//! Simulated nodes: kwok keeps them and their pods alive; nothing runs on them.

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::Cluster;
use super::control_plane::flags;
use super::kind::Traits;

/// The annotation by which kwok knows the nodes that it simulates.
const SIMULATED: &str = "kwok.x-k8s.io/node";
/// Requests at a time.
const AT_ONCE: usize = 16;

/// Starts kwok and makes the nodes.
pub(super) async fn start(cluster: &Cluster) -> Result<()> {
    let flags = flags(&[
        ("kubeconfig", cluster.file("kwok.kubeconfig")),
        ("config", cluster.toolchain.kwok_stages().to_string_lossy().into_owned()),
        ("manage-all-nodes", "false".into()),
        ("manage-nodes-with-annotation-selector", format!("{SIMULATED}=fake")),
        ("node-lease-duration-seconds", "40".into()),
        ("cidr", "10.0.0.0/24".into()),
    ]);
    cluster.start(1, "kwok", "kwok", &flags)?;
    let nodes: Api<Node> = Api::all(cluster.client().await?);
    let mut wanted = Vec::new();
    for kind in &cluster.spec.simulated {
        let traits = kind.traits()?;
        for _ in 0..kind.count {
            wanted.push(node(&cluster.layout.name, wanted.len(), &traits));
        }
    }
    let create = |node| {
        let nodes = nodes.clone();
        async move {
            let node: Node = serde_json::from_value(node)?;
            nodes.create(&PostParams::default(), &node).await?;
            anyhow::Ok(())
        }
    };
    futures::stream::iter(wanted).map(create).buffer_unordered(AT_ONCE).try_collect().await
}

/// A node of 32 CPUs and 256 GiB, in three zones in turn, with what its kind adds.
fn node(cluster: &str, number: usize, traits: &Traits) -> Value {
    let name = format!("{cluster}-simulated-{number}");
    let mut labels = json!({
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": cluster,
        "topology.kubernetes.io/zone": format!("{cluster}-{}", number % 3),
    });
    let mut annotations = json!({SIMULATED: "fake"});
    let plain = json!({
        "cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti",
    });
    let (mut allocatable, mut capacity) = (plain.clone(), plain);
    for (all, more) in [
        (&mut labels, &traits.labels),
        (&mut annotations, &traits.annotations),
        (&mut allocatable, &traits.allocatable),
        (&mut capacity, &traits.capacity),
    ] {
        let all = all.as_object_mut().expect("an object is written above");
        // What every node has is as this bed has it.
        more.iter().for_each(|(key, value)| {
            all.entry(key).or_insert_with(|| value.clone());
        });
    }
    json!({
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": traits.spec,
        "status": {
            "allocatable": allocatable,
            "capacity": capacity,
            "nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "",
                "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "simulated",
                "machineID": "", "operatingSystem": "linux", "osImage": "", "systemUUID": "",
            },
        },
    })
}
