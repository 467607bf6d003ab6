//! Devices of DRA (Dynamic Resource Allocation), as drivers tell of them in ResourceSlices: none is sold,
//! since pods ask for them by claims, which no contract has. Their owner is told which these are.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt;
use serde_json::Value;

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::failure::Class;
use crate::apiserver::kind::RESOURCE_SLICE;
use crate::limits::DRA_PRODUCTS;

use super::gpus::Unsold;
use super::unsold::UnsoldDevices;

/// Drivers of what is no accelerator: channels between GPUs, processors, memory and network cards.
const OTHERS: [&str; 4] = ["compute-domain.nvidia.com", "dra.cpu", "dra.memory", "dra.net"];
/// Attributes that say what a device is, the best first.
const PRODUCT: [&str; 3] = ["productName", "model", "type"];
/// Those that say which part of it a device is.
const PART: [&str; 2] = ["profile", "partitionProfile"];

/// The devices of all slices; nothing where the API server has no such objects (`resource.k8s.io/v1` is
/// there since Kubernetes 1.34), or the account has the rights of an earlier release.
pub(super) fn devices(cluster: &Cluster) -> Answer<Vec<UnsoldDevices>> {
    let slices = cluster.list(RESOURCE_SLICE, None, "");
    async move {
        match slices.await {
            Ok(slices) => Ok(unsold(&slices)),
            Err(failure) => match failure.class {
                Class::Missing | Class::Refused => Ok(Vec::new()),
                Class::Transient | Class::Conflict => Err(failure),
            },
        }
    }
    .boxed()
}

/// A row for each driver and product, [`DRA_PRODUCTS`] of them at most.
fn unsold(slices: &[Value]) -> Vec<UnsoldDevices> {
    let pool = |slice: &Value| {
        let spec = &slice["spec"];
        let pool = &spec["pool"];
        let name = pool["name"].as_str().unwrap_or_default().to_owned();
        Some((spec["driver"].as_str()?.to_owned(), name, pool["generation"].as_u64().unwrap_or(0)))
    };
    // A driver writes all slices of a pool anew; those of before do not count any more.
    let mut latest = BTreeMap::new();
    for (driver, name, generation) in slices.iter().filter_map(pool) {
        let known = latest.entry((driver, name)).or_insert(generation);
        *known = generation.max(*known);
    }
    let mut rows: BTreeMap<(String, String), (BTreeSet<&str>, u64)> = BTreeMap::new();
    for slice in slices {
        let Some((driver, name, generation)) = pool(slice) else { continue };
        let key = (driver, name);
        if latest.get(&key) != Some(&generation) || OTHERS.contains(&key.0.as_str()) {
            continue;
        }
        for device in slice["spec"]["devices"].as_array().into_iter().flatten() {
            // The same device once more, for virtual machines.
            if attribute(device, "type") == Some("vfio") {
                continue;
            }
            let row = (key.0.clone(), product(device));
            if rows.len() >= DRA_PRODUCTS && !rows.contains_key(&row) {
                continue;
            }
            let (nodes, count) = rows.entry(row).or_default();
            let node = slice["spec"]["nodeName"].as_str().or_else(|| device["nodeName"].as_str());
            nodes.extend(node);
            *count += 1;
        }
    }
    rows.into_iter()
        .map(|((driver, product), (nodes, count))| row(driver, &product, &nodes, count))
        .collect()
}

fn row(driver: String, product: &str, nodes: &BTreeSet<&str>, count: u64) -> UnsoldDevices {
    let reason = format!(
        "{product}: pods ask for devices of DRA by claims (ResourceClaim), which no contract has; \
         those of a device plugin are sold"
    );
    let of = Unsold { resource: driver, count, reason, line: None };
    UnsoldDevices { nodes: nodes.len() as u64, of }
}

/// What people call it: its product, with the part of it.
fn product(device: &Value) -> String {
    let said = |names: &[&str]| names.iter().find_map(|name| attribute(device, name));
    let product = said(&PRODUCT).unwrap_or("devices that say of themselves no product");
    match said(&PART) {
        Some(part) => format!("{product} {part}"),
        None => product.to_owned(),
    }
}

/// An attribute of a device by its name, of whichever domain.
fn attribute<'a>(device: &'a Value, name: &str) -> Option<&'a str> {
    let all = device["attributes"].as_object()?;
    let is_it = |key: &str| key.rsplit('/').next() == Some(name);
    let mut named = all.iter().filter(|(key, _)| is_it(key));
    named.find_map(|(_, value)| value["string"].as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{scripted, status};

    fn slice(driver: &str, node: &str, generation: u64, devices: Value) -> Value {
        json!({ "metadata": { "name": format!("{node}-{driver}-{generation}") }, "spec": {
            "driver": driver, "nodeName": node, "devices": devices,
            "pool": { "name": node, "generation": generation, "resourceSliceCount": 1 } } })
    }

    /// As NVIDIA's driver writes it: its deviceinfo.go, of NVIDIA/k8s-dra-driver-gpu.
    fn nvidia(kind: &str, product: &str, profile: Option<&str>) -> Value {
        let mut attributes = json!({
            "type": { "string": kind }, "uuid": { "string": "GPU-1" },
            "productName": { "string": product }, "brand": { "string": "Nvidia" },
            "architecture": { "string": "Hopper" }, "driverVersion": { "version": "560.35.3" },
            "resource.kubernetes.io/pciBusID": { "string": "0000:01:00.0" },
        });
        if let Some(profile) = profile {
            attributes["profile"] = json!({ "string": profile });
        }
        json!({ "name": "gpu-0", "attributes": attributes,
            "capacity": { "memory": { "value": "81559Mi" } } })
    }

    fn told(slices: &[Value]) -> Vec<(String, u64, u64, String)> {
        let words = |it: UnsoldDevices| {
            let product = it.of.reason.split(':').next().unwrap().to_owned();
            (it.of.resource, it.of.count, it.nodes, product)
        };
        unsold(slices).into_iter().map(words).collect()
    }

    #[test]
    fn each_product_of_a_driver_is_told_with_its_nodes() {
        let h100 = "NVIDIA H100 80GB HBM3";
        let whole = || nvidia("gpu", h100, None);
        let part = nvidia("mig", h100, Some("1g.10gb"));
        let vm = nvidia("vfio", h100, None);
        let amd = json!({ "name": "gpu-0", "attributes": {
            "productName": { "string": "AMD_Instinct_MI300X_OAM" }, "type": { "string": "amdgpu" } } });
        let channel =
            json!({ "name": "channel-0", "attributes": { "type": { "string": "channel" } } });
        let all = [
            slice("gpu.nvidia.com", "n1", 1, json!([whole()])),
            slice("gpu.nvidia.com", "n1", 2, json!([whole(), whole(), part, vm])),
            slice("gpu.nvidia.com", "n2", 1, json!([whole()])),
            slice("gpu.amd.com", "n3", 1, json!([amd, {}])),
            slice("compute-domain.nvidia.com", "n1", 1, json!([channel])),
            json!({ "spec": {} }),
        ];
        let row = |driver: &str, count, nodes, product: &str| {
            (driver.to_owned(), count, nodes, product.to_owned())
        };
        let expected = [
            row("gpu.amd.com", 1, 1, "AMD_Instinct_MI300X_OAM"),
            row("gpu.amd.com", 1, 1, "devices that say of themselves no product"),
            row("gpu.nvidia.com", 3, 2, h100),
            row("gpu.nvidia.com", 1, 1, "NVIDIA H100 80GB HBM3 1g.10gb"),
        ];
        assert_eq!(told(&all), expected);
        let many: Vec<_> =
            (0..2 * DRA_PRODUCTS).map(|n| nvidia("gpu", &format!("GPU {n}"), None)).collect();
        assert_eq!(told(&[slice("gpu.nvidia.com", "n1", 1, many.into())]).len(), DRA_PRODUCTS);
    }

    #[tokio::test]
    async fn a_cluster_without_slices_has_no_such_devices() {
        for refusal in [status(404, "unknown"), status(403, "forbidden")] {
            let cluster = scripted(move |_, _, _| refusal.clone());
            assert_eq!(devices(&cluster).await.unwrap(), []);
        }
        let cluster = scripted(|_, path, _| {
            assert!(path.starts_with("/apis/resource.k8s.io/v1/resourceslices?"), "{path}");
            let slice = slice("gpu.nvidia.com", "n1", 1, json!([nvidia("gpu", "NVIDIA L4", None)]));
            (200, json!({ "metadata": {}, "items": [slice] }))
        });
        assert_eq!(devices(&cluster).await.unwrap().len(), 1);
        let cluster = scripted(|_, _, _| status(503, "later"));
        assert!(devices(&cluster).await.is_err(), "what is known stays");
    }
}
