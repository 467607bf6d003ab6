//! What the owner says of GPUs that labels of nodes cannot say.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::text::GpuModel;
use serde::{Deserialize, Serialize};

use crate::limits;

/// What the owner says of the devices of the cluster's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DevicePolicy {
    /// What products that no table knows, or types of nodes whose labels name no product, are
    /// called on the market. Buyers are told that it is the owner's word.
    pub models: BTreeMap<String, GpuModel>,
    /// Devices that several pods share, and that are sold all the same: `t4.ts4`, `l4.mps2`.
    pub shared: BTreeSet<GpuModel>,
    /// Processors and memory of nodes with GPUs are sold by themselves as well, not only with
    /// their GPUs.
    pub any_node: bool,
    /// Taints of nodes that keep no guests off: `key`, or `key=value`.
    pub tolerate: BTreeSet<String>,
    /// The runtime class of guests that ask for devices; none: that of all guests.
    pub runtime_class: Option<String>,
}

impl DevicePolicy {
    /// Whether it has no more entries than may be, and none that is longer than what it names can be.
    pub(super) fn is_short(&self) -> bool {
        let products = self.models.keys().all(|product| product.len() <= limits::PRODUCT_BYTES);
        let taints = self.tolerate.iter().all(|taint| taint.len() <= limits::TAINT_BYTES);
        let class = self.runtime_class.iter().all(|name| name.len() <= limits::CLASS_BYTES);
        let longest = self.models.len().max(self.shared.len()).max(self.tolerate.len());
        let is_few = longest <= limits::DEVICE_WORDS;
        products && taints && class && is_few
    }
}
