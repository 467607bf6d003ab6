//! Label sets as they were published, each a file beside its source, and what they come to.

use std::path::Path;

use mercato_protocol::gpu::{GpuIsolation, GpuMode, GpuPool, GpuSource};
use mercato_protocol::text::GpuModel;
use serde::Deserialize;
use serde_json::Value;

use super::*;

/// One file of `fixtures/`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    /// A repository and a path or thread, or a page of documentation.
    source: String,
    /// What of the node its source does not show.
    #[serde(default)]
    added: String,
    node: Value,
    /// What is sold: count, resource, model, cut, isolation, memory of one.
    #[serde(default)]
    sold: Vec<String>,
    /// What is not: count, resource, a part of the reason, and the line if there is one.
    #[serde(default)]
    unsold: Vec<String>,
    /// Models that the owner sells although several share a device.
    #[serde(default)]
    shared: Vec<GpuModel>,
}

const BY_HAND: &str = "made by hand";

fn fixtures() -> Vec<(String, Fixture)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/inventory/gpus/fixtures");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut all: Vec<_> = files
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let fixture = serde_saphyr::from_str(&text);
            (name.clone(), fixture.unwrap_or_else(|error| panic!("{name}: {error}")))
        })
        .collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all
}

fn shown(unit: &Unit) -> String {
    let GpuPool { model, count, memory_mib, isolation, .. } = &unit.gpu;
    let (cut, isolation) = (format!("{:?}", unit.cut), format!("{isolation:?}"));
    let words = format!("{count} {} {model} {cut} {isolation} {memory_mib}", unit.resource);
    words.to_lowercase()
}

#[test]
fn each_label_set_is_sold_as_what_it_is_or_not_at_all() {
    for (name, fixture) in fixtures() {
        let word =
            OwnersWord { shared: fixture.shared.into_iter().collect(), ..OwnersWord::default() };
        let found = read(&fixture.node, &word);
        let sold: Vec<_> = found.units.iter().map(shown).collect();
        assert_eq!(sold, fixture.sold, "{name}: {found:?}");
        assert_eq!(found.unsold.len(), fixture.unsold.len(), "{name}: {:?}", found.unsold);
        for (unsold, expected) in found.unsold.iter().zip(&fixture.unsold) {
            let (of, says) = expected.split_once(": ").expect(&name);
            let (says, line) = match says.split_once(" | ") {
                Some((says, line)) => (says, Some(line)),
                None => (says, None),
            };
            assert_eq!(format!("{} {}", unsold.count, unsold.resource), of, "{name}");
            assert!(unsold.reason.contains(says), "{name}: {unsold:?}");
            assert_eq!(unsold.line.as_deref(), line, "{name}: {}", unsold.reason);
        }
        let expected = !fixture.sold.is_empty() || !fixture.unsold.is_empty();
        assert_eq!(found.has_gpus, expected, "{name}");
    }
}

#[test]
fn fixtures_have_sources_and_show_each_kind() {
    let all = fixtures();
    assert!(all.iter().all(|(_, fixture)| !fixture.source.is_empty()));
    let published = all.iter().filter(|(_, fixture)| fixture.source != BY_HAND);
    assert!(published.count() >= 45);
    let kept = |(name, fixture): &(String, Fixture)| {
        let status = fixture.added.is_empty() || fixture.added == "status";
        assert!(status, "{name} says that it adds {}", fixture.added);
    };
    all.iter().for_each(kept);
}

/// Whatever the labels say, what is sold in all is no more than pods may ask for, and a resource is
/// sold as one thing or not at all.
#[test]
fn nothing_is_sold_twice_nor_forgotten() {
    for (name, fixture) in fixtures() {
        let found = read(&fixture.node, &OwnersWord::default());
        let mut told: Vec<_> = found.units.iter().map(|unit| unit.resource.as_str()).collect();
        told.extend(found.unsold.iter().map(|unsold| unsold.resource.as_str()));
        told.sort_unstable();
        assert!(told.is_sorted_by(|a, b| a < b), "{name}: each resource once: {told:?}");
        let allocatable = fixture.node["status"]["allocatable"].as_object();
        for (resource, count) in allocatable.into_iter().flatten() {
            let vendors = ["nvidia.com/", "amd.com/", "gpu.intel.com/"];
            let some = count.as_str() != Some("0") && count.as_u64() != Some(0);
            if some && vendors.iter().any(|vendor| resource.starts_with(vendor)) {
                assert!(told.contains(&resource.as_str()), "{name} forgets {resource}");
            }
        }
        for unit in &found.units {
            let count = &fixture.node["status"]["allocatable"][&unit.resource];
            assert_eq!(count.as_str(), Some(unit.gpu.count.to_string().as_str()), "{name}");
            let (whole, part) =
                (unit.cut == Cut::Whole, mercato_protocol::gpu::part(&unit.gpu.model));
            assert_eq!(whole, part.is_none(), "{name}: {}", unit.gpu.model);
            assert_eq!(whole, unit.gpu.mode == GpuMode::Exclusive, "{name}");
            assert!(unit.cut != Cut::Shared && unit.gpu.isolation != GpuIsolation::None, "{name}");
        }
    }
}

/// The device plugin may list more than there are without a word in the labels, or the labels may
/// be those of yesterday: more of any resource is never more whole devices.
#[test]
fn a_node_that_lists_more_than_its_labels_tell_of_sells_none() {
    for (name, mut fixture) in fixtures() {
        for unit in read(&fixture.node, &OwnersWord::default()).units {
            fixture.node["status"]["allocatable"][&unit.resource] = "4096".into();
            let found = read(&fixture.node, &OwnersWord::default());
            let sold = found.units.iter().any(|again| again.resource == unit.resource);
            assert!(!sold, "{name} sells 4096 {}", unit.gpu.model);
        }
    }
}

#[test]
fn the_owner_says_what_a_product_is() {
    let node = serde_json::json!({
        "metadata": { "labels": {
            "nvidia.com/gpu.product": "NVIDIA-GB300",
            "nvidia.com/gpu.count": "8",
            "nvidia.com/gpu.replicas": "1",
            "nvidia.com/gpu.memory": "275040",
        } },
        "status": { "allocatable": { "nvidia.com/gpu": "8" } },
    });
    let [unsold] = &read(&node, &OwnersWord::default()).unsold[..] else { panic!("one") };
    assert_eq!(unsold.line.as_deref(), Some("share.gpuModels: {NVIDIA-GB300: gb300}"));
    let models = [("NVIDIA-GB300".to_owned(), "gb300".parse().unwrap())].into();
    let found = read(&node, &OwnersWord { models, ..OwnersWord::default() });
    let [unit] = &found.units[..] else { panic!("one: {:?}", found.unsold) };
    assert_eq!((unit.gpu.model.as_str(), unit.gpu.source), ("gb300", GpuSource::Manual));
    assert_eq!((unit.gpu.count, unit.gpu.memory_mib), (8, 275_040));
}
