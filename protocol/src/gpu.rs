//! What an advertisement says about GPUs, in buckets: never a device's id.

use serde::{Deserialize, Serialize};

use crate::codec::{wire_enum, wire_map, wire_union};
use crate::text::{GpuModel, Slug};

/// Like GPUs of one pool, sold in one way. Their price stands in the lease, under
/// the same model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuPool {
    /// The model as the registry spells it, or the sold part: unique in its pool, and
    /// the key of its count in [`Resources`](crate::resources::Resources).
    pub model: GpuModel,
    /// The vendor: `nvidia`, `amd`, `intel`.
    pub vendor: Slug,
    /// PCI vendor and device, `10de:2330`.
    pub pci_id: Option<String>,
    /// Memory of one unit, in mebibytes.
    pub memory_mib: u64,
    /// How many there are, rounded to buckets.
    pub count: u64,
    /// The most that one node has.
    pub most_per_node: u64,
    /// The version of the driver, if it is known.
    pub driver: Option<String>,
    /// The newest CUDA version that the driver takes, if it is known.
    pub cuda: Option<String>,
    /// The compute capability, such as `9.0`, if it is known.
    pub compute_capability: Option<String>,
    /// How those of one node are joined.
    pub interconnect: Option<String>,
    /// Where these figures come from.
    pub source: GpuSource,
    /// How a unit is cut out of a device.
    pub mode: GpuMode,
    /// What keeps two tenants of one device apart.
    pub isolation: GpuIsolation,
    /// Units of different pools with the same name here are cut out of the same
    /// devices, and count against each other.
    pub shared_counter: Option<String>,
    /// Host processor that comes with a unit, in thousandths of a core.
    pub cpu_millis_per_unit: u64,
    /// Host memory that comes with a unit, in bytes.
    pub memory_bytes_per_unit: u64,
}

/// Where the figures of a GPU pool come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GpuSource {
    /// Dynamic resource allocation: `ResourceSlices` of the cluster.
    Dra,
    /// Labels that a device plugin has put on nodes.
    Labels,
    /// The owner's own word, in the configuration.
    Manual,
}

/// How a unit is cut out of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GpuMode {
    /// A tenant has the whole device alone.
    Exclusive,
    /// A tenant has a partition that the hardware makes.
    Mig {
        /// The partition's profile, such as `1g.10gb`.
        profile: String,
    },
    /// A share of memory and of compute.
    Mps {
        /// Device memory of a share, in mebibytes.
        memory_mib: u64,
        /// Of the compute, 1 to 100.
        percent: u32,
    },
    /// A turn among others. Replicas are never sold as GPUs.
    Timeslice {
        /// How many tenants take turns on it.
        replicas: u32,
    },
    /// A tenant has a virtual GPU of the vendor's.
    Vgpu {
        /// The vendor's name of its profile.
        profile: String,
    },
}

/// What keeps two tenants of one device apart, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GpuIsolation {
    /// Nothing keeps tenants of one device apart.
    None,
    /// Software keeps tenants to limits.
    Limit,
    /// The device itself keeps tenants apart.
    Hardware,
}

impl GpuPool {
    /// Whole devices of which nobody but the owner knows: all of them on one node.
    pub fn whole(model: GpuModel, count: u64, memory_mib: u64) -> Self {
        Self {
            model,
            vendor: "nvidia".parse().expect("a plain word is a slug"),
            pci_id: None,
            memory_mib,
            count,
            most_per_node: count,
            driver: None,
            cuda: None,
            compute_capability: None,
            interconnect: None,
            source: GpuSource::Manual,
            mode: GpuMode::Exclusive,
            isolation: GpuIsolation::Hardware,
            shared_counter: None,
            cpu_millis_per_unit: 0,
            memory_bytes_per_unit: 0,
        }
    }
}

wire_map!(GpuPool {
    1 => model,
    2 => vendor,
    3 => pci_id,
    4 => memory_mib,
    5 => count,
    6 => most_per_node,
    7 => driver,
    8 => cuda,
    9 => compute_capability,
    10 => interconnect,
    11 => source,
    12 => mode,
    13 => isolation,
    14 => shared_counter,
    15 => cpu_millis_per_unit,
    16 => memory_bytes_per_unit,
});
wire_enum!(GpuSource { 0 => Dra, 1 => Labels, 2 => Manual });
wire_union!(GpuMode {
    0 => Exclusive {},
    1 => Mig { 1 => profile },
    2 => Mps { 1 => memory_mib, 2 => percent },
    3 => Timeslice { 1 => replicas },
    4 => Vgpu { 1 => profile },
});
wire_enum!(GpuIsolation { 0 => None, 1 => Limit, 2 => Hardware });
