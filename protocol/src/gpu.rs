//! What an advertisement says about GPUs, in buckets: never a device's id. And how their models
//! are named: which of them are of one family, and what is a part of a device and what a whole one.

use std::borrow::Cow;

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

/// The whole device of a model, `h100-80gb-sxm` of `h100-80gb-sxm.1g.10gb`: up to its first dot.
pub fn device(model: &GpuModel) -> &str {
    let name = model.as_str();
    name.split_once('.').map_or(name, |(device, _)| device)
}

/// What variants of a device have in common, `h100` of `h100-80gb-sxm.1g.10gb`: up to the first
/// dash of the device.
pub fn family(model: &GpuModel) -> &str {
    let device = device(model);
    device.split_once('-').map_or(device, |(family, _)| family)
}

/// Which part of a device a unit is, `1g.10gb` of `h100-80gb-sxm.1g.10gb`: all after the first
/// dot. None: the unit is a whole device.
pub fn part(model: &GpuModel) -> Option<&str> {
    model.as_str().split_once('.').map(|(_, part)| part)
}

/// What those ask for who want any variant of it, `h100.1g.10gb` of `h100-80gb-sxm.1g.10gb`: its
/// family, and its part if it is one.
pub fn any_variant(model: &GpuModel) -> Cow<'_, str> {
    match part(model) {
        None => family(model).into(),
        Some(part) => format!("{}.{part}", family(model)).into(),
    }
}

/// Whether a unit of this model is what somebody means who asks for `asked`: the model itself, or
/// any of the family where no variant is asked for. A part is never meant by the name of a whole
/// device, nor a whole device, or another part, by that of a part.
pub fn is_a(model: &GpuModel, asked: &GpuModel) -> bool {
    model == asked || any_variant(model) == asked.as_str()
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn model(name: &str) -> GpuModel {
        name.parse().unwrap()
    }

    #[test]
    fn a_family_is_asked_for_by_its_name_and_a_variant_by_all_of_it() {
        let whole = model("h100-80gb-sxm");
        let cut = model("h100-80gb-sxm.1g.10gb");
        assert_eq!(
            (device(&cut), family(&cut), part(&cut)),
            (whole.as_str(), "h100", Some("1g.10gb"))
        );
        assert_eq!((device(&whole), part(&whole)), ("h100-80gb-sxm", None));
        for (model_is, asked, means) in [
            (&whole, "h100", true),
            (&whole, "h100-80gb-sxm", true),
            (&whole, "h100-80gb-pcie", false),
            (&whole, "h10", false),
            (&whole, "h100.1g.10gb", false),
            (&cut, "h100", false),
            (&cut, "h100-80gb-sxm", false),
            (&cut, "h100.1g.10gb", true),
            (&cut, "h100.1g", false),
            (&cut, "h100-80gb-sxm.1g.10gb", true),
            (&model("t4"), "t4", true),
            (&model("t4.ts4"), "t4", false),
            (&model("t4"), "t4-16gb", false),
        ] {
            assert_eq!(is_a(model_is, &model(asked)), means, "{model_is} for {asked}");
        }
    }

    /// Names as catalogues make them, and any others.
    fn any_model() -> impl Strategy<Value = GpuModel> {
        let made = "[ab][0-9](-[0-9]gb)?(-sxm)?(\\.[12]g)?(\\.[12]gb)?";
        let any = "[ab0][ab0.-]{0,6}[ab0]";
        prop_oneof![made, any].prop_map(|name| model(&name))
    }

    proptest! {
        #[test]
        fn a_part_is_never_meant_by_a_whole_device_nor_the_other_way(
            is in any_model(),
            asked in any_model(),
        ) {
            if is_a(&is, &asked) {
                prop_assert_eq!(part(&is), part(&asked));
                prop_assert_eq!(family(&is), family(&asked));
            }
        }

        #[test]
        fn who_asks_for_a_variant_gets_that_one_alone(is in any_model(), asked in any_model()) {
            if device(&asked).contains('-') {
                prop_assert_eq!(is_a(&is, &asked), is == asked);
            }
        }

        #[test]
        fn each_model_is_itself_and_of_its_family(is in any_model()) {
            let dot = if part(&is).is_some() { "." } else { "" };
            let of_family = format!("{}{dot}{}", family(&is), part(&is).unwrap_or_default());
            prop_assert!(is_a(&is, &is));
            if let Ok(asked) = of_family.parse() {
                prop_assert!(is_a(&is, &asked));
            }
        }
    }
}
