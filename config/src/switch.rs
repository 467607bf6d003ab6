//! What may be turned off.

use serde::Deserialize;

/// On unless it is turned off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Switch {
    /// It is on, which is the default.
    #[default]
    On,
    /// It is off, whatever there is.
    Off,
}
