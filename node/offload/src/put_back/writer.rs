//! Whose program has changed an object last, as the API server has it.

use serde_json::Value;

use crate::forge::labels::FIELD_MANAGER;

/// The field manager that wrote last to what of an object was written by us, other than we; none if
/// the API server names none. One that owns nothing of that is named only where no other is.
pub fn writer(present: &Value, written: &Value) -> Option<String> {
    let others = present["metadata"]["managedFields"].as_array().into_iter().flatten();
    let others = others.filter(|entry| {
        let is_status = entry["subresource"].as_str().is_some_and(|it| !it.is_empty());
        entry["manager"] != FIELD_MANAGER && !is_status
    });
    let owns = |entry: &Value| {
        let fields = written.as_object().into_iter().flatten().map(|(name, _)| name);
        let mut ours = fields.filter(|name| *name != "metadata");
        ours.any(|name| entry["fieldsV1"].get(format!("f:{name}")).is_some())
    };
    // Times are of one form, and compare as text.
    let last =
        others.max_by_key(|entry| (owns(entry), entry["time"].as_str().map(str::to_owned)))?;
    Some(last["manager"].as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, minute: u32, fields: &Value) -> Value {
        json!({ "manager": manager, "operation": "Update",
            "time": format!("2026-01-01T00:{minute:02}:00Z"), "fieldsV1": fields })
    }

    #[test]
    fn the_last_other_manager_of_what_is_ours_is_named() {
        let spec = json!({ "f:spec": { "f:hard": { "f:pods": {} } } });
        let label = json!({ "f:metadata": { "f:labels": { "f:team": {} } } });
        let mut status = entry("kube-controller-manager", 9, &json!({ "f:spec": {} }));
        status["subresource"] = "status".into();
        let mut all = vec![
            entry("mercato", 8, &spec),
            status,
            entry("kubectl-edit", 2, &spec),
            entry("helm", 1, &spec),
            entry("argocd", 7, &label),
        ];
        let named = |all: &[Value]| {
            let present = json!({ "metadata": { "managedFields": all } });
            writer(&present, &json!({ "metadata": {}, "spec": {} }))
        };
        assert_eq!(named(&all).as_deref(), Some("kubectl-edit"));
        all.retain(|entry| !["helm", "kubectl-edit"].contains(&entry["manager"].as_str().unwrap()));
        assert_eq!(named(&all).as_deref(), Some("argocd"));
        all.truncate(2);
        assert_eq!(named(&all), None);
        assert_eq!(writer(&json!({}), &json!({ "spec": {} })), None);
    }
}
