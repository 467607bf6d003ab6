//! Kinds of simulated nodes: plain ones, and those with devices, whose labels, annotations and
//! resources are those of the files that the reader of devices is tested with.

use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Where the kinds are, a file each.
const FILES: &str = "node/kubelet/src/inventory/gpus/fixtures";

/// So many simulated nodes of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// The name of a file of devices, such as `gfd-h100-eight`; none: nodes without any.
    pub devices: Option<String>,
    /// How many nodes of it there are.
    pub count: u32,
}

/// What of a node its kind says.
#[derive(Debug, Default)]
pub(super) struct Traits {
    pub(super) labels: Map<String, Value>,
    pub(super) annotations: Map<String, Value>,
    pub(super) spec: Map<String, Value>,
    pub(super) allocatable: Map<String, Value>,
    pub(super) capacity: Map<String, Value>,
}

impl Kind {
    /// So many nodes without devices.
    #[must_use]
    pub fn plain(count: u32) -> Self {
        Self { devices: None, count }
    }

    /// So many with the devices of that file.
    #[must_use]
    pub fn of(devices: &str, count: u32) -> Self {
        Self { devices: Some(devices.to_owned()), count }
    }

    pub(super) fn traits(&self) -> Result<Traits> {
        let Some(name) = &self.devices else { return Ok(Traits::default()) };
        let file = file(name);
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("{name} is no kind of nodes: see {FILES}"))?;
        let said: Value = serde_saphyr::from_str(&text)?;
        let fields = |pointer: &str| {
            let object = said["node"].pointer(pointer).and_then(Value::as_object);
            object.cloned().unwrap_or_default()
        };
        let allocatable = fields("/status/allocatable");
        let capacity = Some(fields("/status/capacity")).filter(|capacity| !capacity.is_empty());
        Ok(Traits {
            labels: labelled(fields("/metadata/labels")),
            annotations: fields("/metadata/annotations"),
            spec: fields("/spec"),
            capacity: capacity.unwrap_or_else(|| allocatable.clone()),
            allocatable,
        })
    }
}

/// As an API server takes it: some were published with words that discovery joins by dashes.
fn labelled(mut labels: Map<String, Value>) -> Map<String, Value> {
    for value in labels.values_mut() {
        if let Some(text) = value.as_str() {
            *value = text.replace(' ', "-").into();
        }
    }
    labels
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    /// As it is typed: `50`, or `gfd-h100-eight=2`.
    fn from_str(text: &str) -> Result<Self> {
        let count = |text: &str| text.parse().with_context(|| format!("{text} is no number"));
        let Some((devices, n)) = text.split_once('=') else { return Ok(Self::plain(count(text)?)) };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        ensure!(devices.chars().all(plain), "{devices} is no kind of nodes");
        let is_there = file(devices).exists();
        ensure!(is_there, "{devices} is no kind of nodes: see {FILES}");
        Ok(Self::of(devices, count(n)?))
    }
}

fn file(devices: &str) -> std::path::PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder above the tests");
    root.join(FILES).join(format!("{devices}.yaml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_as_they_are_typed() {
        assert_eq!("50".parse::<Kind>().unwrap(), Kind::plain(50));
        let kind: Kind = "gfd-h100-eight=2".parse().unwrap();
        assert_eq!(kind, Kind::of("gfd-h100-eight", 2));
        let traits = kind.traits().unwrap();
        assert_eq!(traits.labels["nvidia.com/gpu.product"], "NVIDIA-H100-80GB-HBM3");
        assert_eq!(traits.capacity["nvidia.com/gpu"], "8");
        for wrong in ["x", "no-such-kind=1", "../h100=1", "gfd-h100-eight=x"] {
            assert!(wrong.parse::<Kind>().is_err(), "{wrong}");
        }
    }
}
