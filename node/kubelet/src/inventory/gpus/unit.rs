//! What is found on a node: units that are sold, and devices that are not.

use std::collections::{BTreeMap, BTreeSet};

use mercato_offload::placement::Taint;
use mercato_protocol::gpu::GpuPool;
use mercato_protocol::text::GpuModel;

use super::labels::Labels;
use crate::inventory::SharedStorage;

/// What the owner says of devices, which labels cannot say; and of storage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnersWord {
    /// What a product that is not known, or a type of nodes whose labels name no product, is
    /// called on the market.
    pub models: BTreeMap<String, GpuModel>,
    /// Devices that several share, and that are sold all the same, as models such as `t4.ts4`.
    pub shared: BTreeSet<GpuModel>,
    /// Processors of nodes with GPUs are sold by themselves as well.
    pub any_node: bool,
    /// Taints that keep no guests off.
    pub tolerate: BTreeSet<Taint>,
    /// The runtime class of guests that ask for devices.
    pub runtime_class: Option<String>,
    /// The class of storage that is shared.
    pub storage: SharedStorage,
}

/// What a node has of GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// What is sold, a row for each resource of the node, none of it zero.
    pub units: Vec<Unit>,
    /// What is not sold, and why not.
    pub unsold: Vec<Unsold>,
    /// Whether there are GPUs at all, sold or not: such a node is in no pool of processors alone.
    pub has_gpus: bool,
}

/// Like units of one node, that pods ask for by one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// What pods ask for, such as `nvidia.com/mig-1g.5gb`.
    pub resource: String,
    /// The whole device, as the market calls it.
    pub device: GpuModel,
    /// How much of the device a unit is.
    pub cut: Cut,
    /// What is advertised of them, with their count on this node.
    pub gpu: GpuPool,
}

/// How much of a device a unit is. Units of one pool are alike in that, or are both whole devices
/// and parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// The device is all the unit's.
    Whole,
    /// A part that the hardware makes.
    Part,
    /// A turn on the device, or a limited share, beside others.
    Shared,
    /// A virtual device that a hypervisor makes.
    Virtual,
}

/// Devices of a node that are not sold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unsold {
    /// What pods ask for, such as `nvidia.com/gpu`.
    pub resource: String,
    /// How many the node lists; zero where labels alone tell of them.
    pub count: u64,
    /// Why they are not sold, in words that begin small.
    pub reason: String,
    /// What the owner may write to sell them, if that helps.
    pub line: Option<String>,
}

impl Unsold {
    /// Not sold for this reason, as many as the node lists.
    pub(super) fn new(labels: &Labels<'_>, resource: &str, reason: impl Into<String>) -> Self {
        let count = labels.amount(resource).max(labels.capacity(resource));
        Self { resource: resource.to_owned(), count, reason: reason.into(), line: None }
    }
}
