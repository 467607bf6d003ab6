//! What may be turned off.

use serde::Deserialize;

/// On unless it is turned off. To readers of YAML 1.1, which Helm is, the bare words are truths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Switch {
    /// It is on, which is the default.
    #[default]
    #[serde(alias = "true")]
    On,
    /// It is off, whatever there is.
    #[serde(alias = "false")]
    Off,
}
