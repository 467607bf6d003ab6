//! What becomes of a namespace's pods on a virtual node that leaves, as an annotation of it says.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Whether pods move away from a node whose lease ends soon.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WhenLeaving {
    /// They are evicted, as budgets and room let it.
    #[default]
    Move,
    /// They run as long as they can, and are deleted just before the end.
    Stay,
}

impl WhenLeaving {
    /// As the annotation says it; none where it is what it is without one.
    pub(super) fn mark(self) -> Value {
        if self == Self::Stay { json!("stay") } else { Value::Null }
    }

    /// What the annotation says; anything else is as without one.
    pub(super) fn parse(mark: &Value) -> Self {
        if mark == "stay" { Self::Stay } else { Self::Move }
    }
}
