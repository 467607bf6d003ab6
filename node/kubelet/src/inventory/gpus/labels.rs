//! What of a node tells of devices: labels, annotations, and the resources that pods ask for.

use mercato_protocol::quantity;
use serde_json::{Map, Value};

/// What of a node is read.
pub(super) struct Labels<'a> {
    labels: &'a Value,
    annotations: &'a Value,
    allocatable: &'a Value,
    capacity: &'a Value,
}

impl<'a> Labels<'a> {
    pub(super) fn of(node: &'a Value) -> Self {
        let (metadata, status) = (&node["metadata"], &node["status"]);
        Self {
            labels: &metadata["labels"],
            annotations: &metadata["annotations"],
            allocatable: &status["allocatable"],
            capacity: &status["capacity"],
        }
    }

    /// A label's value, unless it is empty.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.labels[key].as_str().filter(|text| !text.is_empty())
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }

    /// What follows such a prefix in keys of labels, with the label's value.
    pub(super) fn after(&self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let after = move |(key, value): (&'a String, &'a Value)| {
            Some((key.strip_prefix(prefix)?, value.as_str()?))
        };
        fields(self.labels).filter_map(after)
    }

    pub(super) fn annotations(&self) -> impl Iterator<Item = &'a str> {
        fields(self.annotations).map(|(key, _)| key.as_str())
    }

    /// The resources with such a prefix of which the node has, or had, any.
    pub(super) fn resources(&self, prefix: &'a str) -> Vec<&'a str> {
        let both = fields(self.allocatable).chain(fields(self.capacity));
        let names = both.map(|(name, _)| name.as_str()).filter(|name| name.starts_with(prefix));
        let some = |name: &&str| self.amount(name) > 0 || self.capacity(name) > 0;
        let mut names: Vec<_> = names.filter(some).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// How many pods may ask for.
    pub(super) fn amount(&self, resource: &str) -> u64 {
        amount(self.allocatable, resource)
    }

    /// How many there are, whether they work or not.
    pub(super) fn capacity(&self, resource: &str) -> u64 {
        amount(self.capacity, resource)
    }

    /// The kind of machine that the node is, as its cloud calls it.
    pub(super) fn instance_type(&self) -> Option<&'a str> {
        let both = ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"];
        both.into_iter().find_map(|key| self.text(key))
    }
}

/// Resources beside GPUs that vendors of GPUs have: network cards and what watches devices.
pub(super) fn is_no_gpu(resource: &str) -> bool {
    let name = resource.split_once('/').map_or(resource, |(_, name)| name);
    let parts = ["hostdev", "rdma", "mlnx", "nic", "sriov", "nvswitch"];
    name.ends_with("monitoring") || parts.iter().any(|part| name.contains(part))
}

fn amount(amounts: &Value, resource: &str) -> u64 {
    let amount = &amounts[resource];
    amount.as_u64().or_else(|| amount.as_str().and_then(quantity::units)).unwrap_or(0)
}

fn fields(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flat_map(Map::iter)
}
