//! What the owner is told of the devices of the nodes.

use mercato_protocol::text::GpuModel;
use serde::{Deserialize, Serialize};

/// GPUs of one model, on all nodes that are open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Devices {
    /// As the market calls them.
    pub(crate) model: GpuModel,
    /// How many there are, whoever uses them.
    pub(crate) count: u64,
}
