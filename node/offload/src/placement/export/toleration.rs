//! By what a pod may be bound to virtual nodes.

use serde_json::{Value, json};

use crate::forge::labels::PROVIDER;

/// What the webhook has a pod tolerate that may leave.
pub(super) fn toleration() -> Value {
    json!({ "key": PROVIDER, "operator": "Exists", "effect": "NoSchedule" })
}

/// Whether the webhook let it leave, and a scheduler has chosen its node; whoever names that itself is not asked.
pub(super) fn was_let_leave(pod: &Value) -> bool {
    pod["spec"]["tolerations"].as_array().is_some_and(|all| all.contains(&toleration()))
}
