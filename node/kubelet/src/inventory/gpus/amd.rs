//! AMD's GPUs, as its node labeller labels them and its device plugin lists them: whole, and as
//! partitions, under one resource or under one for each way to partition them.

use std::collections::BTreeMap;

use mercato_protocol::gpu::GpuIsolation;

use super::catalogue::{self, Row};
use super::cloud;
use super::cut::Profile;
use super::judge::{Device, Of, Said, Sharing};
use super::labels::{self, Labels};
use super::unit::Unsold;
use crate::limits::GPUS_OF_NODE;

/// The vendor, as rows have it.
const AMD: &str = "amd";
/// All devices, or all partitions of a node.
const GPU: &str = "amd.com/gpu";
/// Labels of one property: what a node has of one kind has it as value, and else it is in the key.
const PREFIXES: [&str; 2] = ["amd.com/gpu", "beta.amd.com/gpu"];
/// How the compute dies of a device are grouped, and into how many partitions; as many as there are
/// dies for the last, which is each device's.
const MODES: [(&str, u64); 4] = [("spx", 1), ("dpx", 2), ("tpx", 3), ("qpx", 4)];
/// Dies of those devices that can be partitioned into each of them.
const DIES: [(&str, u64); 6] =
    [("mi300a", 6), ("mi300x", 8), ("mi308x", 4), ("mi325x", 8), ("mi350x", 8), ("mi355x", 8)];

/// What labels say of each of a node's resources.
pub(super) fn said<'a>(labels: &Labels<'a>) -> Vec<Result<Said<'a>, Unsold>> {
    let resources = labels.resources("amd.com/");
    if resources.is_empty() {
        return cloud::without_resource(labels, AMD, GPU).map(Err).into_iter().collect();
    }
    let each = resources.into_iter().map(|resource| {
        of_resource(labels, resource).map_err(|reason| Unsold::new(labels, resource, reason))
    });
    each.collect()
}

fn of_resource<'a>(labels: &Labels<'a>, resource: &'a str) -> Result<Said<'a>, String> {
    let name = resource.strip_prefix("amd.com/").unwrap_or(resource);
    let labelled = ["amd.com/compute-memory-partition", "amd.com/gpu.compute-memory-partition"];
    let labelled = labelled.into_iter().find_map(|key| labels.text(key));
    let partition = match name {
        "gpu" => labelled,
        _ if mode(name).is_some() => Some(name),
        _ if labels::is_no_gpu(resource) => return Err("it is no GPU".to_owned()),
        _ => return Err("it is no GPU that containers use, as far as Mercato knows".to_owned()),
    };
    let said = device(labels, resource)?;
    let Some(partition) = partition else {
        return match labels.amount(resource) > GPUS_OF_NODE {
            true => Err("more than a node has, and no label says whether they are partitions: \
                have the node labeller write compute-memory-partition"
                .to_owned()),
            false => Ok(said),
        };
    };
    let (mode, memory) =
        mode(partition).ok_or_else(|| format!("AMD has no partition {partition}"))?;
    if mode == "spx" {
        return Ok(said);
    }
    let Device::Known(row) = said.device else {
        return Err(format!("partitioned ({partition}), and {} is not known", said.product));
    };
    let parts = parts(row, mode).ok_or_else(|| format!("{} has no {partition}", said.product))?;
    // Partitions that share a part of the memory are kept to theirs by the driver alone.
    let isolation = if memory >= parts { GpuIsolation::Hardware } else { GpuIsolation::Limit };
    let gib = row.memory_mib / parts / 1024;
    let (name, slug) = (partition.to_owned(), mode.to_owned());
    let profile = Profile { name, slug, gib, slices: 1, of_slices: 1 };
    // What the labels count are devices in some versions, and partitions in others.
    let there_are = said.there_are.map(|there_are| there_are.saturating_mul(parts));
    // Of a memory that all share, the labels tell all; in some versions also where each has its own.
    let own = |mib: u64| if row.has(mib) { mib / parts } else { mib };
    let memory_mib = said.memory_mib.filter(|_| memory > 1).map(own);
    Ok(Said { of: Of::Part(profile, isolation), there_are, memory_mib, ..said })
}

/// A device as labels tell of it, by its id rather than its name: drivers know the former.
fn device<'a>(labels: &Labels<'a>, resource: &'a str) -> Result<Said<'a>, String> {
    let (names, ids) = (kinds(labels, "product-name")?, kinds(labels, "device-id")?);
    let name = names.as_ref().map(|(name, _)| *name);
    let by_name = name.and_then(|name| catalogue::product(AMD, name));
    let by_id = ids.as_ref().and_then(|(id, _)| {
        let id = id.trim_start_matches("0x").to_ascii_lowercase();
        catalogue::alias(AMD, &format!("pci:{id}"), None)
    });
    let row = match (by_name, by_id) {
        (Some(name), Some(id)) if name != id => {
            return Err(format!("its labels tell of {}, and of {}", name.model, id.model));
        }
        (name, id) => name.or(id),
    };
    let product = name.or(ids.as_ref().map(|(id, _)| *id)).unwrap_or_default();
    let device = match row {
        Some(row) => Device::Known(row),
        None if product.is_empty() => return Ok(cloud::said(labels, AMD, resource)),
        None => Device::Unknown(format!("{product} is no GPU that Mercato knows")),
    };
    // Whole devices and partitions of one node differ in that.
    let vram = kinds(labels, "vram").ok().flatten();
    let memory_mib =
        vram.and_then(|(vram, _)| Some(vram.strip_suffix('G')?.parse::<u64>().ok()? * 1024));
    Ok(Said {
        vendor: AMD,
        resource,
        product: product.to_owned(),
        device,
        of: Of::Whole,
        sharing: Sharing::Alone,
        there_are: ids.or(names).and_then(|(_, count)| count),
        memory_mib,
        driver: labels.text("amd.com/gpu.driver-version").map(str::to_owned),
        cuda: None,
        compute_capability: None,
    })
}

/// The one value that a property has on the node, and of how many devices. Of several values it is
/// not told which devices a pod gets.
fn kinds<'a>(
    labels: &Labels<'a>,
    property: &str,
) -> Result<Option<(&'a str, Option<u64>)>, String> {
    let mut kinds: BTreeMap<&str, Option<u64>> = BTreeMap::new();
    for prefix in PREFIXES {
        let key = format!("{prefix}.{property}");
        if let Some(value) = labels.text(&key) {
            kinds.entry(value).or_default();
        }
        let dotted = format!("{key}.");
        for (value, count) in labels.after(prefix).filter_map(|(after, count)| {
            let after = after.strip_prefix(&dotted[prefix.len()..])?;
            Some((after, count.parse().ok()))
        }) {
            kinds.insert(value, count);
        }
    }
    if kinds.len() > 1 {
        let all: Vec<_> = kinds.keys().copied().collect();
        return Err(format!("the node has several kinds: {}", all.join(", ")));
    }
    Ok(kinds.pop_first())
}

/// `cpx_nps4` is a mode of compute, and the memory in four parts.
fn mode(partition: &str) -> Option<(&str, u64)> {
    let (mode, memory) = partition.split_once('_')?;
    let known = mode == "cpx" || MODES.iter().any(|(name, _)| *name == mode);
    Some((mode, memory.strip_prefix("nps")?.parse().ok()?)).filter(|_| known)
}

/// How many partitions such a device has in that mode.
fn parts(row: &Row, mode: &str) -> Option<u64> {
    let (_, dies) = DIES.iter().find(|(model, _)| *model == row.model.as_str())?;
    match mode {
        "cpx" => Some(*dies),
        _ => MODES.iter().find(|(name, _)| *name == mode).map(|(_, parts)| *parts),
    }
}
