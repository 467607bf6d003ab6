//! The labels by which guests find nodes with some devices, and no others.

use std::collections::BTreeMap;

use serde_json::Value;

/// Labels that say which devices a node has, and how they are cut and shared, whoever writes them.
pub(in crate::inventory) const TELLING: [&str; 17] = [
    "amd.com/compute-memory-partition",
    "amd.com/gpu.compute-memory-partition",
    "amd.com/gpu.device-id",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-gpu-partition-size",
    "cloud.google.com/gke-gpu-sharing-strategy",
    "eks.amazonaws.com/instance-gpu-name",
    "gpu.intel.com/family",
    "gpu.intel.com/product",
    "karpenter.k8s.aws/instance-gpu-name",
    "kubernetes.azure.com/accelerator",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.sharing-strategy",
    "nvidia.com/mig.strategy",
    "nvidia.com/vgpu.present",
];

/// The kind of machine, for nodes of which no label tells the devices.
pub(in crate::inventory) const MACHINE: &str = "node.kubernetes.io/instance-type";
/// The name by which pods ask for a node.
pub(in crate::inventory) const HOST: &str = "kubernetes.io/hostname";

/// The labels of a node by which guests may find it.
pub(in crate::inventory) fn telling(labels: &Value) -> BTreeMap<String, String> {
    let keys = TELLING.into_iter().chain([MACHINE, HOST]);
    let told = keys.filter_map(|key| Some((key.to_owned(), labels[key].as_str()?.to_owned())));
    told.collect()
}
