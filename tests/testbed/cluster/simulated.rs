//! Simulated nodes: kwok keeps them and their pods alive; nothing runs on them.

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::Cluster;
use super::control_plane::flags;

/// The annotation by which kwok knows the nodes that it simulates.
const SIMULATED: &str = "kwok.x-k8s.io/node";
/// GPUs of a simulated node that has any.
const GPUS: u32 = 8;
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
    let create = |number| {
        let nodes = nodes.clone();
        async move {
            let node = node(&cluster.layout.name, number, number < cluster.spec.gpu_nodes);
            let node: Node = serde_json::from_value(node)?;
            nodes.create(&PostParams::default(), &node).await?;
            anyhow::Ok(())
        }
    };
    futures::stream::iter(0..cluster.spec.simulated)
        .map(create)
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// A node of 32 CPUs and 256 GiB, in three zones in turn; with GPUs, the labels
/// that NVIDIA's GPU feature discovery writes for an H100.
fn node(cluster: &str, number: u32, gpus: bool) -> Value {
    let name = format!("{cluster}-simulated-{number}");
    let mut labels = json!({
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": cluster,
        "topology.kubernetes.io/zone": format!("{cluster}-{}", number % 3),
    });
    let mut capacity = json!({
        "cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti",
    });
    if gpus {
        for (label, value) in [
            ("cuda.driver.major", "570"),
            ("cuda.driver.minor", "86"),
            ("cuda.runtime.major", "12"),
            ("cuda.runtime.minor", "8"),
            ("gpu.compute.major", "9"),
            ("gpu.compute.minor", "0"),
            ("gpu.count", "8"),
            ("gpu.family", "hopper"),
            ("gpu.machine", "simulated"),
            ("gpu.memory", "81559"),
            ("gpu.present", "true"),
            ("gpu.product", "NVIDIA-H100-80GB-HBM3"),
            ("gpu.replicas", "1"),
            ("gpu.sharing-strategy", "none"),
            ("mig.capable", "true"),
            ("mig.strategy", "single"),
        ] {
            labels[format!("nvidia.com/{label}")] = value.into();
        }
        capacity["nvidia.com/gpu"] = GPUS.to_string().into();
    }
    json!({
        "metadata": {"name": name, "labels": labels, "annotations": {SIMULATED: "fake"}},
        "status": {
            "allocatable": capacity,
            "capacity": capacity,
            "nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "",
                "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "simulated",
                "machineID": "", "operatingSystem": "linux", "osImage": "", "systemUUID": "",
            },
        },
    })
}
