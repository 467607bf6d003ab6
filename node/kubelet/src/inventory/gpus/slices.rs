//! Parts and whole ones of the same devices: together they are no more than there are. A device that is
//! cut, or is cut no more, may be listed in both ways for a while, and stays so where a plugin has died.

use super::catalogue;
use super::cloud;
use super::cut::Profile;
use super::labels::Labels;
use super::unit::{Found, Unit, Unsold};

/// Whose devices are listed whole and in parts by resources of their own.
const NVIDIA: &str = "nvidia";
/// What resources of parts begin with.
const PART: &str = "nvidia.com/mig-";
/// Compute slices of a device; source: NVIDIA's MIG user guide, "Supported MIG Profiles".
const SLICES: u64 = 7;
/// Those of the smaller ones, by the beginning of the model; the same source.
const FEWER: [(&str, u64); 2] = [("a30", 4), ("rtxpro6000", 4)];
/// A device, so that each kind of slice is a whole number of these, and so much of its memory.
const DEVICE: u64 = 28;
const MEMORY: u64 = 1_000_000;

/// Sells none of a node's devices whose parts and whole ones are more than the labels count.
pub(super) fn fit(labels: &Labels<'_>, found: &mut Found) {
    if !found.units.iter().any(|unit| unit.resource.starts_with(PART)) {
        return;
    }
    let Some(devices) = labels.number("nvidia.com/gpu.count").or_else(|| cloud::count(labels))
    else {
        return;
    };
    let is_of_these = |unit: &Unit| unit.gpu.vendor.as_str() == NVIDIA;
    let taken = found.units.iter().filter(|unit| is_of_these(unit)).filter_map(taken);
    let (slices, memory) = taken.fold((0_u64, 0_u64), |(slices, memory), (more, of_memory)| {
        (slices.saturating_add(more), memory.saturating_add(of_memory))
    });
    let most = |each: u64| devices.saturating_mul(each);
    if slices <= most(DEVICE) && memory <= most(MEMORY) {
        return;
    }
    let (these, others) = std::mem::take(&mut found.units).into_iter().partition(is_of_these);
    found.units = others;
    let reason = format!(
        "the parts and the whole ones that the node lists take more than the {devices} that the labels \
         count: one of both is out of date"
    );
    let unsold = |unit: Unit| Unsold::new(labels, &unit.resource, reason.clone());
    found.unsold.extend(Vec::into_iter(these).map(unsold));
}

/// How much of devices all of a unit take: of slices, in parts of [`DEVICE`], and of [`MEMORY`]. None for
/// what is no part of a device that is counted so.
fn taken(unit: &Unit) -> Option<(u64, u64)> {
    let model = unit.gpu.model.as_str().strip_prefix(unit.device.as_str())?;
    let (part, tenants) = match model.rsplit_once('.') {
        Some((part, last)) => match tenants(last) {
            Some(tenants) => (part, tenants),
            None => (model, 1),
        },
        None => (model, 1),
    };
    let count = unit.gpu.count.div_ceil(tenants);
    let (slices, memory) = match part.strip_prefix('.') {
        None => (DEVICE, MEMORY),
        Some(name) => of_part(unit, &Profile::mig(name)?),
    };
    Some((count.saturating_mul(slices), count.saturating_mul(memory)))
}

fn of_part(unit: &Unit, profile: &Profile) -> (u64, u64) {
    let model = unit.device.as_str();
    let fewer = FEWER.iter().find(|(name, _)| model.starts_with(name)).map(|(_, slices)| *slices);
    let slices = profile.slices.saturating_mul(DEVICE / fewer.unwrap_or(SLICES));
    let row = catalogue::called(NVIDIA, model);
    let mib = profile.least_mib().saturating_mul(profile.slices) / profile.of_slices.max(1);
    (slices, row.map_or(0, |row| mib.saturating_mul(MEMORY) / row.memory_mib))
}

/// How many share one, by the last word of a model: `ts4`, `mps2`.
fn tenants(word: &str) -> Option<u64> {
    let count = word.strip_prefix("ts").or_else(|| word.strip_prefix("mps"))?;
    count.parse().ok().filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::read;
    use super::super::unit::OwnersWord;

    /// Profiles of an A100 of 40 GB, with their slices and GiB.
    const PROFILES: [(&str, u64, u64); 5] = [
        ("1g.5gb", 1, 5),
        ("2g.10gb", 2, 10),
        ("3g.20gb", 3, 20),
        ("4g.20gb", 4, 20),
        ("7g.40gb", 7, 40),
    ];

    fn node(devices: u64, whole: u64, parts: &[u64], says: bool) -> Value {
        let mut labels = json!({
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/mig.strategy": "mixed",
            "nvidia.com/gpu.count": devices.to_string(), "nvidia.com/gpu.replicas": "1",
        });
        let mut allocatable = json!({ "nvidia.com/gpu": whole.to_string() });
        for ((profile, ..), count) in PROFILES.iter().zip(parts) {
            allocatable[format!("nvidia.com/mig-{profile}")] = count.to_string().into();
            if says {
                labels[format!("nvidia.com/mig-{profile}.count")] = count.to_string().into();
            }
        }
        json!({ "metadata": { "labels": labels }, "status": { "allocatable": allocatable } })
    }

    #[test]
    fn a_stale_count_beside_parts_that_take_all_is_believed_no_more_than_the_parts() {
        let found = read(&node(2, 2, &[14, 0, 0, 0, 0], true), &OwnersWord::default());
        assert_eq!(found.units, []);
        let said: Vec<_> = found.unsold.iter().map(|it| (it.resource.as_str(), it.count)).collect();
        assert_eq!(said, [("nvidia.com/gpu", 2), ("nvidia.com/mig-1g.5gb", 14)]);
        assert!(found.unsold[0].reason.contains("more than the 2"), "{:?}", found.unsold);
        assert!(found.has_gpus);
    }

    proptest! {
        /// What is on sale takes no more slices nor memory than there is, and what does take no more is
        /// on sale.
        #[test]
        fn parts_and_whole_ones_are_no_more_than_the_devices(
            devices in 0_u64..5,
            whole in 0_u64..5,
            parts in proptest::collection::vec(0_u64..9, PROFILES.len()),
            says in any::<bool>(),
        ) {
            let found = read(&node(devices, whole, &parts, says), &OwnersWord::default());
            let taken = |resource: &str| {
                let part = PROFILES.iter().find(|it| resource.ends_with(it.0));
                part.map_or((7, 40), |(_, slices, gib)| (*slices, *gib))
            };
            let sum = |counts: &mut dyn Iterator<Item = (String, u64)>| {
                counts.fold((0, 0), |(slices, gib), (resource, count)| {
                    let (more, of_memory) = taken(&resource);
                    (slices + count * more, gib + count * of_memory)
                })
            };
            let sold = found.units.iter().map(|unit| (unit.resource.clone(), unit.gpu.count));
            let (slices, _) = sum(&mut sold.clone());
            prop_assert!(slices <= devices * 7, "{slices} of {devices}: {found:?}");
            let listed = PROFILES.iter().zip(&parts).map(|(it, count)| (it.0.to_owned(), *count));
            let all = [("nvidia.com/gpu".to_owned(), whole)].into_iter().chain(listed);
            let (slices, gib) = sum(&mut all.clone());
            if slices <= devices * 7 && gib <= devices * 40 {
                let kinds = all.filter(|(_, count)| *count > 0).count();
                prop_assert_eq!(found.units.len(), kinds, "{:?}", found.unsold);
            }
        }
    }
}
