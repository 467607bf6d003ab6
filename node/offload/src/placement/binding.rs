//! How guests find the nodes of the pool that was bought, and no others: by labels that those nodes
//! have, by the resources under which pods ask for their devices, and by taints that keep others off.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::gpu::is_a;
use mercato_protocol::text::{GpuModel, PoolId};
use serde::Serialize;
use serde_json::{Value, json};

use super::node_labels::NodeLabels;

/// The resource by which pods ask for GPUs where nobody says another: NVIDIA's whole ones.
pub const GPUS: &str = "nvidia.com/gpu";

/// What binds guests to the nodes of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// What each node of the pool is like, and none of another is: all of it.
    pub nodes: Vec<NodeRequirement>,
    /// By model, the resource that pods ask for: `nvidia.com/mig-1g.10gb`.
    pub resources: BTreeMap<GpuModel, String>,
    /// Taints of its nodes that the owner lets guests tolerate.
    pub taints: BTreeSet<Taint>,
    /// The runtime class of guests that ask for devices; none: that of all guests.
    pub runtime_class: Option<String>,
    /// The cluster has devices of NVIDIA's now, which a container might see that asks for none.
    pub hides_devices: bool,
    /// What its nodes say alike of themselves, for home. Guests do not depend on it.
    pub said: NodeLabels,
}

/// A term of a node affinity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NodeRequirement {
    /// The key of a label.
    pub key: String,
    /// How its value is compared.
    pub operator: NodeOperator,
    /// With which values; none for an operator that needs none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// How the value of a node's label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum NodeOperator {
    /// It is one of the values.
    In,
    /// It is none of the values, or there is no such label.
    NotIn,
    /// There is no such label.
    DoesNotExist,
}

/// A taint with the effect `NoSchedule`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// The key of the taint.
    pub key: String,
    /// Its value; empty: it has none.
    pub value: String,
}

impl NodeRequirement {
    /// Whether a node with these labels meets it.
    pub fn is_met(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            NodeOperator::In => value.is_some_and(|value| self.values.contains(value)),
            NodeOperator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            NodeOperator::DoesNotExist => value.is_none(),
        }
    }
}

impl Taint {
    /// What a pod has that it does not keep off.
    pub(crate) fn toleration(&self) -> Value {
        let Self { key, value } = self;
        json!({ "key": key, "operator": "Equal", "value": value, "effect": "NoSchedule" })
    }
}

impl Binding {
    /// That of a pool of which so many GPUs were bought, or of one that has taken its place under a
    /// longer name and has such. None: the cluster has no such node.
    pub fn of(
        bindings: &BTreeMap<PoolId, Self>,
        pool: &PoolId,
        gpus: &BTreeMap<GpuModel, u64>,
    ) -> Option<Self> {
        if let Some(binding) = bindings.get(pool) {
            return Some(binding.clone());
        }
        let is_longer = |id: &PoolId| {
            let rest = id.as_str().strip_prefix(pool.as_str());
            rest.is_some_and(|rest| rest.starts_with(['-', '.']))
        };
        let heirs = bindings.iter().filter(|(id, _)| is_longer(id));
        heirs.map(|(_, binding)| binding).find_map(|binding| binding.with(gpus))
    }

    /// With the resources of these models, each of which is one of its own or a family of one.
    fn with(&self, asked: &BTreeMap<GpuModel, u64>) -> Option<Self> {
        let mut binding = self.clone();
        for model in asked.keys() {
            let (_, resource) = self.resources.iter().find(|(own, _)| is_a(own, model))?;
            binding.resources.insert(model.clone(), resource.clone());
        }
        (!asked.is_empty()).then_some(binding)
    }

    /// The resource by which pods ask for a model.
    pub fn resource(&self, model: &GpuModel) -> &str {
        self.resources.get(model).map_or(GPUS, String::as_str)
    }
}

/// Keys of taints that keep off pods which do not ask for a device: its resource, as Kubernetes' own
/// admission has it where that is switched on, and its vendor's usual one, also where a part has a
/// resource of its own.
pub fn taints_of_device(resource: &str) -> BTreeSet<&str> {
    let vendor = ["nvidia.com/", "amd.com/"].into_iter().find(|it| resource.starts_with(it));
    let usual = match vendor {
        Some("nvidia.com/") => Some("nvidia.com/gpu"),
        Some(_) => Some("amd.com/gpu"),
        None => None,
    };
    usual.into_iter().chain([resource]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bindings() -> BTreeMap<PoolId, Binding> {
        let of = |id: &str, model: &str, resource: &str| {
            let resources = [(model.parse().unwrap(), resource.to_owned())].into();
            (id.parse().unwrap(), Binding { resources, ..Binding::default() })
        };
        [
            of("amd64-h100-80gb-sxm", "h100-80gb-sxm", "nvidia.com/gpu"),
            of("amd64-h100-80gb-sxm-mixed", "h100-80gb-sxm.1g.10gb", "nvidia.com/mig-1g.10gb"),
        ]
        .into()
    }

    #[test]
    fn a_pool_of_an_earlier_name_is_the_one_that_has_what_was_bought() {
        let find = |pool: &str, model: &str| {
            let gpus = [(model.parse().unwrap(), 1)].into();
            let found = Binding::of(&bindings(), &pool.parse().unwrap(), &gpus)?;
            Some(found.resource(&model.parse().unwrap()).to_owned())
        };
        let whole = Some("nvidia.com/gpu".to_owned());
        assert_eq!(find("amd64-h100-80gb-sxm", "h100-80gb-sxm"), whole);
        assert_eq!(find("amd64-h100", "h100"), whole);
        let part = Some("nvidia.com/mig-1g.10gb".to_owned());
        assert_eq!(find("amd64-h100", "h100.1g.10gb"), part);
        assert_eq!(find("amd64-l4", "l4"), None);
        assert_eq!(find("amd64-h1", "h100"), None, "no word of the name");
    }

    #[test]
    fn the_taint_of_a_vendor_is_that_of_its_parts_too() {
        let keys = |resource| taints_of_device(resource).into_iter().collect::<Vec<_>>();
        assert_eq!(keys("nvidia.com/mig-1g.10gb"), ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb"]);
        assert_eq!(keys("amd.com/gpu"), ["amd.com/gpu"]);
        assert_eq!(keys("gpu.intel.com/xe"), ["gpu.intel.com/xe"]);
    }
}
