//! Intel's GPUs, as the rules of its device plugins label them: whole ones, unless the plugin is
//! told that several may share one.

use super::catalogue;
use super::cloud;
use super::judge::{Device, Of, Said, Sharing};
use super::labels::Labels;
use super::unit::Unsold;

/// The vendor, as rows have it.
const INTEL: &str = "intel";
/// What its resources and labels begin with.
const PREFIX: &str = "gpu.intel.com/";

/// What labels say of each of a node's resources.
pub(super) fn said<'a>(labels: &Labels<'a>) -> Vec<Result<Said<'a>, Unsold>> {
    let resources = labels.resources(PREFIX).into_iter();
    let each = resources.map(|resource| {
        of_resource(labels, resource).map_err(|reason| Unsold::new(labels, resource, reason))
    });
    each.collect()
}

fn of_resource<'a>(labels: &Labels<'a>, resource: &'a str) -> Result<Said<'a>, String> {
    match resource.strip_prefix(PREFIX) {
        Some("i915" | "xe") => {}
        Some(name) if name.ends_with("monitoring") => {
            return Err("it is for those who watch all devices".to_owned());
        }
        _ => return Err("it is a part of one that Mercato does not know".to_owned()),
    }
    if ["millicores", "memory.max", "tiles"]
        .iter()
        .any(|it| labels.amount(&format!("{PREFIX}{it}")) > 0)
    {
        return Err(
            "shared by Intel's GPU-aware scheduling, which Mercato does not speak".to_owned()
        );
    }
    if labels.amount("gpu.intel.com/i915") > 0 && labels.amount("gpu.intel.com/xe") > 0 {
        return Err("the node has devices of two drivers, and labels of one".to_owned());
    }
    let mut ids: Vec<_> = labels
        .after("gpu.intel.com/device-id.")
        .filter_map(|(key, _)| {
            let (class_and_id, _) = key.split_once('.')?;
            class_and_id.split_once('-')
        })
        .collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() > 1 {
        let all: Vec<_> = ids.iter().map(|(_, id)| *id).collect();
        return Err(format!("the node has several kinds: {}", all.join(", ")));
    }
    let product = labels.text("gpu.intel.com/product");
    let by_name = product.and_then(|name| catalogue::product(INTEL, name));
    let by_id = ids.first().and_then(|(_, id)| catalogue::alias(INTEL, &format!("pci:{id}"), None));
    let device = match (by_name, by_id) {
        (Some(name), Some(id)) if name != id => {
            return Err(format!("its labels tell of {}, and of {}", name.model, id.model));
        }
        (Some(row), _) | (None, Some(row)) => Device::Known(row),
        (None, None) => {
            let Some(name) = product.or(ids.first().map(|(_, id)| *id)) else {
                return Ok(cloud::said(labels, INTEL, resource));
            };
            Device::Unknown(format!("{name} is no GPU that Mercato knows"))
        }
    };
    let count = ids.first().map(|(class, id)| format!("{PREFIX}device-id.{class}-{id}.count"));
    let there_are = labels.number("gpu.intel.com/device.count");
    let there_are = there_are.or_else(|| labels.number(&count?));
    let sharing = match there_are {
        Some(_) => Sharing::Alone,
        None => Sharing::Unclear(
            "no label says how many there are, or whether they are shared".to_owned(),
        ),
    };
    Ok(Said {
        vendor: INTEL,
        resource,
        product: product.or(ids.first().map(|(_, id)| *id)).unwrap_or_default().to_owned(),
        device,
        of: Of::Whole,
        sharing,
        there_are,
        memory_mib: None,
        driver: None,
        cuda: None,
        compute_capability: None,
    })
}
