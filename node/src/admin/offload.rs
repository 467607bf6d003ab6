//! How the pods of a namespace may leave home.

use mercato_offload::placement::export::OptIn;
use serde::{Deserialize, Serialize};

/// How a namespace may leave home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Offload {
    /// The namespace, by its name at home.
    pub(crate) namespace: String,
    /// How its pods may leave, as its owner allows.
    #[serde(flatten)]
    pub(crate) how: OptIn,
    /// Where the namespace may leave home already, what was said of it stays.
    #[serde(default)]
    pub(crate) further: bool,
}
